#include "examples/digits/demo/faults.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "examples/digits/demo/job_files.h"

namespace lockstep::digits {
namespace {

constexpr char kCoordinator[] = "lockstepd";
// Steps of the others before a late replacement starts.
constexpr int64_t kStepsWithout = 10;

double Milliseconds(absl::Duration duration) {
  return absl::ToDoubleMilliseconds(duration);
}

}  // namespace

std::string Faults::WorkerVictim() const {
  return flags_.kill_worker < 0 ? "" : WorkerName(flags_.kill_worker);
}

void Faults::Progress(int64_t steps) {
  if (steps < flags_.at_step) return;
  if (flags_.kill_coordinator && victims_.count(kCoordinator) == 0) {
    Kill(kCoordinator, steps);
  }
  const std::string worker = WorkerVictim();
  if (worker.empty()) return;
  const auto victim = victims_.find(worker);
  if (victim == victims_.end()) return Kill(worker, steps);
  const bool is_due = flags_.late_replacement && victim->second.ended &&
                      !shrunken_.empty() &&
                      steps >= victim->second.step + kStepsWithout;
  if (is_due && victim->second.started_at == absl::InfiniteFuture()) {
    absl::PrintF("after step %d: %s starts again\n", steps, worker);
    StartAgain(worker, victim->second);
  }
}

void Faults::Kill(const std::string& name, int64_t steps) {
  victims_[name] = {.killed_at = absl::Now(), .step = steps};
  absl::PrintF("after step %d: %s is killed (SIGKILL)\n", steps,
               name == kCoordinator ? "the coordinator" : name);
  (*supervisor_)->Signal(name, SIGKILL);
}

void Faults::Ended(const std::string& name) {
  const auto found = victims_.find(name);
  if (found == victims_.end() || found->second.ended) return;
  found->second.ended = true;
  const bool waits = flags_.shrinks() && name != kCoordinator;
  if (waits) return (*supervisor_)->Forgive(name);
  StartAgain(name, found->second);
}

void Faults::StartAgain(const std::string& name, Victim& victim) {
  victim.started_at = absl::Now();
  (*supervisor_)
      ->StartAgain(name, name == kCoordinator ? coordinator_ : worker_,
                   absl::ZeroDuration());
}

absl::Duration Faults::SinceTheChange(const Victim& victim) const {
  const bool grows =
      flags_.late_replacement && victim.started_at != absl::InfiniteFuture();
  return absl::Now() - (grows ? victim.started_at : victim.killed_at);
}

bool Faults::Take(const std::string& name, absl::string_view line) {
  const auto victim = victims_.find(WorkerVictim());
  const absl::Duration since = victim == victims_.end()
                                   ? absl::ZeroDuration()
                                   : SinceTheChange(victim->second);
  if (const std::optional<EndedEpoch> ended = EndedFromMachineLine(line)) {
    if (shrunken_.empty()) known_ = std::max(known_, since);
    absl::PrintF("%s after step %d, %.0f ms later: %s\n", name, ended->steps,
                 Milliseconds(since), ended->why);
    return true;
  }
  const std::optional<ResumedEpoch> resumed = ResumedFromMachineLine(line);
  if (!resumed) return false;
  const bool is_smaller = resumed->workers < flags_.workers;
  absl::Duration& last = is_smaller ? shrank_ : recovered_;
  last = std::max(last, since);
  (is_smaller ? shrunken_ : resumed_)[name] = *resumed;
  absl::PrintF(
      "%s: %s at step %d in epoch %d of %d workers, as generation %d; state: "
      "%s; %.0f ms after the %s\n",
      name, resumed->how, resumed->steps, resumed->epoch, resumed->workers,
      resumed->generation, resumed->origin, Milliseconds(since),
      flags_.late_replacement && !is_smaller ? "start" : "kill");
  return true;
}

bool Faults::HasRecovered() const {
  const std::string worker = WorkerVictim();
  const auto victim = victims_.find(worker);
  if (victim == victims_.end() || !victim->second.ended) return false;
  const int all = flags_.workers;
  const int survivors = all - 1;
  if (flags_.shrinks() && static_cast<int>(shrunken_.size()) != survivors) {
    return false;
  }
  return static_cast<int>(resumed_.size()) == (flags_.no_replacement ? 0 : all);
}

void Faults::ReportRecovery(int64_t steps) const {
  if (flags_.shrinks()) {
    absl::PrintF(
        "shrank: all survivors knew after %.0f ms, %d workers were in step "
        "without %s after %.0f ms; %d steps followed\n",
        Milliseconds(known_), flags_.workers - 1, WorkerVictim(),
        Milliseconds(shrank_), steps - shrunken_.begin()->second.steps);
  }
  if (flags_.no_replacement) return;
  if (flags_.late_replacement) {
    absl::PrintF(
        "grew: all %d workers were in step %.0f ms after the start of %s; %d "
        "steps followed\n",
        flags_.workers, Milliseconds(recovered_), WorkerVictim(),
        steps - resumed_.at(WorkerVictim()).steps);
    return;
  }
  absl::PrintF(
      "recovered: all survivors knew after %.0f ms, all %d workers were "
      "in step after %.0f ms; %d steps followed\n",
      Milliseconds(known_), flags_.workers, Milliseconds(recovered_),
      steps - resumed_.at(WorkerVictim()).steps);
}

bool Faults::Report(int64_t steps) const {
  bool good = true;
  if (flags_.kill_coordinator) {
    const auto coordinator = victims_.find(kCoordinator);
    good = coordinator != victims_.end() && coordinator->second.ended;
  }
  if (!WorkerVictim().empty()) good = good && HasRecovered();
  if (!good) {
    absl::FPrintF(stderr,
                  "demo: the training ended before all was killed and had "
                  "recovered\n");
    return false;
  }
  if (!WorkerVictim().empty()) ReportRecovery(steps);
  if (flags_.kill_coordinator) {
    absl::PrintF(
        "the coordinator was killed after step %d, and started again with its "
        "journal\n",
        victims_.at(kCoordinator).step);
  }
  return true;
}

}  // namespace lockstep::digits
