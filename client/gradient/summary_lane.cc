#include "client/gradient/summary_lane.h"

#include <utility>

namespace lockstep::gradient {

absl::StatusOr<std::unique_ptr<SummaryLane>> SummaryLane::Create(
    Options options,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  transport::DeviceContext& compute = options.executor->compute();
  const int leaves = options.leaves;
  std::unique_ptr<SummaryLane> lane(new SummaryLane(std::move(options)));
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

executor::Operands SummaryLane::OperandsOf(plan::TransferRef ref,
                                           const plan::Transfer&) {
  SummaryVectors& summary = moved().summary;
  switch (ref.index) {
    case 0: return {summary.sum.data(), summary.sum.data()};
    case 1: return {summary.max.data(), summary.max.data()};
    default: return {leaf_norms_->sums(), leaf_norms_->sums()};
  }
}

void SummaryLane::Failed(const plan::Transfer&, int communicator,
                         const absl::Status& error) {
  // No pending verdict: the step was given up.
  const Pending verdict = std::exchange(verdict_, nullptr);
  if (verdict == nullptr) return;
  options_.on_failure(communicator, error);
  options_.judge(verdict, error);
}

// --- This rank's summary ----------------------------------------------------

absl::Status SummaryLane::Write(KernelQueue& kernel_queue) {
  verdict_ = options_.take();
  if (verdict_ == nullptr) {
    return absl::CancelledError("the step was given up");
  }
  absl::StatusOr<StepSummary> summary = TakeSummary(kernel_queue);
  if (!summary.ok()) return summary.status();
  options_.enter(*verdict_, &*summary);
  fetched().summary = Encode(verdict_->step_id, *summary);
  kernel_queue.Copy(&fetched().summary, &moved().summary,
                    sizeof(SummaryVectors));
  return kernel_queue.status();
}

void SummaryLane::FetchNorm(KernelQueue& kernel_queue) {
  kernel_queue.Copy(&moved().norm, &fetched().norm,
                    sizeof(kernels::FiniteCheck));
  kernel_queue.Zero(&moved().norm, sizeof(kernels::FiniteCheck));
  if (leaf_norms_) leaf_norms_->Fetch(kernel_queue);
}

absl::StatusOr<StepSummary> SummaryLane::TakeSummary(
    KernelQueue& kernel_queue) {
  FetchNorm(kernel_queue);
  absl::Status got = kernel_queue.status();
  if (got.ok()) got = kernel_queue.Done().Wait();
  if (got.ok()) got = CheckCommunicators();
  if (!got.ok()) return got;
  const kernels::FiniteCheck& norm = fetched().norm;
  StepSummary summary = verdict_->OwnSummary();
  summary.norm_squared = norm.sum_of_squares;
  summary.nonfinite = static_cast<int64_t>(norm.non_finite);
  if (leaf_norms_) {
    summary.nonfinite += static_cast<int64_t>(leaf_norms_->Give(kernel_queue));
  }
  return summary;
}

absl::Status SummaryLane::CheckCommunicators() {
  int failed = -1;
  absl::Status status = options_.executor->FirstError(&failed);
  if (!status.ok()) options_.on_failure(failed, status);
  return status;
}

// --- The reduced summary ----------------------------------------------------

absl::Status SummaryLane::Read(KernelQueue& kernel_queue) {
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
absl::StatusOr<SummaryVectors> SummaryLane::FetchSummary(
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

}  // namespace lockstep::gradient
