// Whether a verdict is the last of its epoch, or of the training, and the
// status of later calls.

#ifndef LOCKSTEP_CLIENT_GRADIENT_ENDING_H_
#define LOCKSTEP_CLIENT_GRADIENT_ENDING_H_

#include <optional>

#include "absl/status/status.h"
#include "lockstep/job_options.h"
#include "lockstep/verdict.h"

namespace lockstep::gradient {

// Uses only values that are the same on all ranks, so the result is too. A
// command takes precedence over data that has run out: a drained job may be
// resumed.
Ending EndingOf(const Verdict& verdict, Uneven uneven);

// One rank (uneven: stop) or all ranks (uneven: join) have no more data.
bool IsOutOfData(const Verdict& verdict, Uneven uneven);

// The operator's command that caused the ending, if any.
std::optional<Command> CommandOf(Ending ending);

// No step of the epoch follows: the step was the last one, or the job grows.
inline bool EndsEpoch(const Verdict& verdict) {
  return verdict.IsLast() || verdict.Grows();
}

// The status of a step call after a verdict that ends the epoch: Cancelled
// after the last step; Aborted if the job grows.
absl::Status AfterTheLast(const Verdict& verdict);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_ENDING_H_
