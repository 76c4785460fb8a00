// Memory that every transport of the job can use without a copy.
//
// Gradient buckets are allocated in an arena. Programs may allocate there what
// they send often. It is host memory or, where the transport moves device
// memory, device memory, which the host must not access.
//
// Threads: Allocate and the buffers' destructors may be called from any thread.
// Ownership: buffers keep their arena's memory alive; the last one frees it.

#ifndef LOCKSTEP_ARENA_H_
#define LOCKSTEP_ARENA_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/export.h"

namespace lockstep {

// A block of an arena, aligned to 256 bytes and zeroed. Move-only; the
// destructor frees it.
class LOCKSTEP_EXPORT ArenaBuffer {
 public:
  ArenaBuffer() = default;
  ArenaBuffer(void* data, size_t bytes, std::shared_ptr<void> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  ArenaBuffer(ArenaBuffer&& other) noexcept { *this = std::move(other); }
  ArenaBuffer& operator=(ArenaBuffer&& other) noexcept {
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    owner_ = std::move(other.owner_);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

  // The buffer as `bytes() / sizeof(T)` elements of T.
  template <typename T>
  absl::Span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

class LOCKSTEP_EXPORT Arena {
 public:
  static constexpr size_t kAlignment = 256;

  virtual ~Arena() = default;

  // Errors: ResourceExhausted (out of memory), InvalidArgument (0 bytes).
  virtual absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) = 0;
};

// An arena in this process's own memory.
LOCKSTEP_EXPORT std::unique_ptr<Arena> MakePlainArena();

}  // namespace lockstep

#endif  // LOCKSTEP_ARENA_H_
