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
  if (!worker.empty() && victims_.count(worker) == 0) Kill(worker, steps);
}

void Faults::Kill(const std::string& name, int64_t steps) {
  victims_[name] = {.killed_at = absl::Now(), .step = steps};
  absl::PrintF("after step %d: %s is killed (SIGKILL)\n", steps,
               name == kCoordinator ? "the coordinator" : name);
  (*supervisor_)->Signal(name, SIGKILL);
}

void Faults::Ended(const std::string& name) {
  const auto victim = victims_.find(name);
  if (victim == victims_.end() || victim->second.started_again) return;
  victim->second.started_again = true;
  (*supervisor_)
      ->StartAgain(name, name == kCoordinator ? coordinator_ : worker_,
                   absl::ZeroDuration());
}

bool Faults::Take(const std::string& name, absl::string_view line) {
  const auto victim = victims_.find(WorkerVictim());
  const absl::Duration since = victim == victims_.end()
                                   ? absl::ZeroDuration()
                                   : absl::Now() - victim->second.killed_at;
  if (const std::optional<EndedEpoch> ended = EndedFromMachineLine(line)) {
    known_ = std::max(known_, since);
    absl::PrintF("%s after step %d, %.0f ms later: %s\n", name, ended->steps,
                 Milliseconds(since), ended->why);
    return true;
  }
  const std::optional<ResumedEpoch> resumed = ResumedFromMachineLine(line);
  if (!resumed) return false;
  recovered_ = std::max(recovered_, since);
  resumed_[name] = *resumed;
  absl::PrintF(
      "%s: %s at step %d in epoch %d, as generation %d; state: %s; %.0f ms "
      "after the kill\n",
      name, resumed->how, resumed->steps, resumed->epoch, resumed->generation,
      resumed->origin, Milliseconds(since));
  return true;
}

bool Faults::Report(int64_t steps) const {
  bool good = true;
  for (const auto& [name, victim] : victims_) good &= victim.started_again;
  const std::string worker = WorkerVictim();
  if (flags_.kill_coordinator && victims_.count(kCoordinator) == 0)
    good = false;
  if (!worker.empty()) {
    good = good && victims_.count(worker) > 0 &&
           static_cast<int>(resumed_.size()) == flags_.workers;
    if (good) {
      absl::PrintF(
          "recovered: all survivors knew after %.0f ms, all %d workers were "
          "in step after %.0f ms; %d steps followed\n",
          Milliseconds(known_), flags_.workers, Milliseconds(recovered_),
          steps - resumed_.at(worker).steps);
    }
  }
  if (good && flags_.kill_coordinator) {
    absl::PrintF(
        "the coordinator was killed after step %d, and started again with its "
        "journal\n",
        victims_.at(kCoordinator).step);
  }
  if (!good) {
    absl::FPrintF(stderr,
                  "demo: the training ended before all was killed and had "
                  "recovered\n");
  }
  return good;
}

}  // namespace lockstep::digits
