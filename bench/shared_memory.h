// Memory that the processes of a benchmark share: allocated before they fork.

#ifndef LOCKSTEP_BENCH_SHARED_MEMORY_H_
#define LOCKSTEP_BENCH_SHARED_MEMORY_H_

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <new>
#include <type_traits>

#include "base/check.h"

namespace lockstep::bench {

// A T in shared memory, valid until the creating process destroys this object.
template <typename T>
class SharedMemory {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  SharedMemory() {
    void* const memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Check(memory != MAP_FAILED, "no shared memory");
    value_ = new (memory) T;
  }
  ~SharedMemory() { munmap(value_, sizeof(T)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

// A barrier of all ranks. Must be in shared memory.
class Barrier {
 public:
  // Yields, because there may be more ranks than cores.
  void Wait(int ranks) {
    const int now = round_.load();
    if (come_.fetch_add(1) + 1 == ranks) {
      come_ = 0;
      ++round_;
      return;
    }
    for (int turn = 0; round_.load() == now; ++turn) {
      if (turn % 64 == 63) sched_yield();
    }
  }

 private:
  std::atomic<int> come_{0};
  std::atomic<int> round_{0};
};

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_SHARED_MEMORY_H_
