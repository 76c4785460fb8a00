// Runs one rank's tasks of a verified plan, step after step, over the executor
// that launches its messages.
//
//   executor   recv F0  recv F1  send B0 ...   each lane on a stream of its own
//   tasks          F0 ──────── F1 ── B0 ...    on the caller's thread
//
// A step runs the rank's tasks in order. A task waits for the messages that it
// needs, and marks ready those that come after it; so transfers go on while the
// rank computes. Which buffer a message is in, and when that may be used again,
// is the plan's (plan/ir.h): all buffers are made once, and their bytes are
// known.
//
// A stage is done behind the task where the launch order has the first bucket
// of its gradients (plan/pipeline/stages.h), or else at the end of the step;
// gradients of parameters that the first and the last stage share have been
// added up then. OnStageDone is called there. Where all lanes share one launch
// order, no later message is launched before the gradients are: so they must
// have been submitted when OnStageDone returns.
//
// With a stream of the stages (Step::stream) nothing of this waits on the host:
// messages wait for the stream and it for them, by events. The launches are the
// same, in the same order; the host is ahead of what it launches.
//
// Threads: Run from one thread; Abort from any.
// Errors:  a callback that fails, and a transfer that does, end the runner: Run
//          and every later one return the first error. The message names stage,
//          micro-batch and what the callback said.

#ifndef LOCKSTEP_CLIENT_PIPELINE_RUNNER_H_
#define LOCKSTEP_CLIENT_PIPELINE_RUNNER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/executor/executor.h"
#include "client/pipeline/buffers.h"
#include "client/pipeline/handoffs.h"
#include "lockstep/arena.h"
#include "lockstep/pipeline.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

struct RunnerOptions {
  // Verified, with a pipeline.
  std::shared_ptr<const plan::Plan> plan;
  int rank = -1;
  // Runs the rank's lanes: it has a program with them. Also has the compute
  // that works on their memory.
  std::shared_ptr<executor::Executor> executor;
  std::function<absl::StatusOr<ArenaBuffer>(size_t)> allocate;
  // A callback failed on this rank: have the others told.
  std::function<void(const absl::Status&)> on_failure;
  // What is behind a transfer that failed on a communicator, which a peer may
  // know better: may block until it is known. Null: nothing.
  std::function<absl::Status(int communicator, const absl::Status&)> explain;
};

using Step = PipelineStep;

class Runner final : public executor::LaneOwner {
 public:
  // ResourceExhausted if buffers cannot be had; InvalidArgument for a plan
  // without tasks on this rank; errors of the device.
  static absl::StatusOr<std::unique_ptr<Runner>> Create(RunnerOptions options);
  ~Runner() override;

  // The weighted sum of the losses, on the rank of the last stage; 0 elsewhere.
  // InvalidArgument, with nothing run, for a Step that does not fit the plan.
  absl::StatusOr<double> Run(const Step& step);

  // Ends it: whatever waits returns `cause`.
  void Abort(const absl::Status& cause);

  // Of all buffers of this rank's messages: known from the plan.
  size_t buffer_bytes() const { return buffers_->bytes(); }
  // Stages that this rank has, ascending.
  const std::vector<int>& stages() const { return stages_; }

 private:
  explicit Runner(RunnerOptions options);
  absl::Status Prepare();
  void FindStageEnds();
  void FindFollowers();
  absl::Status Judge(const Step& step) const;
  // The gradients that the first and the last stage share, as the lanes that
  // add them up have them. InvalidArgument names the one that differs.
  absl::Status JudgeShared(const Step& step) const;
  absl::Status Report(const absl::Status& error);
  absl::Status Explained(int communicator, const absl::Status& error);
  absl::Status failure();
  void Drain();

  executor::Operands OperandsOf(plan::TransferRef ref,
                                const plan::Transfer& transfer) override;
  void Failed(const plan::Transfer& transfer, int communicator,
              const absl::Status& error) override;

  const RunnerOptions options_;
  const plan::RankPlan& mine_;
  std::vector<int> stages_;
  int last_stage_ = 0;  // of the model
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<Handoffs> handoffs_;
  // By task, from 1; 0 is the begin of the step: the stages that are done then.
  std::vector<std::vector<int>> stages_done_;
  // By task: the messages that come after it.
  std::vector<std::vector<plan::TransferRef>> followers_;
  const Step* step_ = nullptr;  // while it runs

  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // Where a launch failed in this step; -1: none did.
  int failed_communicator_ ABSL_GUARDED_BY(mutex_) = -1;
};

// A program of the rank's pipeline lanes alone, for who runs no gradients.
absl::StatusOr<std::shared_ptr<const executor::Program>> PipelineProgram(
    std::shared_ptr<const plan::Plan> plan, int rank,
    const executor::Executor& executor);

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_RUNNER_H_
