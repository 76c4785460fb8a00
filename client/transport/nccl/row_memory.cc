#include "client/transport/nccl/row_memory.h"

#include <utility>

#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {

absl::Status RowMemory::Allocate(CudaStreamHandle stream) {
  stream_ = stream;
  void* memory = nullptr;
  const absl::Status made =
      Check(cuda_, cuda_.MallocAsync(&memory, bytes_, stream_), "MallocAsync");
  data_ = static_cast<std::byte*>(memory);
  return made;
}

void RowMemory::Free() {
  if (data_ != nullptr) cuda_.FreeAsync(data_, stream_);
  for (const Block& block : more_) {
    if (block.memory != nullptr) cuda_.FreeAsync(block.memory, stream_);
  }
  data_ = nullptr;
  more_.clear();
}

void RowMemory::Begin(bool captured) {
  captured_ = captured;
  taken_ = 0;
  blocks_taken_ = 0;
}

void* RowMemory::Take(size_t bytes) {
  constexpr size_t kAlignment = 256;
  const size_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (aligned <= bytes_ - taken_) {
    return data_ + std::exchange(taken_, taken_ + aligned);
  }
  if (!captured_) return TakeMore(bytes);
  void* memory = nullptr;
  if (cuda_.MallocAsync(&memory, bytes, stream_) != CudaResult::kSuccess) {
    return nullptr;
  }
  graphs_own_.push_back(memory);
  return memory;
}

void* RowMemory::TakeMore(size_t bytes) {
  if (blocks_taken_ == more_.size()) more_.push_back({nullptr, 0});
  Block& block = more_[blocks_taken_++];
  if (block.bytes >= bytes) return block.memory;
  if (block.memory != nullptr) cuda_.FreeAsync(block.memory, stream_);
  block = {nullptr, 0};
  if (cuda_.MallocAsync(&block.memory, bytes, stream_) !=
      CudaResult::kSuccess) {
    return block.memory = nullptr;
  }
  block.bytes = bytes;
  return block.memory;
}

absl::Status RowMemory::End() {
  absl::Status done;
  for (void* memory : std::exchange(graphs_own_, {})) {
    done.Update(Check(cuda_, cuda_.FreeAsync(memory, stream_), "FreeAsync"));
  }
  return done;
}

}  // namespace lockstep::transport::nccl
