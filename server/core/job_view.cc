// The part of Job about its view for operators.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {
namespace {

// A rank that waits for many others shows the first few.
constexpr size_t kWaitsShown = 4;
constexpr size_t kWaitersNamed = 3;
constexpr size_t kLagsShown = 8;
constexpr size_t kNamesShown = 3;

BucketView View(const plan::Bucket& bucket, const plan::Plan& plan) {
  BucketView view{.communicator = plan.communicators[bucket.communicator].name,
                  .dtype = bucket.dtype,
                  .op = bucket.op,
                  .bytes = bucket.total *
                           static_cast<int64_t>(SizeOf(plan::WireOf(bucket)))};
  for (const plan::Slot& slot : bucket.slots) {
    view.parameters.push_back(plan.parameters[slot.parameter].name);
  }
  return view;
}

// "has not submitted layers.7.weight and 3 more", or empty.
std::string NotSubmitted(const RankProgress& standing) {
  if (standing.withdrawn) return "has destroyed its GradientSync";
  const bool computes = standing.position.phase == protocol::Phase::kCompute;
  if (computes && !standing.task.empty()) {
    return absl::StrCat("has been at the ", standing.task,
                        " of its pipeline's run");
  }
  if (!computes || standing.missing.empty()) return "";
  return absl::StrCat("has not submitted ",
                      NameList(standing.missing, kNamesShown + 1));
}

}  // namespace

std::string Job::Unsaid(int rank) const {
  if (LagsInPass(rank)) {
    return epoch_->negotiation->Lack(rank, kNamesShown);
  }
  return NotSubmitted(epoch_->progress.of(rank));
}

std::string Job::Behind(int rank) const {
  const std::string unsaid = Unsaid(rank);
  if (!unsaid.empty()) return unsaid;
  return absl::StrCat("is ", Where(epoch_->progress.of(rank).position));
}

bool Job::IsLate(int rank, const Waits& waits, absl::Time now) const {
  const auto& waiting = epoch_->lags.waiting();
  const RankProgress& standing = epoch_->progress.of(rank);
  return waiting && now - waiting->since >= StragglerTracker::kReportAfter &&
         !epoch_->lags.HasArrived(rank) && standing.present &&
         standing.busy_until <= now && !waits.Any(rank) && waits.Needed(rank);
}

std::string Job::BlameSentence(int rank, const Waits& waits,
                               absl::Time now) const {
  const RankProgress& standing = epoch_->progress.of(rank);
  const std::vector<int> waiters = waits.On(rank, epoch_->size());
  const auto& waiting = epoch_->lags.waiting();
  const bool is_late =
      waiting && !waiters.empty() && !epoch_->lags.HasArrived(rank);
  // What the rank has not done, or has been doing, for how long.
  std::string has = epoch_->started ? Unsaid(rank) : Lack();
  if (has.empty()) has = HasBeen(standing.position.phase);
  std::string sentence =
      absl::StrCat(WhoIs(*AtRank(rank)), " ", has, " for ",
                   HowLong(now - (is_late ? waiting->since : standing.moved)));
  if (epoch_->started) {
    sentence = absl::StrFormat("step %d: %s", standing.position.step, sentence);
  }
  if (waiters.empty()) return sentence;
  if (waiters.size() > kWaitersNamed) {
    return absl::StrCat(sentence, "; ", waiters.size(), " ranks wait");
  }
  std::vector<WorkerName> names;
  for (const int waiter : waiters) names.push_back(NameAt(waiter));
  return absl::StrCat(sentence, "; ", NameList(names),
                      names.size() == 1 ? " waits" : " wait");
}

WorkerView Job::View(const Worker& worker, absl::Time now) const {
  WorkerView view{.name = worker.name,
                  .generation = worker.generation,
                  .state = worker.state,
                  .process = worker.process,
                  .silent_for = now - worker.heard};
  // A worker that left cleanly is still part of the epoch.
  const int rank = epoch_ ? epoch_->RankOf(worker.name) : -1;
  if (rank < 0) return view;
  const RankProgress& standing = epoch_->progress.of(rank);
  view.rank = rank;
  view.coordinates = spec().mesh.CoordinatesOf(rank);
  view.position = standing.position;
  view.step_seconds = standing.step_seconds;
  view.exposed_seconds = standing.exposed_seconds;
  view.overlap = standing.overlap;
  view.memory = standing.memory;
  view.lag_seconds = epoch_->lags.Seconds(rank);
  view.revision = standing.revision;
  view.no_progress_for = now - standing.moved;
  view.paused = standing.paused;
  if (standing.busy_until > now) view.busy = standing.busy;
  return view;
}

JobView Job::Describe(absl::Time now) const {
  JobView view{.spec = spec(),
               .name = name(),
               .state = state_,
               .epoch = durable_.epoch,
               .wanted = over() ? protocol::DesiredCommands{} : durable_.wanted,
               .cause = durable_.ended ? durable_.ended->cause : durable_.cause,
               .events = history_.View(now),
               .step = step_,

               .warnings = {warnings_.begin(), warnings_.end()}};
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
  if (!epoch_) {
    if (!over()) {
      view.missing =
          spec().mesh.WorldSize() - static_cast<int>(roster_.arrived().size());
      if (FirstEpochIsDelayed(now)) view.stalls.push_back(WhyDelayed(now));
    }
    return view;
  }

  view.revision = durable_.revision;
  view.plan_digest = durable_.plan_digest;
  if (epoch_->plan != nullptr) {
    view.parameters = epoch_->plan->parameters;
    for (const plan::Bucket& bucket : epoch_->plan->buckets) {
      view.buckets.push_back(core::View(bucket, *epoch_->plan));
    }
  }
  int stalled = 0;
  const Waits waits = WhoWaits();
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    for (const int other : waits.For(rank, kWaitsShown)) {
      view.waits.push_back({.waiter = NameAt(rank),
                            .waited_for = NameAt(other),
                            .why = epoch_->started ? Behind(other) : Lack()});
    }
    const bool is_stuck = epoch_->progress.IsStuck(rank, now) &&
                          !waits.Any(rank) && !AllWaitForPlan();
    if (!is_stuck && !IsLate(rank, waits, now)) continue;
    if (stalled++ < kBlamed) {
      view.stalls.push_back(BlameSentence(rank, waits, now));
    }
  }
  if (stalled > kBlamed) {
    view.stalls.push_back(AndMore(stalled - kBlamed));
  }
  for (const StragglerTracker::Lag& lag : epoch_->lags.Longest(kLagsShown)) {
    view.lags.push_back({NameAt(lag.rank), lag.parameter, lag.seconds});
  }
  return view;
}

JobSummary Job::Summary() const {
  JobSummary summary{.name = name(),
                     .state = state_,
                     .epoch = durable_.epoch,
                     .world_size = spec().mesh.WorldSize(),
                     .step = step_};
  for (const auto& [name, worker] : roster_.workers()) {
    if (worker.state == WorkerState::kReady) ++summary.ready;
  }
  return summary;
}

std::shared_ptr<const plan::Plan> Job::FindPlan(
    const std::string& digest) const {
  return epoch_ && epoch_->digest == digest ? epoch_->plan : nullptr;
}

}  // namespace lockstep::core
