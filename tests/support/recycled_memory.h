// Memory for large buffers of tests that ThreadSanitizer runs. Its first access
// to a page of fresh memory costs a page fault with an interrupt of the other
// cores, and took two thirds of the time of the conformance tests. Freed blocks
// are therefore kept for the next buffer of their size. Other builds use new
// and delete, so that AddressSanitizer sees uses after free.

#ifndef LOCKSTEP_TESTS_SUPPORT_RECYCLED_MEMORY_H_
#define LOCKSTEP_TESTS_SUPPORT_RECYCLED_MEMORY_H_

#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "tests/support/sanitizers.h"

namespace lockstep {

// The freed blocks of the process, by size: powers of two. Never returned.
class RecycledMemory {
 public:
  static void* Take(size_t bytes) {
    const size_t size = std::bit_ceil(bytes);
    {
      std::lock_guard lock(pool().mutex);
      std::vector<void*>& free = pool().free[size];
      if (!free.empty()) {
        void* block = free.back();
        free.pop_back();
        return block;
      }
    }
    return ::operator new(size);
  }

  static void Return(void* block, size_t bytes) {
    std::lock_guard lock(pool().mutex);
    pool().free[std::bit_ceil(bytes)].push_back(block);
  }

 private:
  struct Pool {
    std::mutex mutex;
    std::map<size_t, std::vector<void*>> free;
  };
  static Pool& pool() {
    static Pool* pool = new Pool;  // threads may outlive static objects
    return *pool;
  }
};

struct FreeTestBuffer {
  size_t size = 0;
  void operator()(std::byte* block) const {
    if constexpr (kUnderThreadSanitizer) {
      RecycledMemory::Return(block, size);
    } else {
      ::operator delete(block);
    }
  }
};

// Bytes that are zero at first: copied with what contains them.
class TestBuffer {
 public:
  TestBuffer() = default;
  explicit TestBuffer(size_t size) : size_(size), data_(Allocate(size)) {
    if (size > 0) std::memset(data_.get(), 0, size);
  }
  TestBuffer(const TestBuffer& other)
      : size_(other.size_), data_(Allocate(other.size_)) {
    if (size_ > 0) std::memcpy(data_.get(), other.data_.get(), size_);
  }
  TestBuffer(TestBuffer&& other) noexcept
      : size_(std::exchange(other.size_, 0)), data_(std::move(other.data_)) {}
  TestBuffer& operator=(TestBuffer other) noexcept {
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    return *this;
  }

  size_t size() const { return size_; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }

 private:
  using Block = std::unique_ptr<std::byte, FreeTestBuffer>;

  static Block Allocate(size_t size) {
    if (size == 0) return Block();
    void* block = kUnderThreadSanitizer ? RecycledMemory::Take(size)
                                        : ::operator new(size);
    return Block(static_cast<std::byte*>(block), FreeTestBuffer{size});
  }

  size_t size_ = 0;
  Block data_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_RECYCLED_MEMORY_H_
