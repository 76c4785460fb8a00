// Whether a verdict is the last of its epoch, and what is said of it after.

#ifndef LOCKSTEP_CLIENT_GRADIENT_ENDING_H_
#define LOCKSTEP_CLIENT_GRADIENT_ENDING_H_

#include <optional>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"
#include "lockstep/verdict.h"

namespace lockstep::gradient {

// From what all ranks see, and so the same on each. A command goes before data
// that is out: who is drained may come again.
Ending EndingOf(const Verdict& verdict, Uneven uneven);

// The operator's, if it was one.
std::optional<Command> CommandOf(Ending ending);

// Cancelled: what a step call after the last is told.
absl::Status AfterTheLast(const Verdict& verdict);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_ENDING_H_
