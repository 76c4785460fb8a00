// Kills a worker, or the coordinator, in the middle of the training, starts it
// again, and reports how the training goes on.
//
//   step S        SIGKILL ─▶ worker R, which starts again at once, ten steps
//                            later, or not at all
//   step S        SIGKILL ─▶ coordinator; it starts again with its journal
//   lines of the workers (recovery_report.h) ─▶ how they recovered, and when
//
// Threads: the supervisor's.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_FAULTS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_FAULTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/recovery_report.h"
#include "tools/launch/child.h"
#include "tools/launch/supervisor.h"

namespace lockstep::digits {

class Faults {
 public:
  // `flags` and `supervisor`, which is not used before the first call below,
  // must outlive it.
  Faults(const Flags& flags, launch::Supervisor* const* supervisor)
      : flags_(flags), supervisor_(supervisor) {}

  // How the victims are started again.
  void SetWorker(const launch::ChildCommand& command) { worker_ = command; }
  void SetCoordinator(const launch::ChildCommand& command) {
    coordinator_ = command;
  }

  // So many steps are done.
  void Progress(int64_t steps);
  // A child has ended. Starts a victim again, once.
  void Ended(const std::string& name);
  // True if the line is about an epoch's end or the next one.
  bool Take(const std::string& name, absl::string_view line);

  // Prints what happened. False if the training ended without what was wanted.
  bool Report(int64_t steps) const;

 private:
  struct Victim {
    absl::Time killed_at;
    int64_t step = 0;  // that was done
    bool ended = false;
    absl::Time started_at = absl::InfiniteFuture();  // again
  };

  std::string WorkerVictim() const;
  void Kill(const std::string& name, int64_t steps);
  void StartAgain(const std::string& name, Victim& victim);
  // The time since the kill; after a late start, since that.
  absl::Duration SinceTheChange(const Victim& victim) const;
  bool HasRecovered() const;
  void ReportRecovery(int64_t steps) const;

  const Flags& flags_;
  launch::Supervisor* const* const supervisor_;
  launch::ChildCommand worker_;
  launch::ChildCommand coordinator_;
  std::map<std::string, Victim> victims_;
  // By worker: the newest epochs of so many workers.
  std::map<std::string, ResumedEpoch> resumed_;   // without those that shrank
  std::map<std::string, ResumedEpoch> shrunken_;  // with fewer workers
  absl::Duration known_;   // until the last survivor knew of the death
  absl::Duration shrank_;  // until the last one began an epoch without it
  // Until the last worker began an epoch with all: since the kill or, if the
  // job shrank, since the replacement's start.
  absl::Duration recovered_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_FAULTS_H_
