// Words: copies move the widest integers to which all addresses and sizes are
// aligned. Internal to kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_WORDS_CUH_
#define LOCKSTEP_KERNELS_DEVICE_WORDS_CUH_

#include <cstdint>

#include "kernels/device/launch.h"

namespace lockstep::kernels::device {

struct alignas(16) Word16 {
  uint32_t part[4];
};

// Calls launch(Word()) with the widest word of which `parts`, the bits of all
// addresses and sizes, are multiples.
template <class Launch>
Launched WithWord(uintptr_t parts, Launch launch) {
  if (parts % 16 == 0) return launch(Word16());
  if (parts % 8 == 0) return launch(uint64_t{});
  if (parts % 4 == 0) return launch(uint32_t{});
  if (parts % 2 == 0) return launch(uint16_t{});
  return launch(uint8_t{});
}

inline uintptr_t AddressOf(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_WORDS_CUH_
