#include "tools/ctl/run_command.h"

#include <optional>

#include "base/user_file.h"
#include "tools/ctl/ask_for_job.h"
#include "tools/ctl/local_launch.h"
#include "tools/ctl/run_job.h"

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

}  // namespace

int Run(const RunOptions& options) {
  absl::StatusOr<RunJob> job = ReadJob(options);
  if (job.ok() && !options.address.empty()) {
    const auto existing = AskForJob(options.address, {job->spec.name},
                                    options.token, options.tls_folder);
    if (existing) job = JoinExisting(RequestOf(options), *existing, *job);
  }
  if (!job.ok()) {
    Complain(job.status());
    return 2;
  }
  return LocalLaunch(options, *job).Run();
}

}  // namespace lockstep::ctl
