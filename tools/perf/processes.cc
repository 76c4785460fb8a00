#include "tools/perf/processes.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/file_descriptor.h"

namespace lockstep::perf {
namespace {

// The next line, without its newline; empty if there is none.
std::string ReadLine(int socket) {
  std::string line;
  for (char c; read(socket, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

bool WriteLine(int socket, std::string line) {
  line += '\n';
  return send(socket, line.data(), line.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(line.size());
}

struct RankProcess {
  pid_t pid;
  FileDescriptor socket;
};

RankProcess Start(int rank, const std::vector<RankProcess>& others,
                  const std::function<int(int, HandlePipes&)>& rank_main) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    std::perror("lockstep-perf: socketpair");
    std::exit(1);
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    std::perror("lockstep-perf: fork");
    std::exit(1);
  }
  if (pid > 0) {
    close(ends[1]);
    return {pid, FileDescriptor(ends[0])};
  }
  // The kernel kills this process when its parent dies.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);
  close(ends[0]);
  for (const RankProcess& other : others) close(other.socket.get());
  HandlePipes exchange(ends[1]);
  const int code = rank_main(rank, exchange);
  std::fflush(nullptr);
  std::_Exit(code);
}

// Sends each process's line to all, round by round, until one has ended.
void PassHandles(const std::vector<RankProcess>& children) {
  for (;;) {
    std::string all;
    for (const RankProcess& child : children) {
      const std::string handle = ReadLine(child.socket.get());
      if (handle.empty()) return;
      all += all.empty() ? handle : "\n" + handle;
    }
    for (const RankProcess& child : children)
      WriteLine(child.socket.get(), all);
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> HandlePipes::Exchange(
    const std::string& own, int ranks) {
  std::vector<std::string> handles;
  WriteLine(socket_, own);
  for (int rank = 0; rank < ranks; ++rank) {
    handles.push_back(ReadLine(socket_));
    if (handles.back().empty()) {
      return absl::UnavailableError("another rank has ended");
    }
  }
  return handles;
}

int RunRanks(int ranks,
             const std::function<int(int rank, HandlePipes&)>& rank_main) {
  std::fflush(nullptr);
  std::vector<RankProcess> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(Start(rank, children, rank_main));
  }
  PassHandles(children);
  for (RankProcess& child : children) child.socket = FileDescriptor();
  int worst = 0;
  for (const RankProcess& child : children) {
    int status = 0;
    waitpid(child.pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) worst = 1;
  }
  return worst;
}

}  // namespace lockstep::perf
