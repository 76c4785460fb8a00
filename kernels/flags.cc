#include "kernels/flags.h"

#include "kernels/dispatch.h"

namespace lockstep::kernels {

void WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags) {
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* typed = static_cast<T*>(flags);
    for (size_t i = 0; i < on.size(); ++i) {
      typed[i] = ConvertTo<T>(on[i] == 0 ? 0.0f : 1.0f);
    }
  });
}

}  // namespace lockstep::kernels
