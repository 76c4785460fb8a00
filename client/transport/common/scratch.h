// A pool of memory for operations in flight. An operation that runs for the
// second time allocates nothing.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_SCRATCH_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_SCRATCH_H_

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace lockstep::transport {

class ScratchPool;

// At least the requested bytes, uninitialized, aligned to 64. Returned to the
// pool, which must outlive it.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept;
  ~Scratch() { GiveBack(); }

  std::byte* data() const { return data_.get(); }

 private:
  friend class ScratchPool;
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;

  void GiveBack();

  ScratchPool* pool_ = nullptr;
  Memory data_;
  size_t bytes_ = 0;
};

class ScratchPool {
 public:
  // ResourceExhausted if there is no memory; then `*scratch` is empty.
  absl::Status Take(size_t asked, Scratch* scratch);

 private:
  friend class Scratch;
  struct Block {
    Scratch::Memory data;
    size_t bytes;
  };

  // `data` is null if there is no memory.
  Block FindOrMake(size_t bytes);
  // Takes the smallest block that is large enough. If none is, frees the
  // largest, so the pool has no more blocks than were ever in use at once.
  Block FindOrDrop(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::vector<Block> free_ ABSL_GUARDED_BY(mutex_);  // by size, ascending
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_SCRATCH_H_
