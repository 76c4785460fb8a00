// Recovery of state where communicators move device memory.
//
//   copies' stream   [fetch 0][fetch 1]  [fetch 2][store 0]  [fetch 3][store 1]
//   stream                    [window 0]          [window 1]          [window
//   2] host                  [hash 0]            [hash 1][hash 0]
//
// Fetch copies what this rank sends to a slot on the device, and what it hashes
// as a holder to staging memory; store copies what it received from the slot to
// the state, and from there to staging memory, so that the hash is of what was
// written. The state may also be on the host: the device copies either.
//
// The hashes of holders are sent with their window, from one array on the
// device with an element for each chunk, and read at the end of the pass.

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "client/checkpoint/content_hash.h"
#include "client/state/chunk_transfers.h"

namespace lockstep::state {
namespace {

using KernelQueue = transport::DeviceContext::KernelQueue;

class DeviceChunkTransfers final : public ChunkTransfers {
 public:
  explicit DeviceChunkTransfers(const ChunkContext& context)
      : context_(context),
        device_(*context.wire.device),
        rank_(context.comm.rank()) {}

  absl::Status Reserve(const std::vector<plan::RecoveryChunk>& chunks,
                       bool) override {
    if (chunks.empty()) return absl::OkStatus();
    const size_t slot_bytes = SlotBytes(context_, chunks);
    for (WindowSlot& slot : slots_) {
      absl::Status status = ReserveBoth(slot_bytes, &slot.wire, &slot.staging);
      if (!status.ok()) return status;
    }
    absl::Status status = ReserveBoth(chunks.size() * sizeof(uint64_t),
                                      &hashes_, &staged_hashes_);
    if (!status.ok()) return status;
    auto copies = device_.MakeStream("ls-state");
    if (!copies.ok()) return copies.status();
    copies_ = *std::move(copies);
    return absl::OkStatus();
  }

  absl::Status Run(std::vector<ChunkTransfer>* pass) override {
    if (pass->empty()) return absl::OkStatus();
    first_ = pass->data();
    for (WindowSlot& slot : slots_) slot.window = {};
    absl::Status status = TransferAll(WindowsOf(context_, pass));
    status.Update(context_.stream.Synchronize());
    const absl::Status copied = copies_->Synchronize();
    status.Update(context_.comm.status());
    if (!status.ok()) return status;
    context_.faults.Note(static_cast<size_t>(pass->front().chunk.tensor),
                         copied);
    return ReadHashes(pass);
  }

 private:
  struct WindowSlot {
    ArenaBuffer wire;     // on the device
    ArenaBuffer staging;  // the same, on the host
    ChunkWindow window;
    Event fetched, sent, stored;
  };

  absl::Status ReserveBoth(size_t bytes, ArenaBuffer* on_device,
                           ArenaBuffer* on_host) const {
    auto wire = context_.wire.Allocate(bytes);
    if (!wire.ok()) return wire.status();
    *on_device = *std::move(wire);
    auto staging = device_.AllocateStaging(bytes);
    if (!staging.ok()) return staging.status();
    *on_host = *std::move(staging);
    return absl::OkStatus();
  }

  bool Sends(const ChunkTransfer& one) const { return one.chunk.from == rank_; }
  bool Receives(const ChunkTransfer& one) const {
    return one.chunk.to == rank_;
  }
  bool Witnesses(const ChunkTransfer& one) const {
    return one.witness == rank_;
  }
  WindowSlot& SlotOf(size_t turn) { return slots_[turn % slots_.size()]; }
  uint64_t* HashAt(const ChunkTransfer& one) const {
    return hashes_.as<uint64_t>().data() + (&one - first_);
  }
  uint64_t* StagedHashAt(const ChunkTransfer& one) const {
    return staged_hashes_.as<uint64_t>().data() + (&one - first_);
  }

  // A slot is used again once its last window is stored and hashed, which is
  // one turn before it is fetched anew.
  absl::Status TransferAll(const std::vector<ChunkWindow>& windows) {
    if (windows.empty()) return absl::OkStatus();
    Fetch(windows[0], SlotOf(0));
    for (size_t turn = 0; turn <= windows.size(); ++turn) {
      if (turn + 1 < windows.size()) Fetch(windows[turn + 1], SlotOf(turn + 1));
      if (turn < windows.size()) {
        HashFetched(SlotOf(turn));
        absl::Status status = Exchange(SlotOf(turn));
        if (!status.ok()) return status;
        Store(SlotOf(turn));
      }
      if (turn > 0) HashStored(SlotOf(turn - 1));
    }
    return absl::OkStatus();
  }

  // Calls visit(transfer, offset in the slot) for what this rank has a part in.
  template <typename Visit>
  void ForEach(const WindowSlot& slot, Visit visit) const {
    size_t at = 0;
    for (ChunkTransfer& transfer : slot.window) {
      if (!transfer.Involves(rank_)) continue;
      visit(transfer, at);
      at += context_.SlotBytesOf(transfer.chunk);
    }
  }

  bool HasAny(const WindowSlot& slot,
              bool (DeviceChunkTransfers::*part)(const ChunkTransfer&)
                  const) const {
    return std::any_of(slot.window.begin(), slot.window.end(),
                       [&](const auto& one) { return (this->*part)(one); });
  }

  // Enqueues the copies of `copy(transfer, offset, queue)` on the copies'
  // stream; an error is noted with its tensor.
  template <typename Copy>
  void EnqueueCopies(const WindowSlot& slot, Copy copy) {
    context_.faults.Note(
        static_cast<size_t>(slot.window.front().chunk.tensor),
        device_.Perform(copies_.get(), [&](KernelQueue& queue) {
          ForEach(slot, [&](ChunkTransfer& transfer, size_t at) {
            if (!queue.status().ok()) return;
            copy(transfer, at, queue);
            context_.faults.Note(static_cast<size_t>(transfer.chunk.tensor),
                                 queue.status());
          });
          return queue.status();
        }));
  }

