// Sends the state of healthy ranks to newcomers, over the data plane.
//
//   rank 0  ─ chunk 0 ─────▶ ┐
//   rank 1  ─ chunk 1 ─────▶ ├ rank 3, hashes what it received, and compares
//   rank 2  ─ chunk 2 ─────▶ ┘ the hash of another holder: of chunk 0 rank 1's
//
// Chunks are sent in windows (chunk_transfers.h). The hash of a chunk is that
// of the next holder of it, so a holder whose memory silently changed is found;
// it is the sender's own if there is one holder only. A chunk that is wrong is
// sent again by the next holder.
//
// Threads: one caller, which blocks until all newcomers have all.
// Ownership: the memory is registered state: on the host, or, with a device
//            (RecoveryOptions::wire), on either. Healthy ranks must not change
//            it meanwhile.

#ifndef LOCKSTEP_CLIENT_STATE_RECOVERY_H_
#define LOCKSTEP_CLIENT_STATE_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/state/wire_memory.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "plan/state/recovery.h"
#include "plan/state/state.h"

namespace lockstep::state {

struct RecoveryOptions {
  // Bytes of a rank that are transferred at a time. Equal on all ranks. 0: 1
  // MiB, which the caches of a host keep; on a device 4 MiB, since launching a
  // window costs more there.
  int64_t window_bytes = 0;
  // What `comm` sends and receives: the same kind on all ranks.
  WireMemory wire;
};

// Called by all ranks of `comm`, which are those of the mesh, with the same
// tensors and the same plan (PlanRecovery). `memory` has this rank's memory of
// each tensor, and nullptr where it holds no elements. After OK the newcomers'
// memory has what the plan says; all ranks return the same.
//
// InvalidArgument: a rank, which is named, sends or receives without memory, or
// the ranks have different plans; nothing was sent then. Internal: the memory
// of a tensor could not be copied, or staging memory for it not be allocated,
// on a rank; both are named, and the rank itself has the cause. The newcomers'
// memory is undefined then.
// DataLoss: chunks that no two holders agree on; each is named with its tensor,
// newcomer and holders. The newcomer's memory of it is undefined. Else the
// errors of `comm`.
absl::Status Recover(const std::vector<plan::StateTensor>& tensors,
                     const plan::RecoveryPlan& plan,
                     absl::Span<void* const> memory, Communicator& comm,
                     Stream& stream, const RecoveryOptions& options = {});

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_RECOVERY_H_
