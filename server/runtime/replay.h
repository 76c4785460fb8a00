// Replays the journal of earlier runs, before the first event.

#ifndef LOCKSTEP_SERVER_RUNTIME_REPLAY_H_
#define LOCKSTEP_SERVER_RUNTIME_REPLAY_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protocol/record.h"
#include "server/core/coordinator.h"
#include "server/journal/journal.h"

namespace lockstep::runtime {

// Returns the number of replayed records. Errors: those of Load (DataLoss), or
// DataLoss naming a record that cannot be decoded or cannot follow.
absl::StatusOr<int> Replay(
    journal::Journal* journal,
    const std::function<absl::StatusOr<record::Record>(absl::string_view)>&
        decode,
    core::Coordinator* coordinator);

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_REPLAY_H_
