// Runs one rank's tasks of a verified plan, step after step, on the executor
// that launches its messages.
//
//   executor   recv F0  recv F1  send B0 ...   each lane on its own stream
//   tasks          F0 ──────── F1 ── B0 ...    on the caller's thread
//
// A step runs the rank's tasks in order. A task waits for the messages that it
// needs, and marks ready those that follow it; so transfers overlap compute.
// The plan determines the buffer of each message, and when it may be reused
// (plan/ir.h). All buffers are allocated once, and their size is known.
//
// A stage is done after the task at which the launch order has the first bucket
// of its gradients (plan/pipeline/stages.h), or else at the end of the step.
// Gradients of parameters that the first and the last stage share have been
// added up by then. OnStageDone is called at that point. Where all lanes share
// one launch order, later messages are launched after these gradients: so the
// caller must have submitted them when OnStageDone returns.
//
// If the stages run on a stream (Step::stream), the host does not block:
// messages and the stream wait for each other by events. The launches and their
// order are the same; the host runs ahead of them, also of the end of the step:
//
//   stages' stream  ... B1 ── waits for the lanes ─▶ last_run_
//   lanes           ... send B1            │           │
//   the next run    its stream and lanes begin behind  ◀┘
//
// On the host Run waits for the end of its stream (StepRun::EndStep).
//
// Threads: Run from one thread; Abort from any.
// Errors:  a failed callback or transfer ends the runner: this Run and every
//          later one return the first error. The message names stage,
//          micro-batch and the callback's error. A transfer that fails behind
//          the return of its Run is an error of the verdict's.

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
  // Runs the rank's lanes; its program must include them. Also has the
  // DeviceContext that works on their memory.
  std::shared_ptr<executor::Executor> executor;
  std::function<absl::StatusOr<ArenaBuffer>(size_t)> allocate;
  // Reports a callback's failure on this rank to the other ranks.
  std::function<void(const absl::Status&)> on_failure;
  // Returns the cause of a failed transfer, which a peer may know better; may
  // block until it is known. Null: the error is returned unchanged.
  std::function<absl::Status(int communicator, const absl::Status&)> explain;
};

using Step = PipelineStep;

class Runner final : public executor::LaneOwner {
 public:
  // ResourceExhausted if buffers cannot be allocated; InvalidArgument for a
  // plan without tasks on this rank; errors of the device.
  static absl::StatusOr<std::unique_ptr<Runner>> Create(RunnerOptions options);
  ~Runner() override;

  // The weighted sum of the losses, on the rank of the last stage; 0 elsewhere.
  // InvalidArgument, with nothing run, for a Step that does not fit the plan.
  absl::StatusOr<double> Run(const Step& step);

  // Waits until nothing that Run has launched uses the buffers.
  void AwaitLastRun();

  // Ends the runner: all waiting calls return `cause`.
  void Abort(const absl::Status& cause);

  // The size of all buffers of this rank's messages, known from the plan.
  size_t buffer_bytes() const { return buffers_->bytes(); }
  // The stages of this rank, ascending.
  const std::vector<int>& stages() const { return stages_; }

 private:
  explicit Runner(RunnerOptions options);
  absl::Status Prepare();
  void FindStageEnds();
  void FindFollowers();
  absl::Status Judge(const Step& step) const;
  // Compares the gradients that the first and the last stage share with the
  // lanes that add them up. InvalidArgument names the one that differs.
  absl::Status JudgeShared(const Step& step) const;
  absl::Status Report(const absl::Status& error);
  absl::Status Explained(int communicator, const absl::Status& error);
  absl::Status failure();
  // What is launched from then on does not use the buffers before the last run
  // is over.
  absl::Status BeginBehindLastRun(Stream* stream);
  // Waits until nothing that was launched uses the buffers.
  void Drain(Stream* stream);

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
  // By task, from 1; 0 is the beginning of the step: the stages that are done.
  std::vector<std::vector<int>> stages_done_;
  // By task: the messages that follow it.
  std::vector<std::vector<plan::TransferRef>> followers_;
  const Step* step_ = nullptr;  // while it runs
  Event last_run_;              // the end of the last one, on its stream

  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The communicator of a failed launch of this step; -1: none failed.
  int failed_communicator_ ABSL_GUARDED_BY(mutex_) = -1;
  bool failed_to_launch_ ABSL_GUARDED_BY(mutex_) = false;  // on this rank
};

// A program of only the rank's pipeline lanes, for jobs without gradients.
absl::StatusOr<std::shared_ptr<const executor::Program>> PipelineProgram(
    std::shared_ptr<const plan::Plan> plan, int rank,
    const executor::Executor& executor);

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_RUNNER_H_
