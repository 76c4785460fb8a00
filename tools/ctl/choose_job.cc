#include "tools/ctl/choose_job.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::ctl {

bool IsOver(JobState state) {
  return state == JobState::kCompleted || state == JobState::kFailed ||
         state == JobState::kStopped;
}

absl::StatusOr<JobName> OnlyJob(const std::vector<JobSummary>& jobs) {
  if (jobs.empty()) return absl::NotFoundError("there is no job");
  std::vector<JobSummary> meant;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(meant),
               [](const JobSummary& job) { return !IsOver(job.state); });
  const bool all_are_over = meant.empty();
  if (all_are_over) meant = jobs;
  if (meant.size() == 1) return meant.front().name;
  return absl::InvalidArgumentError(absl::StrCat(
      "there are ", meant.size(), " jobs", all_are_over ? ", all over" : "",
      ", name one: ",
      absl::StrJoin(meant, ", ",
                    [](std::string* out, const JobSummary& summary) {
                      out->append(summary.name.value);
                    })));
}

}  // namespace lockstep::ctl
