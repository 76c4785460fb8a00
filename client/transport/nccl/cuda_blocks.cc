#include "client/transport/nccl/cuda_blocks.h"

#include <bit>
#include <utility>

#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

constexpr size_t kSmallest = 256;

size_t SizeFor(size_t bytes) {
  return std::bit_ceil(bytes < kSmallest ? kSmallest : bytes);
}

}  // namespace

CudaBlocks::~CudaBlocks() {
  const DeviceScope scope(*cuda_);
  for (const auto& [bytes, blocks] : free_) {
    for (void* block : blocks) {
      (void)Check(*cuda_,
                  where_ == Where::kPinned ? cuda_->FreeHost(block)
                                           : cuda_->Free(block),
                  "Free");
    }
  }
}

absl::Status CudaBlocks::Reserve(size_t bytes, int count) {
  const size_t size = SizeFor(bytes);
  for (int i = 0; i < count; ++i) {
    const absl::StatusOr<void*> made = Make(size);
    if (!made.ok()) return made.status();
    MutexLock lock(&mutex_);
    free_[size].push_back(*made);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<void>> CudaBlocks::Take(size_t bytes) {
  const size_t size = SizeFor(bytes);
  void* block = nullptr;
  {
    MutexLock lock(&mutex_);
    std::vector<void*>& free = free_[size];
    if (!free.empty()) {
      block = free.back();
      free.pop_back();
    }
  }
  if (block == nullptr) {
    absl::StatusOr<void*> made = Make(size);
    if (!made.ok()) return made.status();
    block = *made;
  }
  return std::shared_ptr<void>(
      block, [self = shared_from_this(), size](void* given_back) {
        MutexLock lock(&self->mutex_);
        self->free_[size].push_back(given_back);
      });
}

absl::StatusOr<void*> CudaBlocks::Make(size_t bytes) {
  const DeviceScope scope(*cuda_);
  void* block = nullptr;
  const absl::Status made =
      where_ == Where::kPinned
          ? Check(*cuda_, cuda_->HostAlloc(&block, bytes), "HostAlloc")
          : Check(*cuda_, cuda_->Malloc(&block, bytes), "Malloc");
  if (!made.ok()) return made;
  return block;
}

}  // namespace lockstep::transport::nccl
