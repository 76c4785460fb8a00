// Words in pinned memory that host and device use at the same time.

#ifndef LOCKSTEP_KERNELS_SHARED_WORD_H_
#define LOCKSTEP_KERNELS_SHARED_WORD_H_

#include <atomic>
#include <cstdint>

namespace lockstep::kernels {

inline std::atomic_ref<uint64_t> Shared(const void* word) {
  return std::atomic_ref<uint64_t>(
      *static_cast<uint64_t*>(const_cast<void*>(word)));
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_SHARED_WORD_H_
