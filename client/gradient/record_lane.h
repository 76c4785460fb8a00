// The verdict lane where the device decides: one all-gather of the ranks'
// records between two kernels (step_gate.h).
//
//   enter ─▶ Seal          the host, when the step is enqueued
//   [transfers]─▶[record]─▶[all-gather]─▶[gate]─▶ update     the device
//                    │                      │
//                written               ended: what was decided
//
// This thread waits for none of it: the watch does, on its own. The gate runs
// also where the gather was aborted: it finds an invalid record, or that all
// ranks had contributed before.
//
// A step that is captured into a graph has the same operations, without `enter`
// and `enqueued`: its owner seals the input of each launch, and adds the launch
// to the watch (captured.h).
//
// Threads: as owner of a lane (lane_owner.h); Capture and Watch while it runs
//          nothing. `contributed` and `ended` are called by the watch.

#ifndef LOCKSTEP_CLIENT_GRADIENT_RECORD_LANE_H_
#define LOCKSTEP_CLIENT_GRADIENT_RECORD_LANE_H_

#include <atomic>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/executor/executor.h"
#include "client/gradient/captured.h"
#include "client/gradient/step_gate.h"
#include "client/gradient/step_summary.h"
#include "client/gradient/verdict_lane.h"
#include "client/gradient/verdict_watch.h"
#include "lockstep/stream.h"

namespace lockstep::gradient {

class RecordLane final : public VerdictLane {
 public:
  struct Options {
    executor::Executor* executor = nullptr;
    StepGate* gate = nullptr;
    // The oldest step that Finish was called for; null: it was given up.
    std::function<Pending()> take;
    // Sets the step, and adds the caller's fields to the summary.
    std::function<void(PendingVerdict::State&, StepSummary*)> enter;
    // The step is enqueued; the device decides before `decided`.
    std::function<void(const Pending&, const Event& decided)> enqueued;
    // This rank has contributed a valid record to the step in progress.
    std::function<void()> contributed;
    // The device has ended the step, or `ran` says why it does not.
    std::function<void(const Pending&, const absl::Status& ran)> ended;
    // The launched graph of the step runs, but no event tells when it has
    // ended.
    std::function<void(const Pending&, const absl::Status& why)> unseen;
    // The error of a transfer, and its communicator, or -1.
    std::function<void(int, const absl::Status&)> on_failure;
  };

  explicit RecordLane(Options options)
      : options_(std::move(options)),
        watch_(
            [this](const VerdictWatch::EnqueuedStep& step) { Await(step); }) {}

  kernels::FiniteCheck* norm(int) override { return options_.gate->norm(); }

  // Captures the next step's end into its graph; null ends the capture.
  void Capture(Captured* step) { capturing_ = step; }
  // Awaits a launch of `step`, which ends with `graph`; an error: it was not
  // launched.
  void Watch(const Pending& verdict, const absl::StatusOr<Event>& graph,
             std::shared_ptr<Captured> step) {
    watch_.Add({.verdict = verdict, .decided = graph, .kept = std::move(step)});
  }
  // Returns when `ended` was called for every step; none follows.
  void FinishWatching() { watch_.Finish(); }

 private:
  executor::Operands OperandsOf(plan::TransferRef,
                                const plan::Transfer&) override {
    return {options_.gate->own_record(), options_.gate->records()};
  }
  bool RunsAfterFailure(const plan::Transfer&) override { return true; }
  void Failed(const plan::Transfer& transfer, int communicator,
              const absl::Status& error) override;

  kernels::GateContext ContextOf(const Captured& step) const;
  absl::Status Write(KernelQueue& kernel_queue) override;
  absl::Status Read(KernelQueue& kernel_queue) override;
  void Await(const VerdictWatch::EnqueuedStep& step);

  const Options options_;
  std::atomic<Captured*> capturing_{nullptr};
  Pending verdict_;  // the step whose record is written
  Event written_;    // behind its record
  VerdictWatch watch_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_RECORD_LANE_H_
