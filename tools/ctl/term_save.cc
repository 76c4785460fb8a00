#include "tools/ctl/term_save.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/process.h"

namespace lockstep::ctl {

TermSave::TermSave(JobName job, AdminClientOptions admin,
                   absl::Duration longest)
    : job_(std::move(job)), longest_(longest), admin_(std::move(admin)) {}

// A coordinator that does not answer may be back before the time is over.
std::optional<absl::Status> TermSave::Take(absl::Time now) {
  give_up_at_ = std::min(give_up_at_, now + longest_);
  const absl::StatusOr<JobView> view =
      wait_ ? admin_.AskOfSaves(job_)
            : admin_.SaveJob(job_, absl::StrCat("the workers on ", HostName(),
                                                " are to end"));
  std::optional<absl::Status> outcome;
  if (!view.ok()) {
    if (!absl::IsUnavailable(view.status())) return view.status();
  } else if (wait_) {
    outcome = wait_->Take(*view);
  } else {
    wait_.emplace(*view);
  }
  if (outcome || now < give_up_at_) return outcome;
  return absl::DeadlineExceededError(
      view.ok() ? absl::StrCat("it was not committed within ",
                               absl::FormatDuration(longest_))
                : std::string(view.status().message()));
}

}  // namespace lockstep::ctl
