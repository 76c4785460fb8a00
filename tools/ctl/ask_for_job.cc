#include "tools/ctl/ask_for_job.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "protocol/job_view.h"
#include "spec/spec_text.h"
#include "tools/ctl/choose_job.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {
namespace {

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

}  // namespace

std::optional<JobSpec> AskForJob(const std::string& address, const JobName& job,
                                 const std::string& token,
                                 const std::string& tls_folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const FileDescriptor from(ends[0]);
  FileDescriptor into(ends[1]);
  // In a child process: gRPC's threads do not survive the later forks.
  const pid_t child = fork();
  if (child == 0) {
    AdminClient admin(
        {.addresses = address, .token = token, .tls_folder = tls_folder});
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

}  // namespace lockstep::ctl
