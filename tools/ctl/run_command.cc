#include "tools/ctl/run_command.h"

#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/user_file.h"
#include "tools/ctl/ask_for_job.h"
#include "tools/ctl/doctor_command.h"
#include "tools/ctl/local_launch.h"
#include "tools/ctl/run_job.h"
#include "tools/doctor/report.h"

namespace lockstep::ctl {
namespace {

RunRequest RequestOf(const RunOptions& options) {
  return {.workers = options.workers,
          .nodes = options.nodes,
          .node_rank = options.node_rank,
          .restarts = options.restarts,
          .spares = options.spares,
          .has_address = !options.address.empty(),
          .trusts_network = options.data_plane == "trusted",
          .job = options.job,
          .program = options.program[0],
          .spec_file = options.spec_file};
}

absl::StatusOr<RunJob> ReadJob(const RunOptions& options) {
  if (options.spec_file.empty()) return DecideJob(RequestOf(options), "");
  const auto spec_text = ReadUserFile(options.spec_file, kHandwrittenBytesMax);
  if (!spec_text.ok()) return spec_text.status();
  return DecideJob(RequestOf(options), *spec_text);
}

// Once, here, instead of by each worker.
absl::Status CheckWorkersTls(const RunOptions& options) {
  const std::string& folder = options.WorkersTls();
  if (options.address.empty() || folder.empty()) return absl::OkStatus();
  absl::Status fit = CheckWorkersFolder(folder);
  if (fit.ok() || !options.worker_tls_folder.empty()) return fit;
  return absl::Status(fit.code(),
                      absl::StrCat(fit.message(),
                                   "; run gives it to its workers, unless "
                                   "--worker-tls names theirs"));
}

}  // namespace

int Run(const RunOptions& options) {
  absl::StatusOr<RunJob> job = ReadJob(options);
  if (absl::Status tls = CheckWorkersTls(options); job.ok() && !tls.ok()) {
    job = tls;
  }
  if (job.ok() && !options.address.empty()) {
    const auto existing = AskForJob(options.address, {job->spec.name},
                                    options.token, options.LauncherTls());
    if (existing) job = JoinExisting(RequestOf(options), *existing, *job);
  }
  if (!job.ok()) {
    Complain(job.status());
    return 2;
  }
  // Only for the log: the workers find out, and say it in their own words.
  for (const doctor::Finding& finding :
       FindForLaunch(job->spec, options.workers + options.spares,
                     options.address.empty() ? "" : options.WorkersTls())) {
    absl::FPrintF(stderr, "lockstepctl: %s\n", doctor::FindingAsLine(finding));
  }
  return LocalLaunch(options, *job).Run();
}

}  // namespace lockstep::ctl
