// The verdict lane where the host decides: accumulates the norms of a step,
// writes this rank's step summary, and reads the reduced summary.
//
//   buckets ─ norm ─▶ totals ─ write-summary ─▶ [summary] ─ all-reduces ─┐
//   Finish ───────────────────▶ enter ┘                                  │
//   judge ◀──────────────────────────────────── read-summary ◀───────────┘
//
// A completed wait does not mean success: a queue may run on after an abort,
// and its results are then undefined. So each wait is followed by a check of
// the communicators.
//
// Threads: as owner of a lane (lane_owner.h); norm() is fixed.

#ifndef LOCKSTEP_CLIENT_GRADIENT_SUMMARY_LANE_H_
#define LOCKSTEP_CLIENT_GRADIENT_SUMMARY_LANE_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/executor/executor.h"
#include "client/gradient/leaf_norms.h"
#include "client/gradient/pending.h"
#include "client/gradient/step_summary.h"
#include "client/gradient/verdict_lane.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"

namespace lockstep::gradient {

class SummaryLane final : public VerdictLane {
 public:
  struct Options {
    executor::Executor* executor = nullptr;
    int leaves = 0;  // of the job's sums
    // The oldest step that Finish was called for; null: it was given up.
    std::function<Pending()> take;
    // This rank reaches the verdict: sets its step, and adds the caller's
    // fields to the summary.
    std::function<void(PendingVerdict::State&, StepSummary*)> enter;
    // Receives the verdict, or the error that prevented it.
    std::function<void(const Pending&, absl::StatusOr<Verdict>)> judge;
    // The error of a transfer, and its communicator, or -1.
    std::function<void(int, const absl::Status&)> on_failure;
  };

  // Errors of the DeviceContext and of `allocate`, which provides its memory.
  static absl::StatusOr<std::unique_ptr<SummaryLane>> Create(
      Options options,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  kernels::FiniteCheck* norm(int leaf) override {
    return leaf < 0 ? &moved().norm : leaf_norms_->total(leaf);
  }

 private:
  // A step's values, in the transport's memory and in staging.
  struct StepMemory {
    kernels::FiniteCheck norm;
    SummaryVectors summary;
  };

  explicit SummaryLane(Options options) : options_(std::move(options)) {}

  StepMemory& moved() { return memory_.as<StepMemory>()[0]; }
  StepMemory& fetched() { return staging_.as<StepMemory>()[0]; }
  Communicator& world() { return *options_.executor->communicator(0); }

  executor::Operands OperandsOf(plan::TransferRef ref,
                                const plan::Transfer& transfer) override;
  void Failed(const plan::Transfer& transfer, int communicator,
              const absl::Status& error) override;

  absl::Status Write(KernelQueue& kernel_queue) override;
  absl::Status Read(KernelQueue& kernel_queue) override;
  void FetchNorm(KernelQueue& kernel_queue);
  absl::StatusOr<StepSummary> TakeSummary(KernelQueue& kernel_queue);
  // Returns and reports the first error of a communicator, if there is one.
  absl::Status CheckCommunicators();
  absl::StatusOr<SummaryVectors> FetchSummary(KernelQueue& kernel_queue);

  const Options options_;
  ArenaBuffer memory_;
  ArenaBuffer staging_;
  std::optional<LeafNorms> leaf_norms_;
  Pending verdict_;  // the step whose summary was written
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_SUMMARY_LANE_H_
