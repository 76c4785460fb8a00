// The command an operator has given a job, and which commands may follow it.
//
//   desired now   none      pause     drain     stop
//   asked for
//     pause       pause     pause     refused   refused
//     resume      refused   none      refused   refused
//     drain       drain     drain     drain     refused
//     stop        stop      stop      stop      stop
//
// At most one command is desired at a time. Drain and stop end a pause: ranks
// resume, and the next step is their last. Neither can be withdrawn, since
// ranks may have run their last step before the withdrawal reaches them. Stop
// may replace drain, because the workers leave in both cases.
//
// Each change increments the sequence number, which never restarts
// (protocol::DesiredCommands).
//
// A save is beside them, at any time while ranks may train: it counts in
// DesiredCommands::saves. What is not obeyed by the end of the epoch is
// forgotten. The coordinator's own wish to grow is beside them too.

#ifndef LOCKSTEP_SERVER_CORE_COMMANDS_H_
#define LOCKSTEP_SERVER_CORE_COMMANDS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "protocol/job_command.h"
#include "protocol/types.h"

namespace lockstep::core {

bool Wants(const protocol::DesiredCommands& wanted, Command command);

// The desired commands after `asked`: equal to `now` if nothing changes.
// FailedPrecondition explains why the command is refused. Not for kRebuild.
absl::StatusOr<protocol::DesiredCommands> Ask(
    const protocol::DesiredCommands& now, JobCommand asked,
    const std::string& reason);

// The desired commands once the current one has completed.
protocol::DesiredCommands Nothing(const protocol::DesiredCommands& now);

// "drained by an operator: maintenance", or "by alice at ...: maintenance" if
// `by` is not empty.
std::string ByOperator(const std::string& what, const std::string& reason,
                       const std::string& by = "");

// "all ranks pause after step 412", where 412 is the last committed step.
std::string AllRanks(Command command, uint64_t steps_committed);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COMMANDS_H_
