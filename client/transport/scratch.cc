#include "client/transport/scratch.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::transport {
namespace {

constexpr size_t kAlignment = 64;

size_t RoundedUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Scratch& Scratch::operator=(Scratch&& other) noexcept {
  GiveBack();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::move(other.data_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Scratch::GiveBack() {
  if (data_ == nullptr) return;
  MutexLock lock(&pool_->mutex_);
  auto& free = pool_->free_;
  auto at = std::find_if(free.begin(), free.end(), [this](const auto& block) {
    return block.bytes >= bytes_;
  });
  free.insert(at, {std::move(data_), bytes_});
}

Scratch ScratchPool::Take(size_t bytes) {
  bytes = std::max(RoundedUp(bytes), kAlignment);
  Block block;
  {
    MutexLock lock(&mutex_);
    block = FindOrDrop(bytes);
  }
  if (block.data == nullptr) {
    block.bytes = bytes;
    block.data.reset(
        static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
    Check(block.data != nullptr, "no memory for the scratch of a transfer");
  }
  Scratch scratch;
  scratch.pool_ = this;
  scratch.data_ = std::move(block.data);
  scratch.bytes_ = block.bytes;
  return scratch;
}

ScratchPool::Block ScratchPool::FindOrDrop(size_t bytes) {
  auto fits = std::find_if(free_.begin(), free_.end(), [&](const Block& block) {
    return block.bytes >= bytes;
  });
  if (fits == free_.end()) {
    if (!free_.empty()) free_.pop_back();
    return {};
  }
  Block block = std::move(*fits);
  free_.erase(fits);
  return block;
}

}  // namespace lockstep::transport
