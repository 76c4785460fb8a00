#include "kernels/arg_extremum.h"

#include "kernels/extremum_element.h"
#include "kernels/targets.h"

namespace lockstep::kernels {

void MarkExtremum(const void* values, const void* extrema, int32_t* out,
                  size_t count, DType dtype, int32_t index) {
  WithOrderedType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* value = static_cast<const T*>(values);
    const T* extremum = static_cast<const T*>(extrema);
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < count; ++i) {
      out[i] = Mark(value[i], extremum[i], index);
    }
  });
}

}  // namespace lockstep::kernels
