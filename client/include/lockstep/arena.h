// Memory that every transport of the job can use without a copy.
//
// Gradient buckets live in an arena, and so may anything a user sends often.
// It is memory of the process, or, where the transport moves device memory, of
// the device: then the host must not touch it.
//
// Threads: Allocate and the buffers' destructors may be called from any thread.
// Ownership: a buffer keeps its arena's memory alive; it is freed with the
// last.

#ifndef LOCKSTEP_ARENA_H_
#define LOCKSTEP_ARENA_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/export.h"

namespace lockstep {

// A piece of an arena, aligned to 256 bytes and zeroed. Move-only; frees
// itself.
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

  // The buffer as elements of T; `bytes() / sizeof(T)` of them.
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

  // ResourceExhausted if the memory cannot be had; InvalidArgument for 0 bytes.
  virtual absl::StatusOr<ArenaBuffer> Allocate(size_t bytes) = 0;
};

// An arena in this process's own memory.
LOCKSTEP_EXPORT std::unique_ptr<Arena> MakePlainArena();

}  // namespace lockstep

#endif  // LOCKSTEP_ARENA_H_
