#include "client/state/device_hashes.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "client/checkpoint/content_hash.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"

namespace lockstep::state {
namespace {

using KernelQueue = transport::DeviceContext::KernelQueue;

// Bytes of an extent, in a slot.
struct ExtentPiece {
  size_t extent = 0;
  size_t offset = 0;
  size_t bytes = 0;
  size_t at = 0;
};

// Divides extents among slots, in order.
class PieceCursor {
 public:
  PieceCursor(absl::Span<const MemoryExtent> extents, size_t slot_bytes)
      : extents_(extents), slot_bytes_(slot_bytes) {}

  // What the next slot has; empty after the last one.
  std::vector<ExtentPiece> Next() {
    std::vector<ExtentPiece> pieces;
    size_t at = 0;
    while (extent_ < extents_.size() && at < slot_bytes_) {
      const size_t bytes =
          std::min(extents_[extent_].bytes - offset_, slot_bytes_ - at);
      pieces.push_back({extent_, offset_, bytes, at});
      at += bytes;
      offset_ += bytes;
      if (offset_ < extents_[extent_].bytes) continue;
      ++extent_;
      offset_ = 0;
    }
    return pieces;
  }

 private:
  const absl::Span<const MemoryExtent> extents_;
  const size_t slot_bytes_;
  size_t extent_ = 0;
  size_t offset_ = 0;
};

// Staging memory and what is being copied there.
struct HashSlot {
  ArenaBuffer staging;
  std::vector<ExtentPiece> pieces;
  Event filled;
};

class StagedHashing {
 public:
  StagedHashing(transport::DeviceContext& device,
                absl::Span<const MemoryExtent> extents, size_t slot_bytes)
      : device_(device),
        extents_(extents),
        slot_bytes_(slot_bytes),
        cursor_(extents, slot_bytes) {
    result_.hashes.resize(extents.size());
  }

  DeviceHashes Run() && {
    result_.status = Open();
    if (result_.status.ok()) result_.status = HashAll();
    // Until then the copies write to the slots.
    if (stream_ != nullptr) result_.status.Update(stream_->Synchronize());
    return std::move(result_);
  }

 private:
  absl::Status Open() {
    size_t bytes = 0;
    for (const MemoryExtent& extent : extents_) bytes += extent.bytes;
    bytes = std::clamp<size_t>(bytes, 1, slot_bytes_);
    for (HashSlot& slot : slots_) {
      auto staging = device_.AllocateStaging(bytes);
      if (!staging.ok()) return staging.status();
      slot.staging = *std::move(staging);
    }
    auto stream = device_.MakeStream("ls-state");
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    return absl::OkStatus();
  }

  absl::Status HashAll() {
    for (size_t turn = 0;; ++turn) {
      absl::Status status = Fill(slots_[turn % 2]);
      if (status.ok() && turn > 0) status = Hash(slots_[(turn + 1) % 2]);
      if (!status.ok() || slots_[turn % 2].pieces.empty()) return status;
    }
  }

  absl::Status Fill(HashSlot& slot) {
    slot.pieces = cursor_.Next();
    if (slot.pieces.empty()) return absl::OkStatus();
    absl::Status status =
        device_.Perform(stream_.get(), [&](KernelQueue& queue) {
          for (const ExtentPiece& piece : slot.pieces) {
            result_.failed = piece.extent;
            const auto* const from =
                static_cast<const std::byte*>(extents_[piece.extent].data);
            queue.Copy(from + piece.offset, slot.staging.data() + piece.at,
                       piece.bytes);
            if (!queue.status().ok()) break;
          }
          return queue.status();
        });
    slot.filled = stream_->Record();
    return status;
  }

  absl::Status Hash(const HashSlot& slot) {
    absl::Status status = slot.filled.Wait();
    if (!status.ok()) {
      result_.failed = slot.pieces.front().extent;
      return status;
    }
    for (const ExtentPiece& piece : slot.pieces) {
      hasher_.Update(
          {reinterpret_cast<const char*>(slot.staging.data()) + piece.at,
           piece.bytes});
      if (piece.offset + piece.bytes < extents_[piece.extent].bytes) continue;
      result_.hashes[piece.extent] = hasher_.Finish();
    }
    return absl::OkStatus();
  }

  transport::DeviceContext& device_;
  const absl::Span<const MemoryExtent> extents_;
  const size_t slot_bytes_;
  PieceCursor cursor_;
  std::array<HashSlot, 2> slots_;
  checkpoint::BlockHasher hasher_;
  DeviceHashes result_;
  std::unique_ptr<Stream> stream_;  // last: it writes to the slots
};

}  // namespace

DeviceHashes HashThroughStaging(transport::DeviceContext& device,
                                absl::Span<const MemoryExtent> extents,
                                size_t slot_bytes) {
  if (extents.empty()) return {};
  return StagedHashing(device, extents, slot_bytes).Run();
}

}  // namespace lockstep::state
