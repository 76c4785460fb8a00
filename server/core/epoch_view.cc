// The part of Epoch about late and stuck ranks, and about the view for
// operators.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/epoch.h"
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

// --- Late and stuck ranks ---------------------------------------------------

void Epoch::NameLate(EpochContext& context) {
  const absl::Time now = context.now();
  if (!steps_.lags().TakeDue(now)) return;
  const Waits waits = WhoWaits();
  int named = 0;
  int others = 0;
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (!IsLate(rank, waits, now)) continue;
    if (named == kBlamed) {
      ++others;
    } else if (steps_.lags().Name(rank, now)) {
      context.Remember(BlameSentence(rank, waits, now));
      ++named;
    }
  }
  if (others > 0) context.Remember(AndMore(others));
}

std::optional<EpochEnd> Epoch::CallStuck(EpochContext& context) {
  const absl::Time now = context.now();
  const std::vector<int> due = steps_.progress().TakeDue(now);
  const bool any_is_stuck = std::any_of(
      due.begin(), due.end(), [&](int rank) { return IsStuck(rank, now); });
  if (!any_is_stuck || AllWaitForPlan()) return std::nullopt;
  // Also those that were due before, and were not at fault then: the last one
  // to be stuck may show that an earlier one is.
  const std::vector<int> stuck = StuckRanks(now);
  // A rank that a broken link blocks is not at fault.
  if (departures_.has_accusations()) return std::nullopt;

  const Waits waits = WhoWaits();
  std::vector<int> evicted;
  std::vector<std::string> sentences;
  for (const int rank : stuck) {
    if (departures_.IsMissedAt(rank, progress())) {
      return EndByLeaver(rank, context);
    }
    const bool waits_for_others = waits.Any(rank) || checkpoints_.Awaits(rank);
    if (waits_for_others && !BlocksSave(rank, stuck)) continue;
    if (progress().of(rank).called_stuck) continue;
    steps_.progress().CallStuck(rank);
    const std::string sentence = BlameSentence(rank, waits, now);
    context.Remember(sentence);
    evicted.push_back(rank);
    sentences.push_back(absl::StrCat(members_.WhoIs(rank), " was evicted: ",
                                     sentence, ", ", WhereIs(rank, now)));
  }
  if (spec().on_stuck != OnStuck::kEvict || evicted.empty()) {
    return std::nullopt;
  }
  return EpochEnd{{.kind = protocol::CauseKind::kLeaseExpired,
                   .workers = members_.NamesOf(evicted),
                   .message = absl::StrJoin(sentences, "; ")},
                  Again::kIfBudgetAllows,
                  std::move(evicted)};
}

// A member that takes part in steps unheard cannot report its progress.
bool Epoch::IsStuck(int rank, absl::Time now) const {
  return progress().IsStuck(rank, now) && !members_.At(rank).trains_unheard;
}

std::vector<int> Epoch::StuckRanks(absl::Time now) const {
  std::vector<int> stuck;
  for (int rank = 0; rank < members_.size(); ++rank) {
    if (IsStuck(rank, now)) stuck.push_back(rank);
  }
  return stuck;
}

// Stuck or late, and waiting for nobody.
std::vector<int> Epoch::StalledRanks(const Waits& waits, absl::Time now) const {
  const std::vector<int> stuck = StuckRanks(now);
  std::vector<int> stalled;
  for (int rank = 0; rank < members_.size(); ++rank) {
    const bool waits_for_others = waits.Any(rank) || checkpoints_.Awaits(rank);
    const bool is_stuck = IsStuck(rank, now) && !AllWaitForPlan() &&
                          (!waits_for_others || BlocksSave(rank, stuck));
    if (is_stuck || IsLate(rank, waits, now)) stalled.push_back(rank);
  }
  return stalled;
}

int Epoch::CountStalled(absl::Time now) const {
  return static_cast<int>(StalledRanks(WhoWaits(), now).size());
}

// Another rank's verdict may wait for the rank that waits for this one's part.
bool Epoch::BlocksSave(int rank, const std::vector<int>& stuck) const {
  return !checkpoints_.Lack(rank).empty() &&
         std::any_of(stuck.begin(), stuck.end(),
                     [this](int other) { return checkpoints_.Awaits(other); });
}

Waits Epoch::WhoWaits() const {
  if (started_) {
    return Waits::OfSteps(progress(), revisions_.plan().get(), PassesDone());
  }
  std::vector<bool> done(members_.size());
  for (int rank = 0; rank < members_.size(); ++rank) {
    done[rank] = HasDone(rank);
  }
  return Waits::OfStage(progress(), done);
}

bool Epoch::IsLate(int rank, const Waits& waits, absl::Time now) const {
  const auto& waiting = steps_.lags().waiting();
  const RankProgress& standing = progress().of(rank);
  return waiting && now - waiting->since >= StragglerTracker::kReportAfter &&
         !steps_.lags().HasArrived(rank) && standing.present &&
         standing.busy_until <= now && !waits.Any(rank) &&
         !checkpoints_.Awaits(rank) && waits.Needed(rank);
}

