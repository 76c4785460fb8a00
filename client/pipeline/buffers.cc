#include "client/pipeline/buffers.h"

#include <algorithm>
#include <utility>

namespace lockstep::pipeline {
namespace {

using plan::RankPlan;
using plan::Transfer;
using plan::TransferKind;
using plan::TransferRef;

size_t BytesOf(const Transfer& transfer) {
  return static_cast<size_t>(CountOf(transfer)) * SizeOf(transfer.dtype);
}

void SortByTag(std::vector<const Transfer*>& transfers) {
  std::sort(
      transfers.begin(), transfers.end(),
      [](const Transfer* a, const Transfer* b) { return a->tag < b->tag; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Buffers>> Buffers::Create(
    const RankPlan& rank, const Allocate& allocate) {
  std::unique_ptr<Buffers> made(new Buffers(rank));
  made->brought_.resize(rank.tasks.size());
  made->sent_.resize(rank.tasks.size());
  for (const plan::Lane& lane : rank.lanes) {
    for (const Transfer& transfer : lane.transfers) {
      if (transfer.kind == TransferKind::kSend && transfer.after_task >= 0) {
        made->sent_[transfer.after_task].push_back(&transfer);
      }
      if (transfer.buffer < 0) continue;
      const size_t number = static_cast<size_t>(transfer.buffer);
      if (number >= made->buffers_.size()) made->buffers_.resize(number + 1);
      if (made->buffers_[number].data() != nullptr) continue;
      // An empty message needs an address as well.
      const size_t bytes = std::max<size_t>(BytesOf(transfer), 1);
      absl::StatusOr<ArenaBuffer> buffer = allocate(bytes);
      if (!buffer.ok()) return buffer.status();
      made->buffers_[number] = *std::move(buffer);
      made->bytes_ += BytesOf(transfer);
    }
  }
  for (size_t task = 0; task < rank.tasks.size(); ++task) {
    for (TransferRef ref : rank.tasks[task].after) {
      const Transfer& transfer = rank.lanes[ref.lane].transfers[ref.index];
      if (transfer.kind == TransferKind::kRecv) {
        made->brought_[task].push_back(&transfer);
      }
    }
    SortByTag(made->brought_[task]);
    SortByTag(made->sent_[task]);
  }
  return made;
}

TensorView Buffers::At(const Transfer& transfer) const {
  return {buffers_[transfer.buffer].data(), {transfer.dtype, transfer.shape}};
}

std::vector<TensorView> Buffers::Views(
    std::vector<const Transfer*> transfers) const {
  std::vector<TensorView> views;
  for (const Transfer* transfer : transfers) views.push_back(At(*transfer));
  return views;
}

std::vector<TensorView> Buffers::BroughtTo(int task) const {
  return Views(brought_[task]);
}

std::vector<TensorView> Buffers::SentFrom(int task) const {
  return Views(sent_[task]);
}

}  // namespace lockstep::pipeline
