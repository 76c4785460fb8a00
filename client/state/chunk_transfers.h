// Sends and receives the chunks of a recovery, window by window, and hashes
// them.
//
//   host     sender     memory ─hash, copy─▶ slot ─┐   two slots, in memory
//            newcomer   memory ◀───────────────────┘   that is sent in place
//                       └ hash, from the cache
//
//   device   sender     memory ─copy─▶ slot ───────┐   three slots, on the
//            holder     memory ─copy─▶ staging ─ hash  device and on the host
//            newcomer   memory ◀─copy─ slot ◀──────┘
//                       └─copy─▶ staging ─ hash
//
// While one window is on the wire, the next one is copied and hashed, and the
// one before it is stored. A window has so many bytes that a slot has room for
// what any rank sends, receives and hashes: this bounds the memory.
//
// Threads: one caller, which blocks.
// Ownership: the memory of the state must not change meanwhile.

#ifndef LOCKSTEP_CLIENT_STATE_CHUNK_TRANSFERS_H_
#define LOCKSTEP_CLIENT_STATE_CHUNK_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/state/copy_faults.h"
#include "client/state/wire_memory.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "plan/state/recovery.h"
#include "plan/state/state.h"

namespace lockstep::state {

// A chunk on its way: the ranks that send it and its hash.
struct ChunkTransfer {
  plan::RecoveryChunk chunk;
  size_t index = 0;  // in the plan
  int witness = 0;
  // The hash of the witness, to be sent or received, and the received bytes'.
  uint64_t expected = 0;
  uint64_t found = 0;

  bool Involves(int rank) const {
    return chunk.from == rank || chunk.to == rank || witness == rank;
  }
};

// What all transfers of a recovery have in common.
struct ChunkContext {
  const std::vector<plan::StateTensor>& tensors;
  absl::Span<void* const> memory;  // of this rank, by tensor
  const WireMemory& wire;
  Communicator& comm;
  Stream& stream;
  CopyFaults& faults;
  size_t window_bytes = 0;

  size_t BytesOf(const plan::RecoveryChunk& chunk) const;
  char* At(const plan::RecoveryChunk& chunk) const;
  uint64_t HashOf(const plan::RecoveryChunk& chunk) const;
  // The bytes that it takes in a slot.
  size_t SlotBytesOf(const plan::RecoveryChunk& chunk) const;

  // Enqueues one message if this rank sends or receives it.
  absl::Status Exchange(void* data, size_t bytes, int from, int to) const;
};

using ChunkWindow = absl::Span<ChunkTransfer>;

// The windows of `pass`, without those that this rank has no part in. All ranks
// divide alike.
std::vector<ChunkWindow> WindowsOf(const ChunkContext& context,
                                   std::vector<ChunkTransfer>* pass);

// The bytes of a slot that has room for each window of these chunks.
size_t SlotBytes(const ChunkContext& context,
                 const std::vector<plan::RecoveryChunk>& chunks);

class ChunkTransfers {
 public:
  virtual ~ChunkTransfers() = default;

  // Allocates what `chunks` need, in any number of passes. `sends`: this rank
  // may send some of them.
  virtual absl::Status Reserve(const std::vector<plan::RecoveryChunk>& chunks,
                               bool sends) = 0;

  // Called by all ranks with the same pass: transfers all of it, and sets
  // `found` and `expected` of what this rank receives. A copy that failed is
  // noted in the context's faults. Returns the errors of the communicator.
  // Nothing is enqueued any more when it returns.
  virtual absl::Status Run(std::vector<ChunkTransfer>* pass) = 0;
};

// `context` must outlive it.
std::unique_ptr<ChunkTransfers> MakeHostTransfers(const ChunkContext& context);
std::unique_ptr<ChunkTransfers> MakeDeviceTransfers(
    const ChunkContext& context);

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_CHUNK_TRANSFERS_H_