  void Fetch(ChunkWindow window, WindowSlot& slot) {
    slot.window = window;
    if (!HasAny(slot, &DeviceChunkTransfers::Sends) &&
        !HasAny(slot, &DeviceChunkTransfers::Witnesses)) {
      return;
    }
    copies_->WaitFor(slot.sent);
    EnqueueCopies(slot,
                  [&](ChunkTransfer& transfer, size_t at, KernelQueue& queue) {
                    const char* const from = context_.At(transfer.chunk);
                    const size_t bytes = context_.BytesOf(transfer.chunk);
                    if (Sends(transfer))
                      queue.Copy(from, slot.wire.data() + at, bytes);
                    if (Witnesses(transfer))
                      queue.Copy(from, slot.staging.data() + at, bytes);
                  });
    slot.fetched = copies_->Record();
  }

  void HashFetched(const WindowSlot& slot) {
    if (!HasAny(slot, &DeviceChunkTransfers::Witnesses)) return;
    NoteEvent(slot, slot.fetched);
    ForEach(slot, [&](ChunkTransfer& transfer, size_t at) {
      if (!Witnesses(transfer)) return;
      *StagedHashAt(transfer) = HashStaged(slot, transfer, at);
    });
  }

  absl::Status CopyHashes(const WindowSlot& slot) {
    if (!HasAny(slot, &DeviceChunkTransfers::Witnesses))
      return absl::OkStatus();
    return device_.Perform(&context_.stream, [&](KernelQueue& queue) {
      for (const ChunkTransfer& transfer : slot.window) {
        if (!Witnesses(transfer)) continue;
        queue.Copy(StagedHashAt(transfer), HashAt(transfer), sizeof(uint64_t));
      }
      return queue.status();
    });
  }

  absl::Status Exchange(WindowSlot& slot) {
    absl::Status status = CopyHashes(slot);
    if (!status.ok()) return status;
    context_.stream.WaitFor(slot.fetched);
    status = context_.comm.Group([&] { return EnqueueMessages(slot); });
    slot.sent = context_.stream.Record();
    return status.ok() ? context_.comm.status() : status;
  }

  absl::Status EnqueueMessages(const WindowSlot& slot) {
    absl::Status status;
    ForEach(slot, [&](ChunkTransfer& transfer, size_t at) {
      const plan::RecoveryChunk& chunk = transfer.chunk;
      if (status.ok()) {
        status =
            context_.Exchange(slot.wire.data() + at, context_.BytesOf(chunk),
                              chunk.from, chunk.to);
      }
      if (status.ok()) {
        status = context_.Exchange(HashAt(transfer), sizeof(uint64_t),
                                   transfer.witness, chunk.to);
      }
    });
    return status;
  }

  void Store(WindowSlot& slot) {
    if (!HasAny(slot, &DeviceChunkTransfers::Receives)) return;
    copies_->WaitFor(slot.sent);
    EnqueueCopies(slot,
                  [&](ChunkTransfer& transfer, size_t at, KernelQueue& queue) {
                    if (!Receives(transfer)) return;
                    char* const to = context_.At(transfer.chunk);
                    const size_t bytes = context_.BytesOf(transfer.chunk);
                    queue.Copy(slot.wire.data() + at, to, bytes);
                    queue.Copy(to, slot.staging.data() + at, bytes);
                  });
    slot.stored = copies_->Record();
  }

  void HashStored(const WindowSlot& slot) {
    if (!HasAny(slot, &DeviceChunkTransfers::Receives)) return;
    NoteEvent(slot, slot.stored);
    ForEach(slot, [&](ChunkTransfer& transfer, size_t at) {
      if (!Receives(transfer)) return;
      transfer.found = HashStaged(slot, transfer, at);
    });
  }

  uint64_t HashStaged(const WindowSlot& slot, const ChunkTransfer& transfer,
                      size_t at) const {
    return checkpoint::HashBlock(
        {reinterpret_cast<const char*>(slot.staging.data()) + at,
         context_.BytesOf(transfer.chunk)});
  }

  void NoteEvent(const WindowSlot& slot, const Event& event) {
    context_.faults.Note(static_cast<size_t>(slot.window.front().chunk.tensor),
                         event.Wait());
  }

  // The hashes that were received.
  absl::Status ReadHashes(std::vector<ChunkTransfer>* pass) {
    absl::Status status =
        device_.Perform(&context_.stream, [&](KernelQueue& queue) {
          queue.Copy(hashes_.data(), staged_hashes_.data(),
                     pass->size() * sizeof(uint64_t));
          return queue.status();
        });
    status.Update(context_.stream.Synchronize());
    for (ChunkTransfer& transfer : *pass) {
      if (Receives(transfer)) transfer.expected = *StagedHashAt(transfer);
    }
    return status;
  }

  const ChunkContext& context_;
  transport::DeviceContext& device_;
  const int rank_;
  std::array<WindowSlot, 3> slots_;
  ArenaBuffer hashes_, staged_hashes_;
  ChunkTransfer* first_ = nullptr;  // of the pass
  std::unique_ptr<Stream> copies_;  // last: it uses the slots
};

}  // namespace

std::unique_ptr<ChunkTransfers> MakeDeviceTransfers(
    const ChunkContext& context) {
  return std::make_unique<DeviceChunkTransfers>(context);
}

}  // namespace lockstep::state
