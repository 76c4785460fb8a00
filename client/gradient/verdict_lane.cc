#include "client/gradient/verdict_lane.h"

#include <utility>

namespace lockstep::gradient {

absl::StatusOr<std::unique_ptr<VerdictLane>> VerdictLane::Create(
    Options options,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  transport::Compute& compute = options.executor->compute();
  const int leaves = options.leaves;
  std::unique_ptr<VerdictLane> lane(new VerdictLane(std::move(options)));
  absl::StatusOr<ArenaBuffer> buffer = allocate(sizeof(StepMemory));
  if (!buffer.ok()) return buffer.status();
  lane->memory_ = *std::move(buffer);
  buffer = compute.AllocateStaging(sizeof(StepMemory));
  if (!buffer.ok()) return buffer.status();
  lane->staging_ = *std::move(buffer);
  if (leaves > 0) {
    auto norms = LeafNorms::Create(leaves, compute, allocate);
    if (!norms.ok()) return norms.status();
    lane->leaf_norms_ = *std::move(norms);
  }
  return lane;
}

executor::Operands VerdictLane::OperandsOf(plan::TransferRef ref,
                                           const plan::Transfer&) {
  BallotVectors& ballot = moved().ballot;
  switch (ref.index) {
    case 0: return {ballot.sum.data(), ballot.sum.data()};
    case 1: return {ballot.max.data(), ballot.max.data()};
    default: return {leaf_norms_->sums(), leaf_norms_->sums()};
  }
}

absl::Status VerdictLane::Apply(Site& site, const plan::Transfer& transfer,
                                executor::Side side, bool) {
  const bool is_before = side == executor::Side::kBefore;
  for (const plan::LocalOp& op : is_before ? transfer.before : transfer.then) {
    Captured* const step = capturing_;
    absl::Status applied;
    if (op.kind == plan::LocalKind::kWriteSummary) {
      applied =
          step != nullptr ? CaptureWrite(site, *step) : WriteSummary(site);
    } else if (op.kind == plan::LocalKind::kReadSummary) {
      applied = step != nullptr ? CaptureRead(site, *step) : ReadSummary(site);
    }
    if (!applied.ok()) return applied;
  }
  return absl::OkStatus();
}

void VerdictLane::Failed(const plan::Transfer&, int communicator,
                         const absl::Status& error) {
  if (Captured* const step = capturing_; step != nullptr) {
    return step->verdict_captured.set_value(error);
  }
  // Without a verdict the step was given up.
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (verdict == nullptr) return;
  options_.on_failure(communicator, error);
  options_.judge(verdict, error);
}

// --- This rank's part -------------------------------------------------------

absl::Status VerdictLane::WriteSummary(Site& site) {
  verdict_ = options_.take();
  if (verdict_ == nullptr) {
    return absl::CancelledError("the step was given up");
  }
  absl::StatusOr<Ballot> ballot = TakeBallot(site);
  if (!ballot.ok()) return ballot.status();
  verdict_->stamp = options_.enter(&*ballot);
  fetched().ballot = Encode(verdict_->stamp, *ballot);
  site.Copy(&fetched().ballot, &moved().ballot, sizeof(BallotVectors));
  return site.status();
}

void VerdictLane::FetchNorm(Site& site) {
  site.Copy(&moved().norm, &fetched().norm, sizeof(kernels::FiniteCheck));
  site.Zero(&moved().norm, sizeof(kernels::FiniteCheck));
  if (leaf_norms_) leaf_norms_->Fetch(site);
}

absl::StatusOr<Ballot> VerdictLane::TakeBallot(Site& site) {
  FetchNorm(site);
  absl::Status got = site.status();
  if (got.ok()) got = site.Done().Wait();
  if (got.ok()) got = CheckCommunicators();
  if (!got.ok()) return got;
  Ballot ballot = FetchedBallot(*verdict_);
  if (leaf_norms_) {
    ballot.nonfinite += static_cast<int64_t>(leaf_norms_->Give(site));
  }
  return ballot;
}

Ballot VerdictLane::FetchedBallot(const PendingVerdict::State& verdict) {
  const kernels::FiniteCheck& norm = fetched().norm;
  return Ballot{.norm_squared = norm.sum_of_squares,
                .nonfinite = static_cast<int64_t>(norm.non_finite),
                .samples = verdict.options.samples,
                .more_data = verdict.options.more_data,
                .terms = verdict.terms()};
}

absl::Status VerdictLane::CheckCommunicators() {
  for (int c = 0; c < options_.executor->communicators(); ++c) {
    Communicator* const communicator = options_.executor->communicator(c);
    if (communicator == nullptr) continue;
    absl::Status status = communicator->status();
    if (status.ok()) continue;
    options_.on_failure(c, status);
    return status;
  }
  return absl::OkStatus();
}

// --- What all ranks said ----------------------------------------------------

absl::Status VerdictLane::ReadSummary(Site& site) {
  const absl::StatusOr<BallotVectors> reduced = FetchBallot(site);
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (!reduced.ok()) {
    options_.judge(verdict, reduced.status());
    return absl::OkStatus();
  }
  verdict->vectors = *reduced;
  options_.judge(verdict, Decode(verdict->stamp, world().size(),
                                 verdict->terms(), *reduced));
  return absl::OkStatus();
}

// A transfer that failed has aborted the world, so its status covers all.
absl::StatusOr<BallotVectors> VerdictLane::FetchBallot(Site& site) {
  site.Copy(&moved().ballot, &fetched().ballot, sizeof(BallotVectors));
  if (leaf_norms_) leaf_norms_->FetchSums(site);
  absl::Status got = site.status();
  if (got.ok()) got = site.Done().Wait();
  if (got.ok()) got = world().status();
  if (!got.ok()) return got;
  if (leaf_norms_) SetNormSquared(leaf_norms_->Sum(), &fetched().ballot);
  return fetched().ballot;
}

// --- A captured step --------------------------------------------------------

absl::Status VerdictLane::CaptureWrite(Site& site, Captured& step) {
  FetchNorm(site);
  site.Call(&step.enter);
  site.Copy(&fetched().ballot, &moved().ballot, sizeof(BallotVectors));
  return site.status();
}

absl::Status VerdictLane::CaptureRead(Site& site, Captured& step) {
  site.Copy(&moved().ballot, &fetched().ballot, sizeof(BallotVectors));
  site.Call(&step.judge);
  site.Copy(step.staged.data(), step.scalars.data(), sizeof(VerdictScalars));
  if (!site.status().ok()) return site.status();
  step.verdict_captured.set_value(site.Done());
  return absl::OkStatus();
}

// On a thread of the device's runtime: it asks, and tells nobody.
absl::StatusOr<Ballot> VerdictLane::ReadBallot(
    const PendingVerdict::State& verdict) {
  for (int c = 0; c < options_.executor->communicators(); ++c) {
    const Communicator* const communicator = options_.executor->communicator(c);
    if (communicator == nullptr) continue;
    if (absl::Status s = communicator->status(); !s.ok()) return s;
  }
  return FetchedBallot(verdict);
}

absl::StatusOr<Verdict> VerdictLane::ReadVerdict(
    PendingVerdict::State& verdict) {
  if (absl::Status failed = world().status(); !failed.ok()) return failed;
  verdict.vectors = fetched().ballot;
  return Decode(verdict.stamp, world().size(), verdict.terms(),
                verdict.vectors);
}

}  // namespace lockstep::gradient
