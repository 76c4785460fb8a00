// Before the first event: what an earlier life promised.

#ifndef LOCKSTEP_SERVER_RUNTIME_REPLAY_H_
#define LOCKSTEP_SERVER_RUNTIME_REPLAY_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "plan/words/record.h"
#include "server/core/coordinator.h"
#include "server/journal/journal.h"

namespace lockstep::runtime {

// The number of records that were replayed. Errors: what Load says (DataLoss),
// or DataLoss naming the record that cannot be read or cannot follow.
absl::StatusOr<int> Replay(
    journal::Journal* journal,
    const std::function<absl::StatusOr<record::Record>(absl::string_view)>&
        decode,
    core::Coordinator* coordinator);

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_REPLAY_H_
