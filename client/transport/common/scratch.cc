#include "client/transport/common/scratch.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

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

absl::Status ScratchPool::Take(size_t asked, Scratch* scratch) {
  *scratch = {};
  Block block;
  if (asked <= PTRDIFF_MAX) {
    block = FindOrMake(std::max(RoundedUp(asked), kAlignment));
  }
  if (block.data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for the ", asked, " bytes that an operation needs"));
  }
  scratch->pool_ = this;
  scratch->data_ = std::move(block.data);
  scratch->bytes_ = block.bytes;
  return absl::OkStatus();
}

ScratchPool::Block ScratchPool::FindOrMake(size_t bytes) {
  {
    MutexLock lock(&mutex_);
    Block block = FindOrDrop(bytes);
    if (block.data != nullptr) return block;
  }
  auto* const made = std::aligned_alloc(kAlignment, bytes);
  return {Scratch::Memory(static_cast<std::byte*>(made)), bytes};
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
