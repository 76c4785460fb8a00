// A simulated worker's steps, and how it recovers after the end of an epoch.

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gradient/ending.h"
#include "client/session/recovery_part.h"
#include "lockstep/samples.h"
#include "tests/sim/trainer.h"
#include "tests/sim/training_world.h"

namespace lockstep::sim {

using gradient::SummaryVectors;
using protocol::Phase;
using session::RecoveryPart;
using session::SessionPhase;

protocol::Position Trainer::position() const {
  if (epoch_ && epoch_->agreement) return epoch_->agreement->position();
  return {.step = view().first_step};
}

// --- Transfers --------------------------------------------------------------

void Trainer::PostTransfer(const plan::Transfer& transfer, Offer offer,
                           DataPlane::Done done) {
  Epoch& epoch = *epoch_;
  const int c = transfer.communicator;
  const std::vector<int>& ranks = epoch.plan->communicators[c].ranks;
  const auto member =
      std::find(ranks.begin(), ranks.end(), view().rank) - ranks.begin();
  offer.process = process();
  offer.step_id.epoch = view().epoch;
  offer.step_id.revision = epoch.plan->revision;
  offer.step_id.step = position().step;
  offer.plan_digest = epoch.digest;
  world_.data_plane().Post(
      epoch.groups[c], static_cast<int>(ranks.size()), static_cast<int>(member),
      epoch.sequence[c]++, std::move(offer), Scheduler(),
      [this, done = std::move(done)](const DataPlane::Offers& offers) {
        --epoch_->pending;
        done(offers);
      });
  ++epoch.pending;
  if (!failed_peers_.empty()) {
    After(world_.Draw(absl::Milliseconds(10)), [this] { ReportPeers(); });
  }
}

// --- Steps ------------------------------------------------------------------

void Trainer::BeginStep() {
  if (view().phase != SessionPhase::kRunning) return;
  Epoch& epoch = *epoch_;
  const plan::Plan& plan = *epoch.plan;
  if (options_.fails_once && program_step() == world_.steps() / 2 &&
      !std::exchange(failed_once_, true)) {
    return FailLocally("loss is NaN");
  }
  epoch.buckets.assign(plan.buckets.size(), {});
  epoch.submitted.clear();
  epoch.next_launch = 0;
  epoch.launches.clear();
  for (const plan::TransferRef& ref : plan.ranks[view().rank].launch_order) {
    const plan::Lane& lane = plan.ranks[view().rank].lanes[ref.lane];
    const bool is_in_step = lane.kind == plan::LaneKind::kGradient ||
                            lane.kind == plan::LaneKind::kVerdict;
    if (is_in_step) epoch.launches.push_back(ref);
  }
  epoch.agreement->Enter(Phase::kCompute);
  ReportPosition();
  const int data = mesh().CoordinatesOf(view().rank)[0];
  Contributions own;
  for (const int64_t sample :
       ShareOfStep(world_.samples(), static_cast<int64_t>(program_step()), data,
                   mesh().axes[0].size)) {
    own.push_back({.sample = sample,
                   .program_step = program_step(),
                   .epoch = view().epoch.value,
                   .job_step = position().step,
                   .scoped = scoped_});
  }
  ++scoped_;
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const std::vector<int>& ranks =
        plan.communicators[plan.buckets[b].communicator].ranks;
    if (std::find(ranks.begin(), ranks.end(), view().rank) == ranks.end())
      continue;
    epoch.buckets[b] = own;
    for (const plan::Slot& slot : plan.buckets[b].slots) {
      After(world_.Draw(absl::Milliseconds(40)),
            [this, parameter = slot.parameter] { Submit(parameter); });
    }
  }
}

void Trainer::Submit(int parameter) {
  if (view().phase != SessionPhase::kRunning) return;
  Epoch& epoch = *epoch_;
  epoch.submitted.insert(parameter);
  size_t all = 0;
  for (size_t b = 0; b < epoch.buckets.size(); ++b) {
    if (!epoch.buckets[b].empty()) all += epoch.plan->buckets[b].slots.size();
  }
  if (epoch.submitted.size() == all) {
    epoch.agreement->Enter(Phase::kTransfer);
    ReportPosition();
    if (view().order_wanted.value != 0) {
      protocol::ReadyOrder order{.revision = view().order_wanted};
      order.parameters.assign(epoch.submitted.begin(), epoch.submitted.end());
      std::rotate(order.parameters.begin(), order.parameters.begin() + 1,
                  order.parameters.end());
      Apply(session::OfferOrder{std::move(order)});
    }
  }
  LaunchNext();
}

