// The host cost of an operation on a real GPU, compared to plain NCCL.
//
//   main ──forks──▶ rank 0 ◀──lines──▶ rank 1
//
// Two processes, because with one rank NCCL does not run its kernel. With a
// single GPU they share it, and each claims to be on a different host
// (NCCL_HOSTID), because NCCL would refuse otherwise; their operations then go
// over sockets. That slows down the operations, but not the host's calls, of
// which no more are in flight than the device's queue has room for
// (enqueue_cost.h).
//
// Exit code 1 if this library costs more than 3 us in addition, 77 without a
// GPU or NCCL.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/enqueue_cost.h"
#include "client/transport/nccl/gpu.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::bench {
namespace {

constexpr double kMoreMax = 3;  // us
constexpr int kRanks = 2;
constexpr int kSkipped = 77;

std::string Environment(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

// Exchanges lines between two ranks. A rank that has ended sends empty lines.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}

  std::string Trade(const std::string& mine) {
    const std::string sent = mine + "\n";
    (void)!send(socket_, sent.data(), sent.size(), MSG_NOSIGNAL);
    std::string theirs;
    char next = 0;
    while (read(socket_, &next, 1) == 1 && next != '\n') theirs += next;
    return theirs;
  }

 private:
  const int socket_;
};

// Prints this rank's device and where it is.
absl::StatusOr<int> DevicesHere() {
  const auto cuda = transport::nccl::LoadCuda(0);
  if (!cuda.ok()) return cuda.status();
  absl::Status found = transport::nccl::CheckGpu(**cuda);
  if (!found.ok()) return found;
  int count = 0;
  found = transport::nccl::Check(**cuda, (*cuda)->GetDeviceCount(&count),
                                 "GetDeviceCount");
  if (!found.ok()) return found;
  return count;
}

int Report(const EnqueueCost& cost, const EnqueueLoad& load, int devices) {
  std::printf(
      "an all-reduce of 1 KiB, %d ranks on %d GPU%s, us a call: medians of %d "
      "batches of %d calls\n",
      kRanks, std::min(devices, kRanks),
      devices < kRanks ? ", which they share: over sockets" : "s", load.batches,
      load.calls);
  std::printf("%-28s %8.2f\n", "raw NCCL", cost.raw_us);
  const double more = cost.call_us - cost.raw_us;
  std::printf("%-28s %8.2f  (NCCL + %.2f)\n", "a call of AllReduce",
              cost.call_us, more);
  if (more <= kMoreMax) return 0;
  std::printf("more than NCCL's + %.0f us\n", kMoreMax);
  return 1;
}

int RunRank(int rank, Line line) {
  const auto devices = DevicesHere();
  if (absl::IsFailedPrecondition(devices.status())) {
    if (rank == 0) {
      std::printf("skipped: %s\n",
                  std::string(devices.status().message()).c_str());
    }
    return kSkipped;
  }
  if (!devices.ok()) return Fail(devices.status());
  if (*devices < kRanks) {
    setenv("NCCL_HOSTID", absl::StrCat("enqueue-bench-", rank).c_str(), 1);
  }
  const auto tables = transport::nccl::LoadTables(Environment, rank % *devices);
  if (absl::IsFailedPrecondition(tables.status())) {
    if (rank == 0) {
      std::printf("skipped: %s\n",
                  std::string(tables.status().message()).c_str());
    }
    return kSkipped;
  }
  if (!tables.ok()) return Fail(tables.status());
  const EnqueuePlace place{
      .rank = rank, .size = kRanks, .exchange = [&](const std::string& mine) {
        std::vector<std::string> lines(kRanks);
        lines[rank] = mine;
        lines[1 - rank] = line.Trade(mine);
        return lines;
      }};
  const EnqueueLoad load{.with_raw = true};
  const auto cost = MeasureEnqueue(*tables, place, load);
  if (!cost.ok()) return Fail(cost.status());
  return rank == 0 ? Report(*cost, load, *devices) : 0;
}

// The exit status of a child, or 1 if a signal killed it.
int CodeOf(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 1;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::fprintf(stderr, "a rank ended by signal %d\n", WTERMSIG(status));
  return 1;
}

// No CUDA before the fork: a process that has initialised CUDA must not fork.
int Main() {
  int sockets[kRanks];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    std::perror("socketpair");
    return 1;
  }
  pid_t children[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    children[rank] = fork();
    if (children[rank] < 0) {
      std::perror("fork");
      return 1;
    }
    if (children[rank] > 0) continue;
    close(sockets[1 - rank]);
    const int code = RunRank(rank, Line(sockets[rank]));
    std::fflush(stdout);
    std::_Exit(code);
  }
  for (const int socket : sockets) close(socket);
  int codes[kRanks];
  for (int rank = 0; rank < kRanks; ++rank)
    codes[rank] = CodeOf(children[rank]);
  for (const int code : codes) {
    if (code != 0 && code != kSkipped) return code;
  }
  return std::max(codes[0], codes[1]);
}

}  // namespace
}  // namespace lockstep::bench

int main() { return lockstep::bench::Main(); }
