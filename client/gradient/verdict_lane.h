// The verdict lane's memory and local operations: accumulates the norms of a
// step, writes this rank's step summary, and reads the reduced summary.
//
//   buckets ─ norm ─▶ totals ─ write-summary ─▶ [summary] ─ all-reduces ─┐
//   Finish ───────────────────▶ enter ┘                                  │
//   judge ◀──────────────────────────────────── read-summary ◀───────────┘
//
// In a step that is captured into a graph, `enter` and `judge` are captured as
// host calls, which each launch of the graph makes (captured.h).
//
// A completed wait does not mean success: a queue may run on after an abort,
// and its results are then undefined. So each wait is followed by a check of
// the communicators.
//
// Threads: as owner of a lane (lane_owner.h); norm() is fixed; ReadSummary,
//          StageSummary and ReadVerdict on the thread of a captured step's
//          calls.

#ifndef LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_
#define LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/executor/executor.h"
#include "client/gradient/captured.h"
#include "client/gradient/leaf_norms.h"
#include "client/gradient/pending.h"
#include "client/gradient/step_summary.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"

namespace lockstep::gradient {

class VerdictLane final : public executor::LaneOwner {
 public:
  using Pending = std::shared_ptr<PendingVerdict::State>;

  struct Options {
    executor::Executor* executor = nullptr;
    int leaves = 0;  // of the job's sums
    // The oldest step that Finish was called for; null: it was given up.
    std::function<Pending()> take;
    // This rank reaches the verdict: returns its step, and adds the caller's
    // fields to the summary.
    std::function<StepId(StepSummary*)> enter;
    // Receives the verdict, or the error that prevented it.
    std::function<void(const Pending&, absl::StatusOr<Verdict>)> judge;
    // The error of a transfer, and its communicator, or -1.
    std::function<void(int, const absl::Status&)> on_failure;
  };

  // Errors of the DeviceContext and of `allocate`, which provides its memory.
  static absl::StatusOr<std::unique_ptr<VerdictLane>> Create(
      Options options,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The accumulator of norms: this rank's (-1), or that of a leaf of the job.
  kernels::FiniteCheck* norm(int leaf) {
    return leaf < 0 ? &moved().norm : leaf_norms_->total(leaf);
  }

  // Captures the next verdict into the step's graph; null ends the capture.
  void Capture(Captured* step) { capturing_ = step; }

  // --- A captured step ---

  // `enter` uses the first two, `judge` the third.
  absl::StatusOr<StepSummary> ReadSummary(const PendingVerdict::State& verdict);
  void StageSummary(const SummaryVectors& summary) {
    fetched().summary = summary;
  }
  absl::StatusOr<Verdict> ReadVerdict(PendingVerdict::State& verdict);

  // Returns and reports the first error of a communicator, if there is one.
  absl::Status CheckCommunicators();

 private:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // A step's values, in the transport's memory and in staging.
  struct StepMemory {
    kernels::FiniteCheck norm;
    SummaryVectors summary;
  };

  explicit VerdictLane(Options options) : options_(std::move(options)) {}

  StepMemory& moved() { return memory_.as<StepMemory>()[0]; }
  StepMemory& fetched() { return staging_.as<StepMemory>()[0]; }
  Communicator& world() { return *options_.executor->communicator(0); }

  executor::Operands OperandsOf(plan::TransferRef ref,
                                const plan::Transfer& transfer) override;
  absl::Status Apply(KernelQueue& kernel_queue, const plan::Transfer& transfer,
                     executor::Side side, bool has_norms) override;
  void Failed(const plan::Transfer& transfer, int communicator,
              const absl::Status& error) override;

  absl::Status WriteSummary(KernelQueue& kernel_queue);
  absl::Status ReadSummary(KernelQueue& kernel_queue);
  absl::Status CaptureWrite(KernelQueue& kernel_queue, Captured& step);
  absl::Status CaptureRead(KernelQueue& kernel_queue, Captured& step);
  void FetchNorm(KernelQueue& kernel_queue);
  absl::StatusOr<StepSummary> TakeSummary(KernelQueue& kernel_queue);
  StepSummary FetchedSummary(const PendingVerdict::State& verdict);
  absl::StatusOr<SummaryVectors> FetchSummary(KernelQueue& kernel_queue);

  const Options options_;
  ArenaBuffer memory_;
  ArenaBuffer staging_;
  std::optional<LeafNorms> leaf_norms_;
  std::atomic<Captured*> capturing_{nullptr};
  Pending verdict_;  // the step whose summary was written
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_
