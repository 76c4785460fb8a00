// What an operator wants of a job, and what he may ask for beside it.
//
//   asked     nothing wanted   pause     drain     stop
//   pause     pause            pause     refused   refused
//   resume    refused          nothing   refused   refused
//   drain     drain            drain     drain     refused
//   stop      stop             stop      stop      stop
//
// At most one is wanted at a time. Drain and stop end a pause: ranks go on, and
// the next step is their last. They are not taken back, since ranks may have
// taken their last step by the time the coordinator would say so; stop may
// still take the place of drain, for then the workers leave all the same.
//
// A word that changes something has the next number, for ever
// (protocol::DesiredCommands).

#ifndef LOCKSTEP_SERVER_CORE_COMMANDS_H_
#define LOCKSTEP_SERVER_CORE_COMMANDS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "plan/words/job_command.h"
#include "plan/words/protocol.h"

namespace lockstep::core {

bool Wants(const protocol::DesiredCommands& wanted, Command command);

// What is wanted once `asked` is added: equal to `now` if that is no change.
// FailedPrecondition says why it may not be asked. Not for kRebuild.
absl::StatusOr<protocol::DesiredCommands> Ask(
    const protocol::DesiredCommands& now, JobCommand asked,
    const std::string& reason);

// Once it is done.
protocol::DesiredCommands Nothing(const protocol::DesiredCommands& now);

// "drained by an operator: maintenance".
std::string ByOperator(const std::string& what, const std::string& reason);

// "all ranks pause after step 412", which is the last that they committed.
std::string AllRanks(Command command, uint64_t steps_committed);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COMMANDS_H_
