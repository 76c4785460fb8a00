#include "tools/ctl/commands.h"

#include <unistd.h>

#include <cstdio>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/text/utf8.h"
#include "base/user_file.h"
#include "spec/spec_text.h"
#include "tools/ctl/choose_job.h"
#include "tools/ctl/print.h"
#include "tools/ctl/save_wait.h"
#include "tools/launch/operator_token.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {
namespace {

// Prints the jobs of this user's private coordinators, each on its own port.
void NamePrivateJobs() {
  for (const std::string& address : launch::PublishedAddresses()) {
    const auto access = launch::FindOperatorAccess(address);
    if (!access.ok()) continue;
    AdminClient admin({.addresses = address,
                       .token = access->token,
                       .tls_folder = access->tls_folder,
                       .deadline = absl::Seconds(1)});
    // Fails if a killed launcher left its file behind: no jobs then.
    const auto jobs = admin.ListJobs().value_or(std::vector<JobSummary>());
    for (const JobSummary& job : jobs) {
      absl::FPrintF(stderr,
                    "lockstepctl: job %s has a private coordinator: give "
                    "--address %s\n",
                    Printable(job.name.value), address);
    }
  }
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(status.message()));
  if (!absl::IsUnavailable(status)) return 1;
  NamePrivateJobs();
  return 3;
}

AdminClient Connect(const CommonOptions& common) {
  return AdminClient({.addresses = common.address,
                      .token = common.token,
                      .tls_folder = common.tls_folder,
                      .search = absl::Seconds(5),
                      .on_warning = &Warn});
}

// `job`, or the only job if it is empty (choose_job.h).
absl::StatusOr<JobName> Choose(AdminClient& admin, const std::string& job) {
  if (!job.empty()) return JobName{job};
  absl::StatusOr<std::vector<JobSummary>> jobs = admin.ListJobs();
  if (!jobs.ok()) return jobs.status();
  return OnlyJob(*jobs);
}

}  // namespace

int Create(const CommonOptions& common, const std::string& spec_file) {
  absl::StatusOr<std::string> text =
      ReadUserFile(spec_file, kHandwrittenBytesMax);
  if (!text.ok()) return ExitCode(text.status());
  absl::StatusOr<JobSpec> spec = spec::ParseJobSpec(*text, spec_file);
  if (!spec.ok()) return ExitCode(spec.status());
  absl::Status created = Connect(common).CreateJob(*spec);
  if (created.ok()) absl::PrintF("job %s created\n", spec->name);
  return ExitCode(created);
}

int Jobs(const CommonOptions& common) {
  absl::StatusOr<std::vector<JobSummary>> jobs = Connect(common).ListJobs();
  if (!jobs.ok()) return ExitCode(jobs.status());
  Print(common.json ? JobsAsJson(*jobs) : JobsAsText(*jobs));
  return 0;
}

int Limits(const CommonOptions& common) {
  absl::StatusOr<std::vector<LimitUse>> limits = Connect(common).ListLimits();
  if (!limits.ok()) return ExitCode(limits.status());
  Print(common.json ? LimitsAsJson(*limits) : LimitsAsText(*limits));
  return 0;
}

int DescribeJob(const CommonOptions& common, const std::string& job) {
  AdminClient admin = Connect(common);
  absl::StatusOr<JobName> name = Choose(admin, job);
  if (!name.ok()) return ExitCode(name.status());
  absl::StatusOr<JobView> view = admin.DescribeJob(*name);
  if (!view.ok()) return ExitCode(view.status());
  Print(common.json ? JobAsJson(*view, 2) : JobAsText(*view));
  return 0;
}

int Watch(const CommonOptions& common, const std::string& job) {
  AdminClient admin = Connect(common);
  absl::StatusOr<JobName> name = Choose(admin, job);
  if (!name.ok()) return ExitCode(name.status());
  return ExitCode(admin.WatchJob(*name, [&](const JobView& view) {
    Print(common.json ? JobAsJson(view, -1) : JobAsLine(view));
    std::fflush(stdout);  // also into a pipe: somebody waits for it
    return std::ferror(stdout) == 0;
  }));
}

int SendCommand(const CommonOptions& common, const std::string& job,
                JobCommand command, const std::string& reason) {
  AdminClient admin = Connect(common);
  absl::StatusOr<JobName> name = Choose(admin, job);
  if (!name.ok()) return ExitCode(name.status());
  const absl::Status accepted = admin.CommandJob(*name, command, reason);
  if (accepted.ok()) Print(CommandAsText(*name, command));
  return ExitCode(accepted);
}

int SaveAndWait(const CommonOptions& common, const std::string& job,
                const std::string& reason) {
  AdminClient admin = Connect(common);
  absl::StatusOr<JobName> name = Choose(admin, job);
  if (!name.ok()) return ExitCode(name.status());
  const absl::StatusOr<JobView> before = admin.DescribeJob(*name);
  if (!before.ok()) return ExitCode(before.status());
  const absl::Status accepted =
      admin.CommandJob(*name, JobCommand::kSave, reason);
  if (!accepted.ok()) return ExitCode(accepted);
  SaveWait wait(*before);
  std::optional<absl::Status> outcome;
  std::optional<CheckpointName> committed;
  const bool shows = isatty(STDERR_FILENO) == 1;
  const absl::Status watched = admin.WatchJob(*name, [&](const JobView& view) {
    const std::string saving = SavingText(view.checkpoint);
    if (shows && !saving.empty()) absl::FPrintF(stderr, "\r%s\x1b[K", saving);
    outcome = wait.Take(view);
    committed = view.checkpoint.committed;
    return !outcome.has_value();
  });
  if (shows) absl::FPrintF(stderr, "\r\x1b[K");
  if (!watched.ok()) return ExitCode(watched);
  if (!outcome.has_value()) {
    outcome = absl::AbortedError("the job is over before it had saved");
  }
  if (outcome->ok()) {
    absl::PrintF("job %s: step %d is saved (attempt %d)\n", name->value,
                 committed->step, committed->attempt);
  }
  return ExitCode(*outcome);
}

int Delete(const CommonOptions& common, const std::string& job) {
  const absl::Status deleted = Connect(common).DeleteJob({job}, /*keep=*/false);
  if (deleted.ok()) absl::PrintF("job %s deleted\n", job);
  return ExitCode(deleted);
}

int StopNow(const CommonOptions& common, const std::string& job,
            const std::string& reason) {
  AdminClient admin = Connect(common);
  absl::StatusOr<JobName> name = Choose(admin, job);
  if (!name.ok()) return ExitCode(name.status());
  const absl::Status stopped = admin.StopJob(*name, reason);
  if (stopped.ok()) absl::PrintF("job %s is stopped\n", name->value);
  return ExitCode(stopped);
}

}  // namespace lockstep::ctl
