// Runs one rank's tasks and transfers of a verified plan, step after step.
//
//   launch order  recv F0  recv F1  send B0 ...   each lane on a stream of its
//   tasks             F0 ──────── F1 ── B0 ...    own; tasks on the caller
//
// A step walks the rank's tasks. Before each it launches what the launch order
// says, as far as nothing in it waits for a task that is still to come; then it
// waits for the messages that the task needs. So transfers go on while the
// rank computes. Which buffer a message lies in, and when that may be used
// again, is the plan's (plan/ir.h): all buffers are made once, and their bytes
// are known.
//
// A stage is done where the launch order has the first bucket of its gradients
// (plan/pipeline/stages.h), or else at the end of the step; gradients of
// parameters that the first and the last stage share have been added up then.
// OnStageDone is called there, and no later message is launched before the
// gradients are.
//
// With a stream of the stages (Step::stream) nothing of this waits on the host:
// messages wait for the stream and it for them, by events. The launches are the
// same, in the same order; the host is ahead of what it launches.
//
// Threads: Run from one thread; Abort from any.
// Errors:  a callback that fails, and a transfer that does, end the executor:
//          Run and every later one return the first error. The message names
//          stage, micro-batch and what the callback said.

#ifndef LOCKSTEP_CLIENT_PIPELINE_EXECUTOR_H_
#define LOCKSTEP_CLIENT_PIPELINE_EXECUTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/executor/launched_transfers.h"
#include "client/pipeline/buffers.h"
#include "client/pipeline/handoffs.h"
#include "client/transport/compute.h"
#include "lockstep/arena.h"
#include "lockstep/communicator.h"
#include "lockstep/pipeline.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

struct ExecutorOptions {
  // Verified, with a pipeline.
  std::shared_ptr<const plan::Plan> plan;
  int rank = -1;
  // By index in plan.communicators; only those of this rank's pipeline lanes
  // are used. They must outlive the executor.
  std::vector<Communicator*> communicators;
  // Memory that the communicators use and `compute` works on; `compute` also
  // makes the lanes' streams. It must outlive the executor.
  transport::Compute* compute = nullptr;
  std::function<absl::StatusOr<ArenaBuffer>(size_t)> allocate;
  // What this rank's lanes have launched, for other lanes; null: for nobody.
  std::shared_ptr<executor::LaunchedTransfers> launched;
  // OnStageDone has returned for that stage: returns once what is launched next
  // comes behind its gradients. Null: at once.
  std::function<absl::Status(int stage)> await_gradients;
  // A callback failed on this rank: have the others told.
  std::function<void(const absl::Status&)> on_failure;
  // What is behind a transfer that failed on a communicator, which a peer may
  // know better: may block until it is known. Null: nothing.
  std::function<absl::Status(int communicator, const absl::Status&)> explain;
};

using Step = PipelineStep;

class Executor {
 public:
  // ResourceExhausted if buffers cannot be had; InvalidArgument for a plan
  // without tasks on this rank; errors of the device.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      ExecutorOptions options);
  ~Executor();

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
  explicit Executor(ExecutorOptions options);
  absl::Status Prepare();
  // InvalidArgument if what it runs comes after a transfer that it does not
  // run: nobody could wait for that.
  absl::Status CheckOrder() const;
  absl::Status MakeStreams();
  void FindStageEnds();
  absl::Status Judge(const Step& step) const;
  // The gradients that the first and the last stage share, as the lanes that
  // add them up have them. InvalidArgument names the one that differs.
  absl::Status JudgeShared(const Step& step) const;
  absl::Status Report(const absl::Status& error);
  absl::Status Explained(int communicator, const absl::Status& error);
  absl::Status failure();

  const ExecutorOptions options_;
  const plan::RankPlan& mine_;
  std::vector<int> stages_;
  int last_stage_ = 0;  // of the model
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<Handoffs> handoffs_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by lane; null: not ours
  // By place in the launch order: the stage that is done there; -1: none.
  std::vector<int> stage_done_at_;

  Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_EXECUTOR_H_
