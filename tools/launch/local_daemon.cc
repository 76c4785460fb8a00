#include "tools/launch/local_daemon.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/join_token.h"
#include "base/secret_file.h"
#include "tools/launch/scratch_folder.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

std::string FirstLine(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

void Publish(LocalDaemon* daemon, const LocalDaemonOptions& options) {
  absl::StatusOr<PublishedToken> published = PublishedToken::Write(
      daemon->address, {.token = daemon->operator_token,
                        .tls_folder = options.operator_tls_folder,
                        .worker_tls_folder = options.worker_tls_folder});
  if (published.ok()) {
    daemon->published = *std::move(published);
    return;
  }
  absl::FPrintF(stderr,
                "warning: the token of the private coordinator cannot be "
                "written down (%s): lockstepctl cannot operate this job\n",
                std::string(published.status().message()));
}

}  // namespace

std::string LocalDaemon::JoinTokenOf(const std::string& job) const {
  absl::StatusOr<std::string> token = JoinToken(worker_token, job);
  Check(token.ok(), "a drawn secret is long enough");
  return *std::move(token);
}

std::string OwnFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

absl::StatusOr<LocalDaemon> StartLocalDaemon(
    Supervisor& supervisor, const LocalDaemonOptions& options) {
  LocalDaemon daemon{
      .worker_token = DrawSecret(),
      .operator_token = options.operator_token.empty() ? DrawSecret()
                                                       : options.operator_token,
      .scratch = std::make_unique<ScratchFolder>()};  // of mode 0700
  if (!daemon.scratch->status().ok()) return daemon.scratch->status();
  const fs::path folder = daemon.scratch->path();
  const fs::path token_file = folder / "token";
  const fs::path worker_token_file = folder / "worker-token";
  absl::Status started =
      WriteSecretFile(token_file.string(), daemon.operator_token);
  if (started.ok()) {
    started = WriteSecretFile(worker_token_file.string(), daemon.worker_token);
  }
  if (!started.ok()) return started;

  const fs::path port_file = folder / "port";
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  inotify_add_watch(watch, folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  const auto command = [&](const std::string& address) {
    ChildCommand command{
        .argv = {absl::StrCat(OwnFolder(), "/lockstepd"), "--listen", address,
                 "--port_file", port_file.string(), "--token_file",
                 token_file.string(), "--worker_token_file",
                 worker_token_file.string(), "--journal", options.journal,
                 "--log_level", "warning"},
        .quiet_stdout = true};
    if (!options.tls_folder.empty()) {
      command.argv.insert(command.argv.end(), {"--tls", options.tls_folder});
    }
    return command;
  };
  started = supervisor.Start("lockstepd", command("127.0.0.1:0"),
                             Supervisor::Role::kBackground);
  const absl::Time deadline = absl::Now() + options.patience;
  while (started.ok() && daemon.address.empty() && absl::Now() < deadline &&
         !supervisor.Ended("lockstepd")) {
    pollfd fd = {.fd = watch, .events = POLLIN, .revents = 0};
    poll(&fd, 1, 100);
    daemon.address = FirstLine(port_file);
  }
  close(watch);
  if (!started.ok()) return started;
  if (daemon.address.empty()) {
    return absl::UnavailableError(
        "the private lockstepd did not start to listen");
  }
  if (options.journal != kJournalInMemory) {
    daemon.again = command(daemon.address);
  }
  Publish(&daemon, options);
  return daemon;
}

}  // namespace lockstep::launch
