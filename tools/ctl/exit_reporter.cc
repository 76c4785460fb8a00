#include "tools/ctl/exit_reporter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/process.h"
#include "tools/ctl/choose_job.h"

namespace lockstep::ctl {

ExitReporter::ExitReporter(const std::string& job, const std::string& addresses,
                           const std::string& token,
                           const std::string& tls_folder)
    : job_{job},
      admin_{.addresses = addresses,
             .token = token,
             .tls_folder = tls_folder,
             .deadline = absl::Seconds(1)} {}

// Only the coordinator knows whether this process is the member, or another
// process of that name: so the report names the process, not a generation.
absl::Status ExitReporter::Report(const std::string& worker, pid_t pid,
                                  const launch::ProcessExit& ending) {
  const protocol::Evidence exit = {
      .subject = {worker},
      .generation = {},
      .kind = protocol::EvidenceKind::kExited,
      .detail = absl::StrFormat("process %d %s", pid, Describe(ending)),
      .process = {.host = HostName(),
                  .pid = pid,
                  .boot_id = BootId(),
                  .start_time = ending.start_time}};
  absl::Status sent = Send(exit);
  if (absl::IsUnavailable(sent)) {
    rest_.push_back(exit);
  } else {
    ReportRest();
  }
  return sent;
}

absl::Status ExitReporter::Send(const protocol::Evidence& exit) {
  return AdminClient(admin_).ReportEvidence(job_, exit);
}

void ExitReporter::ReportRest() {
  while (!rest_.empty() && !absl::IsUnavailable(Send(rest_.front()))) {
    rest_.erase(rest_.begin());
  }
}

ExitReporter::Standing ExitReporter::Ask(const std::string& worker, pid_t pid) {
  const absl::StatusOr<JobView> view = AdminClient(admin_).DescribeJob(job_);
  if (!view.ok()) return {};
  const auto& wanted = view->wanted.commands;
  const bool drains = std::count(wanted.begin(), wanted.end(), Command::kDrain);
  Standing standing{.forms = view->state == JobState::kForming ||
                             view->state == JobState::kEpochEnded};
  const bool has_left = std::any_of(
      view->workers.begin(), view->workers.end(), [&](const WorkerView& other) {
        return other.name.value == worker && other.process.pid == pid &&
               other.state == WorkerState::kLeft;
      });
  standing.completed_without_it =
      view->state == JobState::kCompleted && !has_left;
  if (IsOver(view->state)) {
    standing.over = absl::StrCat("it is ", std::string(Name(view->state)),
                                 view->cause.message.empty() ? "" : ": ",
                                 view->cause.message);
  } else if (standing.forms && drains) {
    standing.over = "it is drained, and forms again with new workers";
  }
  return standing;
}

}  // namespace lockstep::ctl