// One after the other in the plan's order, each when its gradients are there,
// as the executor's queue on a host does.
void Trainer::LaunchNext() {
  Epoch& epoch = *epoch_;
  if (epoch.in_flight > 0 || epoch.next_launch == epoch.launches.size()) return;
  const plan::TransferRef ref = epoch.launches[epoch.next_launch];
  const plan::Lane& lane = epoch.plan->ranks[view().rank].lanes[ref.lane];
  const plan::Transfer& transfer = lane.transfers[ref.index];
  if (lane.kind == plan::LaneKind::kVerdict) return EnterVerdict(lane);
  const plan::Bucket& bucket = epoch.plan->buckets[transfer.bucket];
  for (const plan::Slot& slot : bucket.slots) {
    if (epoch.submitted.count(slot.parameter) == 0) return;
  }
  ++epoch.next_launch;
  ++epoch.in_flight;
  PostTransfer(transfer,
               {.operation = plan::Describe(transfer),
                .gradients = epoch.buckets[transfer.bucket]},
               [this, b = transfer.bucket](const DataPlane::Offers& offers) {
                 world_.Met(offers);
                 Contributions sum;
                 for (const Offer& offer : offers) {
                   sum.insert(sum.end(), offer.gradients.begin(),
                              offer.gradients.end());
                 }
                 std::sort(sum.begin(), sum.end());
                 epoch_->buckets[b] = std::move(sum);
                 --epoch_->in_flight;
                 LaunchNext();
               });
}

// The verdict lane is one group: both of its reductions are launched at once.
void Trainer::EnterVerdict(const plan::Lane& lane) {
  Epoch& epoch = *epoch_;
  const bool counts =
      mesh().axes.size() == 1 || mesh().CoordinatesOf(view().rank)[1] == 0;
  const int64_t share = static_cast<int64_t>(
      ShareOfStep(world_.samples(), static_cast<int64_t>(program_step()),
                  mesh().CoordinatesOf(view().rank)[0], mesh().axes[0].size)
          .size());
  gradient::StepSummary summary{
      .samples = counts ? static_cast<double>(share) : 0,
      .more_data = program_step() + 1 < world_.steps(),
      .terms = epoch.terms,
      .holds_next_revision = epoch.next != nullptr};
  summary.holds_command[IndexOf(Command::kGrow)] = view().wanted.wants_growth();
  epoch.agreement->Enter(Phase::kVerdict);
  epoch.step_id = {.epoch = view().epoch,
                   .revision = epoch.plan->revision,
                   .step = epoch.agreement->steps()};
  epoch.next_launch = epoch.launches.size();
  ++epoch.in_flight;
  ReportPosition();
  std::string operation;
  for (const plan::Transfer& transfer : lane.transfers) {
    absl::StrAppend(&operation, plan::Describe(transfer), "; ");
  }
  PostTransfer({.communicator = 0},
               {.operation = std::move(operation),
                .summary = gradient::Encode(epoch.step_id, summary)},
               [this](const DataPlane::Offers& offers) {
                 --epoch_->in_flight;
                 Judge(offers);
               });
}

void Trainer::Judge(const DataPlane::Offers& offers) {
  world_.Met(offers);
  Epoch& epoch = *epoch_;
  SummaryVectors reduced = *offers.front().summary;
  for (size_t i = 1; i < offers.size(); ++i) {
    const SummaryVectors& other = *offers[i].summary;
    for (size_t k = 0; k < reduced.sum.size(); ++k)
      reduced.sum[k] += other.sum[k];
    for (size_t k = 0; k < reduced.max.size(); ++k)
      reduced.max[k] = std::max(reduced.max[k], other.max[k]);
  }
  const int world_size = mesh().WorldSize();
  absl::StatusOr<Verdict> verdict =
      gradient::Decode(epoch.step_id, world_size, epoch.terms, reduced);
  if (!verdict.ok()) return FailLocally(verdict.status().ToString());
  verdict->ending = gradient::EndingOf(*verdict, world_.spec().uneven);
  const bool ends = gradient::EndsEpoch(*verdict);
  if (!epoch.agreement->Pass(epoch.step_id.step, reduced, ends)) return;
  ApplyUpdate(*verdict, epoch.agreement->LastVerdict());
  state_->KeepStepScoped(epoch.step_id.step + 1);
  SwitchIfAllHold(*verdict);
  if (verdict->IsLast()) return LeaveJob();
  if (verdict->Grows()) return ReportGrowth();
  ReportPosition();
  After(world_.Draw(absl::Milliseconds(2)), [this] { BeginStep(); });
}

void Trainer::ApplyUpdate(const Verdict& verdict, const std::string& bytes) {
  Epoch& epoch = *epoch_;
  Update update{.program_step = program_step(),
                .job_step = verdict.step,
                .epoch = view().epoch.value,
                .samples = verdict.samples,
                .verdict = bytes};
  const plan::Plan& plan = *epoch.plan;
  update.gradients.resize(plan.parameters.size());
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (epoch.buckets[b].empty()) continue;
    for (const plan::Slot& slot : plan.buckets[b].slots) {
      update.gradients[slot.parameter] = epoch.buckets[b];
    }
  }
  // One parameter of each name is this rank's.
  update.gradients.erase(
      std::remove_if(update.gradients.begin(), update.gradients.end(),
                     [](const Contributions& sum) { return sum.empty(); }),
      update.gradients.end());
  model_.push_back(update);
  next_job_step_ = verdict.step + 1;
  world_.Applied(*this, update);
}

