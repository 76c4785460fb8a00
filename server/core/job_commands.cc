// What an operator asks of a running job: the part of Job about commands.

#include <string>

#include "absl/strings/str_format.h"
#include "server/core/job.h"

namespace lockstep::core {

absl::Status Job::Obey(JobCommand command, const std::string&, Turn& turn) {
  if (state_ != JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %s is %s: only a running job can %s", spec().name,
                        Name(state_), Name(command)));
  }
  if (command == JobCommand::kRebuild) return RebuildNow(turn);
  return absl::UnimplementedError(absl::StrFormat(
      "%s is not part of this release", std::string(Name(command))));
}

}  // namespace lockstep::core
