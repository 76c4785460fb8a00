// A worker that says when it knows that its epoch has ended: for measurements
// of detection (kill_latency_test.py).
//
//   watched_worker [HOLD_MS [MIB]]
//
// Goes on from epoch to epoch until it is killed. The number of the epoch, mod
// 3, says what it does in it:
//
//   0   waits HOLD_MS (300) between Join and Seal
//   1   computes HOLD_MS in each step: nobody waits in a transport
//   2   computes nothing: steps follow each other
//
// Its model has MIB MiB (1). If LOCKSTEP_TEST_FORK is set, it forks a child at
// its first step, which sleeps with all of its files.
//
// Prints, with the time of CLOCK_MONOTONIC in nanoseconds,
//
//   "joined EPOCH TIME"   Session::Join has returned
//   "step EPOCH TIME"     the epoch's first step is applied
//   "known EPOCH TIME"    the session knows that the epoch has ended
//
// and ends with "error ...", code 1, if training does not go on.

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/session/session_impl.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace {

using lockstep::GradientSync;
using lockstep::Recovery;
using lockstep::Session;

void Say(const char* what, uint64_t epoch) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("%s %d %lld\n", what, static_cast<int>(epoch),
              now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  std::fflush(stdout);
}

// Says when the session is over, and wakes the trainer.
class EndWatch {
 public:
  explicit EndWatch(Session& session)
      : session_(session.impl()),
        number_(session_.AddWatch([this](const absl::Status&) {
          Say("known", session_.epoch().value);
          lockstep::MutexLock lock(&mutex_);
          ended_ = true;
          changed_.NotifyAll();
        })) {}
  ~EndWatch() { session_.RemoveWatch(number_); }
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  void Pause(absl::Duration duration) {
    const absl::Time until = absl::Now() + duration;
    lockstep::MutexLock lock(&mutex_);
    while (!ended_ && absl::Now() < until) {
      changed_.WaitFor(&mutex_, until - absl::Now());
    }
  }

 private:
  Session::Impl& session_;
  lockstep::Mutex mutex_;
  lockstep::CondVar changed_;
  bool ended_ = false;
  const uint64_t number_;  // last: the watch may be called at once
};

void ForkOnce() {
  static bool forked = std::getenv("LOCKSTEP_TEST_FORK") == nullptr;
  if (std::exchange(forked, true)) return;
  if (fork() == 0) {
    alarm(60);  // the test kills it before
    pause();
    _exit(0);
  }
}

// `sync` lives until Recover has applied what it must.
absl::Status TrainEpoch(Session& session, EndWatch& watch, absl::Duration hold,
                        size_t count, std::unique_ptr<GradientSync>& sync) {
  const uint64_t mode = session.epoch() % 3;
  if (mode == 0) watch.Pause(hold);
  auto created = GradientSync::Create(session);
  if (!created.ok()) return created.status();
  sync = *std::move(created);
  auto id =
      sync->Register({.name = "w", .shape = {static_cast<int64_t>(count)}});
  if (!id.ok()) return id.status();
  if (absl::Status sealed = sync->Seal(); !sealed.ok()) return sealed;
  for (bool first = true;; first = false) {
    if (mode == 1 && !first) watch.Pause(hold);
    const auto gradient = *sync->Gradient<float>(*id);
    std::fill(gradient.begin(), gradient.end(), 1.0f);
    if (absl::Status s = sync->Submit(*id); !s.ok()) return s;
    auto verdict = sync->Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    if (first) Say("step", session.epoch());
    ForkOnce();
  }
}

absl::Status Train(absl::Duration hold, size_t count) {
  std::optional<Recovery> recovered;
  for (;;) {
    auto session = Session::Join({.recovered = recovered});
    if (!session.ok()) return session.status();
    EndWatch watch(**session);
    Say("joined", (*session)->epoch());
    std::unique_ptr<GradientSync> sync;
    TrainEpoch(**session, watch, hold, count, sync).IgnoreError();
    auto recovery = (*session)->Recover();
    if (!recovery.ok()) return recovery.status();
    recovered = *recovery;
  }
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the test may be killed
  const auto hold = absl::Milliseconds(argc > 1 ? std::atoi(argv[1]) : 300);
  const size_t mib = argc > 2 ? std::atoi(argv[2]) : 1;
  const absl::Status status = Train(hold, mib * (1 << 20) / sizeof(float));
  std::printf("error %s\n", status.ToString().c_str());
  return 1;
}
