#include "tools/ctl/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "base/user_file.h"
#include "protocol/job_view.h"
#include "spec/spec_text.h"
#include "tools/ctl/choose_job.h"
#include "tools/ctl/local_launch.h"
#include "tools/ctl/run_job.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {
namespace {

RunRequest RequestOf(const RunOptions& options) {
  return {.workers = options.workers,
          .nodes = options.nodes,
          .node_rank = options.node_rank,
          .restarts = options.restarts,
          .has_address = !options.address.empty(),
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

bool WriteAll(int pipe, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(pipe, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    text.remove_prefix(std::max<ssize_t>(written, 0));
  }
  return true;
}

// Reads to the end of the pipe.
std::string ReadToEnd(int pipe) {
  std::string text;
  char chunk[4096];
  ssize_t got = 0;
  while ((got = read(pipe, chunk, sizeof chunk)) != 0) {
    if (got > 0) text.append(chunk, got);
    if (got < 0 && errno != EINTR) break;
  }
  return text;
}

// The spec of the job of this name, unless the job is over, which frees its
// name. Empty if the coordinator does not answer or refuses: the workers' token
// does not allow describe. The workers then report the error.
std::optional<JobSpec> AskForJob(const std::string& address, const JobName& job,
                                 const std::string& token) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const FileDescriptor from(ends[0]);
  FileDescriptor into(ends[1]);
  // In a child process: gRPC's threads do not survive the later forks.
  const pid_t child = fork();
  if (child == 0) {
    AdminClient admin({.addresses = address, .token = token});
    const absl::StatusOr<JobView> view = admin.DescribeJob(job);
    if (view.ok() && IsOver(view->state)) {
      admin.DeleteJob(job, /*keep=*/true).IgnoreError();
    }
    const bool told = !view.ok() || IsOver(view->state) ||
                      WriteAll(into.get(), spec::ToYaml(view->spec));
    _exit(told ? 0 : 1);
  }
  into = FileDescriptor();
  const std::string text = ReadToEnd(from.get());
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) return std::nullopt;
  absl::StatusOr<JobSpec> spec = spec::ParseJobSpec(text, job.value);
  if (!spec.ok()) return std::nullopt;
  return *std::move(spec);
}

}  // namespace

int Run(const RunOptions& options) {
  absl::StatusOr<RunJob> job = ReadJob(options);
  if (job.ok() && !options.address.empty()) {
    const auto existing =
        AskForJob(options.address, {job->spec.name}, options.token);
    if (existing) job = JoinExisting(RequestOf(options), *existing, *job);
  }
  if (!job.ok()) {
    Complain(job.status());
    return 2;
  }
  return LocalLaunch(options, *job).Run();
}

}  // namespace lockstep::ctl