// The epoch ends in order: the coordinator ends it once it hears of it.
void Trainer::ReportGrowth() {
  ++world_.counts().grown;
  stage_ = kQuiesced;
  protocol::EpochReport report = epoch_->agreement->Report();
  report.holds_state = HoldsState(report.position.step);
  report.grows = true;
  reported_ = report.position;
  Apply(session::Quiesced{report});
  ExitWithoutDecision();
}

void Trainer::ReportPosition() {
  if (view().phase != SessionPhase::kRunning) return;
  Apply(session::Moved{
      {.position = position(), .revision = epoch_->plan->revision}});
}

void Trainer::FailLocally(const std::string& why) {
  Apply(session::FailLocally{
      {position().step, "Train", absl::StatusCode::kInternal, why}});
}

void Trainer::LeaveJob() {
  trained_all_ = leaves_ = true;
  ReportPosition();
  Apply(session::LeaveNow{{.clean = true,
                           .steps = epoch_->agreement->steps(),
                           .verdict = epoch_->agreement->LastVerdict()}});
}

// --- Recovery ---------------------------------------------------------------

bool Trainer::HoldsState(uint64_t step) const {
  return session::HoldsStateAt(step, {.holders = view().holders,
                                      .rank = view().rank,
                                      .first_step = view().first_step,
                                      .loaded = state_->loaded()});
}

// As the watch of GradientSync, or Session::Recover without one.
void Trainer::Quiesce() {
  stage_ = kQuiesced;
  protocol::EpochReport report{.position = position()};
  if (epoch_ && epoch_->agreement) {
    report = epoch_->agreement->Report();
    LeavePartialSums();
  }
  report.holds_state = HoldsState(report.position.step);
  reported_ = report.position;
  Apply(session::Quiesced{report});
  ExitWithoutDecision();
}

void Trainer::ExitWithoutDecision() {
  After(world_.spec().timeouts.join, [this] {
    if (stage_ == kQuiesced && !leaves_) Exit(false, "no decision");
  });
}

// Reductions work in place: one that is aborted leaves what had arrived.
void Trainer::LeavePartialSums() {
  Epoch& epoch = *epoch_;
  if (epoch.in_flight == 0 || epoch.next_launch == 0) return;
  const plan::TransferRef ref = epoch.launches[epoch.next_launch - 1];
  const plan::Transfer& transfer =
      epoch.plan->ranks[view().rank].lanes[ref.lane].transfers[ref.index];
  if (transfer.bucket < 0) return;
  const int c = transfer.communicator;
  Contributions& sum = epoch.buckets[transfer.bucket];
  for (const Offer* offer :
       world_.data_plane().Posted(epoch.groups[c], epoch.sequence[c] - 1)) {
    if (offer->process == process() || world_.Toss(0.5)) continue;
    sum.insert(sum.end(), offer->gradients.begin(), offer->gradients.end());
  }
}

// Session::Recover once the decision is there, and what the program does then.
void Trainer::Recover() {
  if (view().job_over) return Exit(false, view().status.ToString());
  held_.reset();
  const size_t updates = model_.size();
  if (view().recovery) {
    const protocol::RecoveryDecision& decision = *view().recovery;
    const RecoveryPart part =
        session::PartOf(decision, view().rank, reported_.step);
    if (part == RecoveryPart::kStartAgain) {
      return Exit(false, "it has passed a step of a job that begins anew");
    }
    if (part == RecoveryPart::kReplay) {
      ++world_.counts().replays;
    } else if (part == RecoveryPart::kRollForward) {
      ++world_.counts().roll_forwards;
      if (!RollForward(decision)) return;
    }
    if (part != RecoveryPart::kNewcomer) {
      held_ = protocol::HeldState{view().epoch, decision.steps};
    }
    if (leaves_) return;
  }
  if (model_.size() == updates) {
    state_->RestoreStepScoped(view().recovery ? view().recovery->steps : 0);
  }
  recovers_ = true;
  Apply(session::LeaveNow{
      {.clean = false, .steps = position().step, .returns = true}});
}

bool Trainer::RollForward(const protocol::RecoveryDecision& decision) {
  const auto cannot = [&](absl::string_view why) {
    world_.Violated(absl::StrCat(name(), " cannot roll forward: ", why));
    return false;
  };
  if (!epoch_ || epoch_->agreement == nullptr) return cannot("no step");
  const absl::StatusOr<Verdict> verdict = epoch_->agreement->RollForward(
      decision.verdict,
      {.epoch = view().epoch,
       .revision = epoch_->plan->revision,
       .step = epoch_->agreement->steps()},
      mesh().WorldSize(), epoch_->terms, world_.spec().uneven);
  if (!verdict.ok()) return cannot(verdict.status().ToString());
  ApplyUpdate(*verdict, decision.verdict);
  if (verdict->IsLast()) LeaveJob();
  return true;
}

}  // namespace lockstep::sim
