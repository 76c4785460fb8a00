// Collectives of numbers in the host's memory, over a communicator of any kind
// of memory.
//
//   host     words ─────────────────────── all-reduce
//   device   words ─▶ staging ─▶ device ── all-reduce ─▶ staging ─▶ words
//
// Threads: one caller, which blocks until the collective is done.
// Errors:  those of the communicator and of the device; ResourceExhausted.

#ifndef LOCKSTEP_CLIENT_STATE_WORD_COLLECTIVES_H_
#define LOCKSTEP_CLIENT_STATE_WORD_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/state/wire_memory.h"
#include "lockstep/arena.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::state {

class WordCollectives {
 public:
  // All three must outlive it.
  WordCollectives(const WireMemory& memory, Communicator& comm, Stream& stream)
      : memory_(memory), comm_(comm), stream_(stream) {}

  // Replaces each word by the largest of all ranks.
  absl::Status AllReduceMax(absl::Span<uint64_t> words);

  // The words of all ranks, by rank. As many on each.
  absl::StatusOr<std::vector<uint64_t>> AllGather(
      absl::Span<const uint64_t> words);

 private:
  using Enqueue = absl::FunctionRef<absl::Status(const void* in, void* out)>;

  // Runs `enqueue` with memory that the communicator accepts.
  absl::Status Run(absl::Span<const uint64_t> in, absl::Span<uint64_t> out,
                   Enqueue enqueue);
  absl::Status EnqueueOnDevice(absl::Span<const uint64_t> in,
                               absl::Span<uint64_t> out, Enqueue enqueue);
  absl::Status Reserve(size_t words);

  const WireMemory& memory_;
  Communicator& comm_;
  Stream& stream_;
  ArenaBuffer staging_, on_device_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_WORD_COLLECTIVES_H_
