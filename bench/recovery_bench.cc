// Recovery of one rank from another: `./run bench recovery [MIB [SAMPLES]]`.
//
// Two ranks in one process, 256 MiB of state in private memory. In turns with
// it the same bytes are copied plainly; ratios are of medians.
//
//   shm     beside memcpy, from warm pages to warm pages
//   gloo    beside write(2) and read(2) on a TCP socket on the loopback

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "bench/figures.h"
#include "client/state/recovery.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/shm/shm.h"

namespace lockstep::bench {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kPiece = kMiB;

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

void OnBothRanks(const std::function<void(int)>& body) {
  std::thread other(body, 1);
  body(0);
  other.join();
}

class TwoRanks {
 public:
  explicit TwoRanks(
      const std::function<std::unique_ptr<transport::Transport>()>& make) {
    std::vector<std::unique_ptr<transport::PendingGroup>> pending;
    std::vector<std::string> handles;
    for (int rank = 0; rank < 2; ++rank) {
      transports_.push_back(make());
      arenas_.push_back(transports_[rank]->MakeArena());
      pending.push_back(*transports_[rank]->Prepare(
          {.name = "recovery", .rank = rank, .size = 2}));
      handles.push_back(pending[rank]->handle());
    }
    OnBothRanks([&](int rank) {
      communicators_[rank] =
          *pending[rank]->Connect(handles, absl::Seconds(30));
    });
  }
  Communicator& at(int rank) { return *communicators_[rank]; }
  // As a session's: its arena.
  state::WireMemory wire(int rank) {
    return {.allocate = [arena = arenas_[rank]](size_t bytes) {
      return arena->Allocate(bytes);
    }};
  }
  HostStream& stream(int rank) { return streams_[rank]; }

 private:
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::unique_ptr<Communicator> communicators_[2];
  HostStream streams_[2];
};

// A connected pair of TCP sockets.
std::pair<int, int> TcpPair() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  Check(bind(listener, plain, size) == 0 && listen(listener, 1) == 0 &&
            getsockname(listener, plain, &size) == 0,
        "no TCP socket");
  const int from = socket(AF_INET, SOCK_STREAM, 0);
  Check(connect(from, plain, size) == 0, "connect failed");
  const int to = accept(listener, nullptr, nullptr);
  Check(to >= 0, "accept failed");
  close(listener);
  return {from, to};
}

void OverSocket(std::pair<int, int> sockets, std::vector<char>* from,
                std::vector<char>* to) {
  OnBothRanks([&](int rank) {
    std::vector<char>& bytes = rank == 0 ? *from : *to;
    for (size_t at = 0; at < bytes.size();) {
      const size_t most = std::min(kPiece, bytes.size() - at);
      const ssize_t moved = rank == 0
                                ? write(sockets.first, bytes.data() + at, most)
                                : read(sockets.second, bytes.data() + at, most);
      Check(moved > 0, "the socket failed");
      at += static_cast<size_t>(moved);
    }
  });
}

class Comparison {
 public:
  Comparison(size_t bytes, int samples)
      : samples_(samples), from_(bytes), to_(bytes), kept_(bytes, 1) {
    for (size_t i = 0; i < bytes; ++i) {
      from_[i] = static_cast<char>(i * 2654435761u >> 13);
    }
    tensors_ = {{.name = "w",
                 .dtype = DType::kU8,
                 .dims = {{.bounds = {0, static_cast<int64_t>(bytes)}}},
                 .ranks = {0, 1}}};
    plan_ = *plan::PlanRecovery(tensors_, Mesh{{{"data", 2}}}, {1}, {0});
  }

  std::vector<char>* from() { return &from_; }
  std::vector<char>* to() { return &kept_; }

  // The rate of a recovery by that of `plain`.
  double Ratio(const char* name, TwoRanks& ranks,
               const std::function<void()>& plain) {
    std::vector<double> ours, theirs;
    for (int i = -1; i < samples_; ++i) {
      std::fill(to_.begin(), to_.end(), 0);
      const double our = SecondsOf([&] { Recover(ranks); });
      Check(to_ == from_, "the recovered state differs");
      const double their = SecondsOf(plain);
      if (i < 0) continue;  // warm-up
      ours.push_back(our);
      theirs.push_back(their);
    }
    const double gib = static_cast<double>(from_.size()) / (1 << 30);
    std::printf("%s: recovery %.2f GiB/s, plain %.2f GiB/s\n", name,
                gib / Median(ours), gib / Median(theirs));
    return Median(theirs) / Median(ours);
  }

 private:
  void Recover(TwoRanks& ranks) {
    OnBothRanks([&](int rank) {
      void* const memory[] = {rank == 0 ? from_.data() : to_.data()};
      Check(state::Recover(tensors_, plan_, memory, ranks.at(rank),
                           ranks.stream(rank), {.wire = ranks.wire(rank)})
                .ok(),
            "the recovery failed");
    });
  }

  const int samples_;
  std::vector<char> from_, to_, kept_;
  std::vector<plan::StateTensor> tensors_;
  plan::RecoveryPlan plan_;
};

int Main(int argc, char** argv) {
  const int mib = argc > 1 ? std::atoi(argv[1]) : 256;
  const int samples = argc > 2 ? std::atoi(argv[2]) : 7;
  if (mib < 1 || samples < 1 || argc > 3) {
    std::fprintf(stderr, "usage: recovery_bench [MIB [SAMPLES]]\n");
    return 2;
  }
  Comparison comparison(static_cast<size_t>(mib) * kMiB, samples);
  TwoRanks shm([] { return transport::MakeShmTransport(); });
  TwoRanks gloo([] { return *transport::MakeGlooTransport({}); });
  const std::pair<int, int> sockets = TcpPair();
  const double by_shm = comparison.Ratio("shm", shm, [&] {
    std::memcpy(comparison.to()->data(), comparison.from()->data(),
                comparison.from()->size());
  });
  const double by_tcp = comparison.Ratio("gloo", gloo, [&] {
    OverSocket(sockets, comparison.from(), comparison.to());
  });
  Print({{.what = "recovery by shared memory / memcpy",
          .promised = 0.5,
          .measured = by_shm},
         {.what = "recovery by TCP / a plain socket",
          .promised = 0.8,
          .measured = by_tcp}});
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
