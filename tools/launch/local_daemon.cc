#include "tools/launch/local_daemon.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

}  // namespace

std::string OwnFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

absl::StatusOr<std::string> StartLocalDaemon(Supervisor& supervisor,
                                             absl::Duration patience) {
  const ScratchFolder scratch;
  if (scratch.path().empty()) {
    return absl::ResourceExhaustedError("cannot make a temporary folder");
  }
  const fs::path port_file = scratch.path() / "port";
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  inotify_add_watch(watch, scratch.path().c_str(),
                    IN_MOVED_TO | IN_CLOSE_WRITE);

  absl::Status started =
      supervisor.Start("lockstepd",
                       {.argv = {absl::StrCat(OwnFolder(), "/lockstepd"),
                                 "--listen", "127.0.0.1:0", "--port_file",
                                 port_file.string(), "--log_level", "warning"},
                        .quiet_stdout = true},
                       Supervisor::Role::kBackground);
  const absl::Time deadline = absl::Now() + patience;
  std::string address;
  while (started.ok() && address.empty() && absl::Now() < deadline &&
         !supervisor.Ended("lockstepd")) {
    pollfd fd = {.fd = watch, .events = POLLIN, .revents = 0};
    poll(&fd, 1, 100);
    address = FirstLine(port_file);
  }
  close(watch);
  if (!started.ok()) return started;
  if (!address.empty()) return address;
  return absl::UnavailableError(
      "the private lockstepd did not start to listen");
}

}  // namespace lockstep::launch
