#include "tests/gpu/nccl/pinned_heap.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <mutex>
#include <new>

#include "tests/gpu/device.h"

namespace {

constexpr size_t kBytes = size_t{1} << 30;
constexpr size_t kLargest = size_t{16} << 20;  // larger blocks are not reused

// Precedes each block: its size, and which allocator it is from.
struct alignas(64) Header {
  size_t bytes;
  bool pinned;
};

struct Heap {
  explicit Heap(void* region)
      : whole(region, kBytes, std::pmr::null_memory_resource()),
        pool({.max_blocks_per_chunk = 4,
              .largest_required_pool_block = kLargest},
             &whole) {}
  std::mutex mutex;
  std::pmr::monotonic_buffer_resource whole;
  std::pmr::unsynchronized_pool_resource pool;
};

Heap* heap = nullptr;  // never destroyed: blocks live until the process ends

void* Allocate(size_t bytes) {
  const size_t whole = bytes + sizeof(Header);
  void* at = nullptr;
  if (heap == nullptr) {
    at = std::aligned_alloc(alignof(Header), (whole + 63) / 64 * 64);
    if (at == nullptr) throw std::bad_alloc();
  } else {
    const std::lock_guard lock(heap->mutex);
    at = heap->pool.allocate(whole, alignof(Header));
  }
  auto* const header = new (at) Header{whole, heap != nullptr};
  return header + 1;
}

void Free(void* block) {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  if (!header->pinned) return std::free(header);
  const std::lock_guard lock(heap->mutex);
  heap->pool.deallocate(header, header->bytes, alignof(Header));
}

}  // namespace

namespace lockstep::gpu {

void OpenPinnedHeap() {
  void* region = nullptr;
  Require(cudaHostAlloc(&region, kBytes, cudaHostAllocMapped), "cudaHostAlloc");
  heap = new (std::malloc(sizeof(Heap))) Heap(region);
}

}  // namespace lockstep::gpu

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* block) noexcept { Free(block); }
void operator delete[](void* block) noexcept { Free(block); }
void operator delete(void* block, size_t) noexcept { Free(block); }
void operator delete[](void* block, size_t) noexcept { Free(block); }
