#include "client/gradient/verdict_lane.h"

#include <utility>

namespace lockstep::gradient {

absl::StatusOr<std::unique_ptr<VerdictLane>> VerdictLane::Create(
    Options options,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  transport::DeviceContext& compute = options.executor->compute();
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
  SummaryVectors& summary = moved().summary;
  switch (ref.index) {
    case 0: return {summary.sum.data(), summary.sum.data()};
    case 1: return {summary.max.data(), summary.max.data()};
    default: return {leaf_norms_->sums(), leaf_norms_->sums()};
  }
}

absl::Status VerdictLane::Apply(KernelQueue& kernel_queue,
                                const plan::Transfer& transfer,
                                executor::Side side, bool) {
  const bool is_before = side == executor::Side::kBefore;
  for (const plan::LocalOp& op : is_before ? transfer.before : transfer.then) {
    Captured* const step = capturing_;
    absl::Status applied;
    if (op.kind == plan::LocalKind::kWriteSummary) {
      applied = step != nullptr ? CaptureWrite(kernel_queue, *step)
                                : WriteSummary(kernel_queue);
    } else if (op.kind == plan::LocalKind::kReadSummary) {
      applied = step != nullptr ? CaptureRead(kernel_queue, *step)
                                : ReadSummary(kernel_queue);
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
  // No pending verdict: the step was given up.
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (verdict == nullptr) return;
  options_.on_failure(communicator, error);
  options_.judge(verdict, error);
}

// --- This rank's summary ----------------------------------------------------

absl::Status VerdictLane::WriteSummary(KernelQueue& kernel_queue) {
  verdict_ = options_.take();
  if (verdict_ == nullptr) {
    return absl::CancelledError("the step was given up");
  }
  absl::StatusOr<StepSummary> summary = TakeSummary(kernel_queue);
  if (!summary.ok()) return summary.status();
  verdict_->step_id = options_.enter(&*summary);
  fetched().summary = Encode(verdict_->step_id, *summary);
  kernel_queue.Copy(&fetched().summary, &moved().summary,
                    sizeof(SummaryVectors));
  return kernel_queue.status();
}

void VerdictLane::FetchNorm(KernelQueue& kernel_queue) {
  kernel_queue.Copy(&moved().norm, &fetched().norm,
                    sizeof(kernels::FiniteCheck));
  kernel_queue.Zero(&moved().norm, sizeof(kernels::FiniteCheck));
  if (leaf_norms_) leaf_norms_->Fetch(kernel_queue);
}

absl::StatusOr<StepSummary> VerdictLane::TakeSummary(
    KernelQueue& kernel_queue) {
  FetchNorm(kernel_queue);
  absl::Status got = kernel_queue.status();
  if (got.ok()) got = kernel_queue.Done().Wait();
  if (got.ok()) got = CheckCommunicators();
  if (!got.ok()) return got;
  StepSummary summary = FetchedSummary(*verdict_);
  if (leaf_norms_) {
    summary.nonfinite += static_cast<int64_t>(leaf_norms_->Give(kernel_queue));
  }
  return summary;
}

StepSummary VerdictLane::FetchedSummary(const PendingVerdict::State& verdict) {
  const kernels::FiniteCheck& norm = fetched().norm;
  return StepSummary{.norm_squared = norm.sum_of_squares,
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

// --- The reduced summary ----------------------------------------------------

absl::Status VerdictLane::ReadSummary(KernelQueue& kernel_queue) {
  const absl::StatusOr<SummaryVectors> reduced = FetchSummary(kernel_queue);
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (!reduced.ok()) {
    options_.judge(verdict, reduced.status());
    return absl::OkStatus();
  }
  verdict->vectors = *reduced;
  options_.judge(verdict, Decode(verdict->step_id, world().size(),
                                 verdict->terms(), *reduced));
  return absl::OkStatus();
}

// A failed transfer has aborted the world communicator, so its status is
// enough.
absl::StatusOr<SummaryVectors> VerdictLane::FetchSummary(
    KernelQueue& kernel_queue) {
  kernel_queue.Copy(&moved().summary, &fetched().summary,
                    sizeof(SummaryVectors));
  if (leaf_norms_) leaf_norms_->FetchSums(kernel_queue);
  absl::Status got = kernel_queue.status();
  if (got.ok()) got = kernel_queue.Done().Wait();
  if (got.ok()) got = world().status();
  if (!got.ok()) return got;
  if (leaf_norms_) SetNormSquared(leaf_norms_->Sum(), &fetched().summary);
  return fetched().summary;
}

// --- A captured step --------------------------------------------------------

absl::Status VerdictLane::CaptureWrite(KernelQueue& kernel_queue,
                                       Captured& step) {
  FetchNorm(kernel_queue);
  kernel_queue.Call(&step.enter);
  kernel_queue.Copy(&fetched().summary, &moved().summary,
                    sizeof(SummaryVectors));
  return kernel_queue.status();
}

absl::Status VerdictLane::CaptureRead(KernelQueue& kernel_queue,
                                      Captured& step) {
  kernel_queue.Copy(&moved().summary, &fetched().summary,
                    sizeof(SummaryVectors));
  kernel_queue.Call(&step.judge);
  kernel_queue.Copy(step.staged.data(), step.scalars.data(),
                    sizeof(VerdictScalars));
  if (!kernel_queue.status().ok()) return kernel_queue.status();
  step.verdict_captured.set_value(kernel_queue.Done());
  return absl::OkStatus();
}

// Runs on a thread of the CUDA runtime, so it reports no failure.
absl::StatusOr<StepSummary> VerdictLane::ReadSummary(
    const PendingVerdict::State& verdict) {
  for (int c = 0; c < options_.executor->communicators(); ++c) {
    const Communicator* const communicator = options_.executor->communicator(c);
    if (communicator == nullptr) continue;
    if (absl::Status s = communicator->status(); !s.ok()) return s;
  }
  return FetchedSummary(verdict);
}

absl::StatusOr<Verdict> VerdictLane::ReadVerdict(
    PendingVerdict::State& verdict) {
  if (absl::Status failed = world().status(); !failed.ok()) return failed;
  verdict.vectors = fetched().summary;
  return Decode(verdict.step_id, world().size(), verdict.terms(),
                verdict.vectors);
}

}  // namespace lockstep::gradient