std::string Epoch::BlameSentence(int rank, const Waits& waits,
                                 absl::Time now) const {
  const RankProgress& standing = progress().of(rank);
  const std::vector<int> waiters = waits.On(rank, members_.size());
  const auto& waiting = steps_.lags().waiting();
  const bool is_late =
      waiting && !waiters.empty() && !steps_.lags().HasArrived(rank);
  // What the rank has not done, or has been doing, for how long.
  std::string has = started_ ? Unsaid(rank, waits) : Lack();
  if (has.empty()) has = HasBeen(standing.position.phase);
  std::string sentence =
      absl::StrCat(members_.WhoIs(rank), " ", has, " for ",
                   HowLong(now - (is_late ? waiting->since : standing.moved)));
  if (started_) {
    sentence = absl::StrFormat("step %d: %s", standing.position.step, sentence);
  }
  if (waiters.empty()) return sentence;
  if (waiters.size() > kWaitersNamed) {
    return absl::StrCat(sentence, "; ", waiters.size(), " ranks wait");
  }
  return absl::StrCat(sentence, "; ", NameList(members_.NamesOf(waiters)),
                      waiters.size() == 1 ? " waits" : " wait");
}

std::string Epoch::WhereIs(int rank, absl::Time now) const {
  const RankProgress& standing = progress().of(rank);
  if (is_revived_ && !standing.reported) {
    return "at a step that it has not said since the coordinator restarted";
  }
  if (started_) {
    return LastHeard(standing.position, now - standing.told);
  }
  return connecting_ ? "while the data plane was connected"
                     : "while parameters were registered";
}

std::string Epoch::Lack() const {
  return connecting_ ? connecting_->Lack()
                     : "has not registered its parameters";
}

bool Epoch::HasDone(int rank) const {
  return connecting_ ? connecting_->HasDone(rank) : registry_.complete(rank);
}

std::string Epoch::Unsaid(int rank, const Waits& waits) const {
  if (LagsInPass(rank)) return negotiation_->Lack(rank, kNamesShown);
  const std::string missing = waits.CallMissing(rank);
  if (!missing.empty()) return absl::StrCat("has not called ", missing);
  std::string unsaid = NotSubmitted(progress().of(rank));
  if (!unsaid.empty()) return unsaid;
  for (const protocol::GroupProgress& group : progress().of(rank).groups) {
    if (group.waits()) return absl::StrCat("has been in ", group.call);
  }
  if (!checkpoints_.Awaited().empty()) return checkpoints_.Lack(rank);
  return "";
}

std::string Epoch::Behind(int rank, const Waits& waits) const {
  if (!started_) return Lack();
  const std::string unsaid = Unsaid(rank, waits);
  if (!unsaid.empty()) return unsaid;
  return absl::StrCat("is ", Where(progress().of(rank).position));
}

// Every rank has done the passes that are closed.
std::vector<uint64_t> Epoch::PassesDone() const {
  std::vector<uint64_t> passes;
  if (!negotiation_) return passes;
  for (int rank = 0; rank < members_.size(); ++rank) {
    const bool done = negotiation_->Done(rank);
    passes.push_back(negotiation_->open_pass() + (done ? 1 : 0));
  }
  return passes;
}

// The rank is in the open pass, and others wait for its messages there.
bool Epoch::LagsInPass(int rank) const {
  return negotiation_ && !negotiation_->Done(rank) &&
         progress().of(rank).position.step >= negotiation_->open_pass();
}

// --- The view ---------------------------------------------------------------

void Epoch::Describe(int rank, absl::Time now, WorkerView* view) const {
  const RankProgress& standing = progress().of(rank);
  view->rank = rank;
  view->coordinates = mesh_.CoordinatesOf(rank);
  view->position = standing.position;
  view->step_seconds = standing.step_seconds;
  view->exposed_seconds = standing.exposed_seconds;
  view->overlap = standing.overlap;
  view->memory = standing.memory;
  view->lag_seconds = steps_.lags().Seconds(rank);
  view->revision = standing.revision;
  view->no_progress_for = now - standing.moved;
  view->paused = standing.paused;
  if (standing.busy_until > now) view->busy = standing.busy;
}

void Epoch::Describe(absl::Time now, JobView* view) const {
  view->revision = durable_.revision;
  view->plan_digest = durable_.plan_digest;
  if (revisions_.has_plan()) {
    const plan::Plan& plan = *revisions_.plan();
    view->parameters = plan.parameters;
    for (const plan::Bucket& bucket : plan.buckets) {
      view->buckets.push_back(View(bucket, plan));
    }
  }
  const Waits waits = WhoWaits();
  for (int rank = 0; rank < members_.size(); ++rank) {
    for (const int other : waits.For(rank, kWaitsShown)) {
      view->waits.push_back({.waiter = members_.NameAt(rank),
                             .waited_for = members_.NameAt(other),
                             .why = Behind(other, waits)});
    }
  }
  int stalled = 0;
  for (const int rank : StalledRanks(waits, now)) {
    if (stalled++ >= kBlamed) continue;
    view->stalls.push_back(
        {members_.NameAt(rank), BlameSentence(rank, waits, now)});
  }
  if (stalled > kBlamed) {
    view->stalls.push_back({{}, AndMore(stalled - kBlamed)});
  }
  const std::vector<int> awaited = checkpoints_.Awaited();
  for (int rank = 0; rank < members_.size() && !awaited.empty(); ++rank) {
    if (waits.Any(rank) || !checkpoints_.Awaits(rank)) continue;
    view->waits.push_back({.waiter = members_.NameAt(rank),
                           .waited_for = members_.NameAt(awaited[0]),
                           .why = checkpoints_.Lack(awaited[0])});
  }
  checkpoints_.Describe(now, &view->checkpoint);
  for (const StragglerTracker::Lag& lag : steps_.lags().Longest(kLagsShown)) {
    view->lags.push_back(
        {members_.NameAt(lag.rank), lag.parameter, lag.seconds});
  }
}

}  // namespace lockstep::core
