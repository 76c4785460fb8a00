#include "kernels/widen.h"

#include "kernels/rows.h"
#include "kernels/targets.h"
#include "kernels/widen_element.h"

namespace lockstep::kernels {

void WidenToI32(const void* in, int32_t* out, size_t count, DType from) {
  WithNarrowInteger(from, [&](auto tag) {
    const auto* narrow = static_cast<const typename decltype(tag)::type*>(in);
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < count; ++i) out[i] = ToI32(narrow[i]);
  });
}

void NarrowFromI32(const int32_t* in, void* out, size_t count, DType to) {
  WithNarrowInteger(to, [&](auto tag) {
    using To = typename decltype(tag)::type;
    To* narrow = static_cast<To*>(out);
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < count; ++i) narrow[i] = FromI32<To>(in[i]);
  });
}

void ConvertToF32(const void* in, float* out, size_t count, DType from) {
  WithIntegerOrF32(from, [&](auto tag) {
    const auto* number = static_cast<const typename decltype(tag)::type*>(in);
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < count; ++i) out[i] = RoundedToF32(number[i]);
  });
}

void ScaleF32(float* data, size_t count, float factor) {
  ScaleRow(data, factor, data, count);
}

}  // namespace lockstep::kernels
