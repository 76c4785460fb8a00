// The time of a step with and without TLS between coordinator and workers:
// `./run bench tls`.
//
//   tls_bench [ROUNDS [SECONDS]]                             (default: 21, 1)
//
// Four jobs of two workers each stay joined: static and negotiated, at a
// coordinator with TLS and at one without. In a round each job makes steps of
// 4 MiB of gradients for about SECONDS, one job after the other, in turns in
// one order and in the other; medians over the rounds. A static step does not
// need the coordinator; of a negotiated one it decides each pass. The workers
// are threads; the two lockstepd are processes.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "bench/bench_worker.h"
#include "bench/figures.h"
#include "tools/certs/certificate_folder.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/scratch_folder.h"
#include "tools/launch/supervisor.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWorkers = 2;
constexpr int kParameters = 16;
constexpr int64_t kElements = 65'536;

// A coordinator, and where its workers find certificates.
struct Coordinator {
  launch::LocalDaemon daemon;
  std::string worker_tls;  // empty: plaintext
  // Ends lockstepd before its files are removed. One for each: it knows its
  // children by name.
  std::unique_ptr<launch::Supervisor> supervisor;
};

class Job {
 public:
  Job(const Coordinator& coordinator, SyncMode sync) : workers_(kWorkers) {
    JobSpec spec;
    spec.name = sync == SyncMode::kNegotiated ? "negotiated" : "static";
    spec.mesh = *ParseMesh(absl::StrCat("data=", kWorkers));
    spec.sync = sync;
    AllAtOnce(workers_, [&](BenchWorker& worker, int index) {
      worker.Join({.addresses = {coordinator.daemon.address},
                   .worker = absl::StrCat("worker-", index),
                   .spec = spec,
                   .token = coordinator.daemon.worker_token,
                   .tls_folder = coordinator.worker_tls},
                  kParameters, kElements);
    });
  }
  ~Job() {
    AllAtOnce(workers_, [](BenchWorker& worker, int) { worker.Leave(); });
  }

  // Seconds of a step, over so many.
  double Measure(int steps) {
    const auto begin = Clock::now();
    AllAtOnce(workers_, [&](BenchWorker& worker, int) {
      for (int s = 0; s < steps; ++s) worker.Step();
    });
    const std::chrono::duration<double> taken = Clock::now() - begin;
    return taken.count() / steps;
  }

 private:
  std::vector<BenchWorker> workers_;
};

struct Pair {
  const char* name;
  Job plain;
  Job with_tls;
  std::vector<double> plain_seconds, tls_seconds;

  int StepsIn(double seconds) {
    constexpr int kTrial = 100;
    with_tls.Measure(kTrial);
    return static_cast<int>(seconds / plain.Measure(kTrial)) + 1;
  }
};

void Measure(Pair& pair, int round, int steps) {
  const auto plain = [&] {
    pair.plain_seconds.push_back(pair.plain.Measure(steps));
  };
  const auto with_tls = [&] {
    pair.tls_seconds.push_back(pair.with_tls.Measure(steps));
  };
  if (round % 2 == 0) {
    plain();
    with_tls();
  } else {
    with_tls();
    plain();
  }
}

double RatioOf(const Pair& pair) {
  std::vector<double> ratios;
  for (size_t i = 0; i < pair.plain_seconds.size(); ++i) {
    ratios.push_back(pair.tls_seconds[i] / pair.plain_seconds[i]);
  }
  return Median(std::move(ratios));
}

Coordinator Start(const std::string& certs) {
  launch::LocalDaemonOptions options;
  Coordinator coordinator;
  coordinator.supervisor =
      std::make_unique<launch::Supervisor>(launch::SupervisorOptions{});
  if (!certs.empty()) {
    options.tls_folder = absl::StrCat(certs, "/", certs::kCoordinatorFolder);
    coordinator.worker_tls = absl::StrCat(certs, "/", certs::kWorkerFolder);
  }
  auto daemon = launch::StartLocalDaemon(*coordinator.supervisor, options);
  Check(daemon.ok(), "lockstepd does not start");
  coordinator.daemon = *std::move(daemon);
  return coordinator;
}

int Run(int rounds, double seconds) {
  const launch::ScratchFolder scratch;
  const std::string certs = scratch.path() / "certs";
  Check(certs::InitCertificates(certs,
                                {.hosts = {"127.0.0.1"}, .now = absl::Now()})
            .ok(),
        "no certificates");
  const Coordinator plain = Start("");
  const Coordinator with_tls = Start(certs);
  Pair statically{"static",
                  Job(plain, SyncMode::kStatic),
                  Job(with_tls, SyncMode::kStatic),
                  {},
                  {}};
  Pair negotiated{"negotiated",
                  Job(plain, SyncMode::kNegotiated),
                  Job(with_tls, SyncMode::kNegotiated),
                  {},
                  {}};
  std::vector<Figure> figures;
  for (Pair* pair : {&statically, &negotiated}) {
    const int steps = pair->StepsIn(seconds);
    for (int round = 0; round < rounds; ++round) Measure(*pair, round, steps);
    std::printf("%s: %.0f us a step, with TLS %.0f us; medians of %d rounds\n",
                pair->name, Median(pair->plain_seconds) * 1e6,
                Median(pair->tls_seconds) * 1e6, rounds);
  }
  figures.push_back({.what = "a static step: with TLS / without",
                     .promised = 1.01,
                     .measured = RatioOf(statically),
                     .at_most = true});
  figures.push_back(
      {.what = "  a negotiated step, which the coordinator decides",
       .measured = RatioOf(negotiated)});
  Print(figures);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  if (argc > 3 || rounds < 1 || seconds <= 0) {
    std::fprintf(stderr, "usage: tls_bench [ROUNDS [SECONDS]]\n");
    return 2;
  }
  return lockstep::bench::Run(rounds, seconds);
}
