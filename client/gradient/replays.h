// Launches that the program makes of graphs that it captured itself, as the
// host learns of them (kernels/step_replays.h).
//
//   program        launch ... launch ... launch             no call of this
//   library device         [step k][step k + 1][void]...            decides
//                     │ journal
//   ls-replay         └▶ decided(k) ─▶ verdicts ──Next──▶ program
//                  ◀── Post: commands, what was acted on    (ReplayBoard)
//
// No event tells the host of a launch, so a thread asks the journal, every
// millisecond while nothing happens. It must keep up: if the journal is full,
// launches are void on all ranks.
//
// A launch may wait for peers that launch no more, once the epoch has ended:
// ranks see the end at different launches. `is_stuck` is called for it.
//
// Threads: any; the callbacks run on the thread of this object.

#ifndef LOCKSTEP_CLIENT_GRADIENT_REPLAYS_H_
#define LOCKSTEP_CLIENT_GRADIENT_REPLAYS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/gradient/pending.h"
#include "client/gradient/step_gate.h"
#include "lockstep/replayed_steps.h"

namespace lockstep::gradient {

class Replays {
 public:
  struct Options {
    StepGate* gate = nullptr;
    uint64_t first_entry = 0;
    // The step of a new entry; null: it is behind the last one, and was ended.
    std::function<std::shared_ptr<PendingVerdict::State>(uint64_t entry)> begin;
    // Acts on what the device has decided of it, and completes it.
    std::function<void(const std::shared_ptr<PendingVerdict::State>&)> decided;
    // What this rank holds, and the requests for a save that it has received.
    std::function<StepSummary(uint64_t* saves)> held;
    // Why no step can be launched, once that is so.
    std::function<absl::Status()> ended;
    // The epoch has ended in order, and a replay does not come to an end.
    std::function<void()> is_stuck;
    // Asked now and then while a replay runs: whether the device has failed.
    std::function<void()> probe;
  };

  explicit Replays(Options options);
  ~Replays() { Stop(); }

  // The commands that this rank holds may have changed.
  void Post();
  // The epoch may have ended.
  void Wake();

  // As ReplayedSteps::Next, with unexplained errors.
  absl::StatusOr<ReplayedVerdict> Next(absl::Duration timeout);
  // An eager step follows: the program has acted on all verdicts that Next has
  // returned. FailedPrecondition if another one holds a save.
  absl::Status BeginEager();
  // How many replays are decided, and Next returns those that have passed: none
  // from the first one on whose verdict a pause holds back.
  uint64_t decided();

  // Returns once no replay is running, and all that were decided are known:
  // true; false after `timeout`. A replay that has not begun is not waited for.
  bool AwaitIdle(absl::Duration timeout);
  // The same, but for replays that contribute no record once a stop word is
  // set.
  bool AwaitDecided(absl::Duration timeout);

  // Ends the thread; nothing is called afterwards.
  void Stop();

 private:
  struct DecidedReplay {
    uint64_t replay = 0;
    std::shared_ptr<PendingVerdict::State> verdict;
  };
  // The verdicts that a program which does not ask leaves here.
  static constexpr size_t kVerdictsMax = 1024;

  // The first verdict that Next has not returned; its errors.
  absl::StatusOr<DecidedReplay> AwaitFront(const Deadline& deadline,
                                           absl::Duration timeout);
  void Run();
  // Acts on new entries; whether there was one.
  bool ReadEntries();
  // The next entry is of this replay.
  void Decide(uint64_t replay);
  void WatchRunning(const kernels::ReplayCounts& counts);
  bool Await(absl::Duration timeout,
             const std::function<bool(const kernels::ReplayCounts&)>& over);

  const Options options_;
  uint64_t next_;  // the entry that is read next; of the thread
  std::optional<Deadline> probe_at_;
  std::optional<Deadline> stuck_at_;

  std::atomic<bool> end_is_awaited_{false};

  Mutex post_mutex_;  // one Post at a time
  Mutex mutex_;
  CondVar changed_;
  CondVar woken_;
  std::deque<DecidedReplay> verdicts_ ABSL_GUARDED_BY(mutex_);
  uint64_t rounds_ ABSL_GUARDED_BY(mutex_) = 0;    // of the thread
  uint64_t decided_ ABSL_GUARDED_BY(mutex_) = 0;   // replays, as read
  uint64_t acted_ ABSL_GUARDED_BY(mutex_) = 0;     // entries
  uint64_t returned_ ABSL_GUARDED_BY(mutex_) = 0;  // acted on at the next Next
  uint64_t missed_ ABSL_GUARDED_BY(mutex_) = 0;    // verdicts that made room
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_REPLAYS_H_
