// The verdict lane's memory and local operations: the norms of a step gather in
// it, what this rank says of the step is written to it and reduced, and what
// all ranks said is read from it.
//
//   buckets ─ norm ─▶ totals ─ write-summary ─▶ [ballot] ─ all-reduces ─┐
//   Finish ───────────────────▶ enter ┘                                  │
//   judge ◀──────────────────────────────────── read-summary ◀───────────┘
//
// In a step that is captured into a graph the host's part, `enter` and `judge`,
// is captured as calls, which each launch of the graph makes (captured.h).
//
// Completed is not succeeded: where a queue runs on after an abort, what was
// read may be anything. So the communicators are asked after each wait.
//
// Threads: as owner of a lane (lane_owner.h); norm() is fixed; ReadBallot,
//          StageBallot and ReadVerdict on the thread of a captured step's
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
    // The next step that Finish was called for; null: it was given up.
    std::function<Pending()> take;
    // This rank is at the verdict: which step it is; adds to the ballot what
    // only the caller knows.
    std::function<StepId(StepSummary*)> enter;
    // What all ranks said, or why they could not.
    std::function<void(const Pending&, absl::StatusOr<Verdict>)> judge;
    // The error of a transfer, and of which communicator, or -1.
    std::function<void(int, const absl::Status&)> on_failure;
  };

  // Errors of the compute and of `allocate`, which gives its memory.
  static absl::StatusOr<std::unique_ptr<VerdictLane>> Create(
      Options options,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // Where norms are added: this rank's, or those of a leaf of the job.
  kernels::FiniteCheck* norm(int leaf) {
    return leaf < 0 ? &moved().norm : leaf_norms_->total(leaf);
  }

  // The verdict that is launched next is captured into the step's graph; null:
  // none is any more.
  void Capture(Captured* step) { capturing_ = step; }

  // --- A captured step ---

  // What `enter` reads and writes, and what `judge` reads.
  absl::StatusOr<StepSummary> ReadBallot(const PendingVerdict::State& verdict);
  void StageBallot(const SummaryVectors& summary) {
    fetched().summary = summary;
  }
  absl::StatusOr<Verdict> ReadVerdict(PendingVerdict::State& verdict);

  // The first error of a communicator has been told, if there is one.
  absl::Status CheckCommunicators();

 private:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // Where a step's numbers gather: the transport's memory, and staging.
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
  absl::StatusOr<StepSummary> TakeBallot(KernelQueue& kernel_queue);
  StepSummary FetchedBallot(const PendingVerdict::State& verdict);
  absl::StatusOr<SummaryVectors> FetchBallot(KernelQueue& kernel_queue);

  const Options options_;
  ArenaBuffer memory_;
  ArenaBuffer staging_;
  std::optional<LeafNorms> leaf_norms_;
  std::atomic<Captured*> capturing_{nullptr};
  Pending verdict_;  // of the step whose summary was written
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_
