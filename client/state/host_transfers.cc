// Recovery of state in the host's memory.
//
//   caller's thread   [hash, copy 0][hash, copy 1]   [hash, copy 2]
//   stream                          [send 0]         [send 1]
//   newcomer's stream               [receive 0][hash][receive 1][hash]
//
// A sender copies chunks to memory that is sent in place: over shared memory
// the newcomer then copies them from there, without a handshake for each block.
// A chunk fits into the cache of one core, so that the second of its two uses
// on each side does not read it from memory.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "client/state/chunk_transfers.h"
#include "kernels/copy.h"

namespace lockstep::state {
namespace {

class HostChunkTransfers final : public ChunkTransfers {
 public:
  explicit HostChunkTransfers(const ChunkContext& context)
      : context_(context) {}

  absl::Status Reserve(const std::vector<plan::RecoveryChunk>& chunks,
                       bool sends) override {
    if (!sends || chunks.empty()) return absl::OkStatus();
    for (SendBuffer& slot : slots_) {
      auto allocated = context_.wire.Allocate(SlotBytes(context_, chunks));
      if (!allocated.ok()) return allocated.status();
      slot.sent = *std::move(allocated);
    }
    return absl::OkStatus();
  }

  absl::Status Run(std::vector<ChunkTransfer>* pass) override {
    absl::Status status;
    size_t turn = 0;
    for (const ChunkWindow window : WindowsOf(context_, pass)) {
      status = Transfer(window, slots_[turn++ % 2]);
      if (!status.ok()) break;
    }
    // What is enqueued refers to `pass`.
    status.Update(context_.stream.Synchronize());
    status.Update(context_.comm.status());
    return status;
  }

 private:
  struct SendBuffer {
    ArenaBuffer sent;
    Event done;  // the last transfer that used it
  };

  absl::Status Transfer(ChunkWindow window, SendBuffer& slot) {
    absl::Status status = slot.done.Wait();
    if (status.ok()) status = context_.comm.status();
    if (!status.ok()) return status;
    HashAndCopy(window, slot);
    status = context_.comm.Group([&] { return EnqueueMessages(window, slot); });
    if (!status.ok()) return status;
    static_cast<HostStream&>(context_.stream).Enqueue([this, window] {
      for (ChunkTransfer& transfer : window) {
        if (transfer.chunk.to != context_.comm.rank()) continue;
        transfer.found = context_.HashOf(transfer.chunk);
      }
      return absl::OkStatus();
    });
    slot.done = context_.stream.Record();
    return absl::OkStatus();
  }

  void HashAndCopy(ChunkWindow window, const SendBuffer& slot) {
    std::byte* to = slot.sent.data();
    for (ChunkTransfer& transfer : window) {
      const plan::RecoveryChunk& chunk = transfer.chunk;
      if (transfer.witness == context_.comm.rank()) {
        transfer.expected = context_.HashOf(chunk);
      }
      if (chunk.from != context_.comm.rank()) continue;
      kernels::Copy(to, context_.At(chunk), context_.BytesOf(chunk));
      to += context_.SlotBytesOf(chunk);
    }
  }

  absl::Status EnqueueMessages(ChunkWindow window, const SendBuffer& slot) {
    std::byte* sent = slot.sent.data();
    for (ChunkTransfer& transfer : window) {
      const plan::RecoveryChunk& chunk = transfer.chunk;
      void* data = context_.At(chunk);
      if (chunk.from == context_.comm.rank()) {
        data = sent;
        sent += context_.SlotBytesOf(chunk);
      }
      absl::Status status = context_.Exchange(data, context_.BytesOf(chunk),
                                              chunk.from, chunk.to);
      if (!status.ok()) return status;
      status = context_.Exchange(&transfer.expected, sizeof(uint64_t),
                                 transfer.witness, chunk.to);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const ChunkContext& context_;
  std::array<SendBuffer, 2> slots_;
};

}  // namespace

std::unique_ptr<ChunkTransfers> MakeHostTransfers(const ChunkContext& context) {
  return std::make_unique<HostChunkTransfers>(context);
}

}  // namespace lockstep::state
