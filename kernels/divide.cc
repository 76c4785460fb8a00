#include "kernels/divide.h"

#include "kernels/divide_element.h"
#include "kernels/targets.h"

namespace lockstep::kernels {

void Divide(const void* in, void* out, size_t count, DType dtype, int divisor) {
  Check(divisor != 0, "a division by 0");
  WithParts(dtype, [&](auto tag, size_t length) {
    using T = typename decltype(tag)::type;
    const T* const from = static_cast<const T*>(in);
    T* const to = static_cast<T*>(out);
    const auto by = static_cast<Wide<T>>(divisor);
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < count * length; ++i) to[i] = Quotient(from[i], by);
  });
}

}  // namespace lockstep::kernels
