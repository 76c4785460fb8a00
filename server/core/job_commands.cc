// What an operator asks of a running job: the part of Job about commands.

#include <string>

#include "absl/strings/str_format.h"
#include "server/core/job.h"

namespace lockstep::core {

absl::Status Job::Obey(JobCommand command, const std::string&, Turn&) {
  if (state_ != JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrFormat("job %s is %s: only a running job can %s", spec().name,
                        Name(state_), Name(command)));
  }
  return absl::UnimplementedError(absl::StrFormat(
      "%s is not part of this release", std::string(Name(command))));
}

}  // namespace lockstep::core
