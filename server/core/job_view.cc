// The part of Job about its view for operators, and its measurements.

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/commands.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {

WorkerView Job::View(const Worker& worker, absl::Time now) const {
  WorkerView view{.name = worker.name,
                  .generation = worker.generation,
                  .state = worker.state,
                  .process = worker.process,
                  .silent_for = now - worker.heard};
  // A worker that left cleanly is still part of the epoch.
  const int rank = epoch_ ? epoch_->members().RankOf(worker.name) : -1;
  if (rank >= 0) epoch_->Describe(rank, now, &view);
  if (epoch_ && worker.arrived && worker.state == WorkerState::kJoining) {
    view.state = WorkerState::kWaiting;
  }
  return view;
}

JobView Job::Describe(absl::Time now) const {
  JobView view{.spec = spec(),
               .name = name(),
               .state = state(),
               .epoch = durable_.epoch,
               .wanted = over() ? protocol::DesiredCommands{} : durable_.wanted,
               .cause = durable_.ended ? durable_.ended->cause : durable_.cause,
               .events = log_.Events(now),
               .step = committed(),
               .warnings = log_.Warnings()};
  std::optional<CheckpointName> committed;
  if (durable_.checkpoint) committed = durable_.checkpoint->name;
  view.checkpoint = checkpoints_.View(committed, now);
  for (const auto& [name, worker] : roster_.workers()) {
    view.workers.push_back(View(worker, now));
  }
  if (!view.cause.message.empty()) {
    view.cause.message += AddedProof(view.cause.message);
    if (!over()) {
      const uint64_t ended =
          durable_.epoch.value - (durable_.epoch_lives ? 1 : 0);
      view.cause.message =
          absl::StrFormat("epoch %d ended: %s", ended, view.cause.message);
    }
  }
  std::sort(view.workers.begin(), view.workers.end(),
            [](const WorkerView& a, const WorkerView& b) {
              const auto place = [](const WorkerView& worker) {
                return static_cast<unsigned>(worker.rank);  // -1 is last
              };
              if (place(a) != place(b)) return place(a) < place(b);
              return NaturalLess(a.name.value, b.name.value);
            });
  if (epoch_) {
    epoch_->Describe(now, &view);
  } else if (!over()) {
    const auto arrived = static_cast<int>(roster_.arrived().size());
    view.missing = std::max(0, spec().mesh.WorldSize() - arrived);
    for (StallView& stall : Hung(now)) view.stalls.push_back(std::move(stall));
    if (FirstEpochIsDelayed(now)) view.stalls.push_back({{}, WhyDelayed(now)});
  }
  return view;
}

JobSummary Job::Summary() const {
  JobSummary summary{
      .name = name(),
      .state = state(),
      .epoch = durable_.epoch,
      .world_size = epoch_ ? epoch_->members().size() : spec().mesh.WorldSize(),
      .step = committed()};
  for (const auto& [name, worker] : roster_.workers()) {
    if (worker.state == WorkerState::kReady) ++summary.ready;
  }
  return summary;
}

JobMeasurements Job::Measure(absl::Time now) const {
  JobMeasurements measured{.name = name(),
                           .state = state(),
                           .epoch = durable_.epoch,
                           .steps = committed(),
                           .stepped_at = stepped_at(),
                           .workers_wanted = epoch_ ? epoch_->members().size()
                                                    : spec().mesh.WorldSize(),
                           .stalls = epoch_
                                         ? epoch_->CountStalled(now)
                                         : static_cast<int>(Hung(now).size()),
                           .paused = Wants(durable_.wanted, Command::kPause),
                           .checkpoint_at = checkpoints_.committed_at,
                           .saves_failed = checkpoints_.failures};
  for (const auto& [name, worker] : roster_.workers()) {
    if (worker.session.value != 0) ++measured.workers;
  }
  if (checkpoints_.committed) {
    measured.checkpoint_step = checkpoints_.committed->step;
  } else if (durable_.checkpoint) {
    measured.checkpoint_step = durable_.checkpoint->name.step;
  }
  return measured;
}

std::shared_ptr<const plan::Plan> Job::FindPlan(
    const std::string& digest) const {
  return epoch_ ? epoch_->FindPlan(digest) : nullptr;
}

}  // namespace lockstep::core
