// One step of a rank: runs its tasks in order, each after the messages that it
// needs.

#ifndef LOCKSTEP_CLIENT_PIPELINE_STEP_RUN_H_
#define LOCKSTEP_CLIENT_PIPELINE_STEP_RUN_H_

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/executor/executor.h"
#include "client/pipeline/buffers.h"
#include "client/pipeline/handoffs.h"
#include "client/pipeline/runner.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

// The runner's state that does not change during a run; it outlives the run.
struct StepContext {
  const plan::Plan& plan;
  int number;  // of the rank, in the world
  const plan::RankPlan& rank;
  const PipelineSpec& spec;
  const std::vector<int>& stages;
  int last_stage;
  const Buffers& buffers;
  const Handoffs& handoffs;
  const std::vector<std::vector<int>>& stages_done;
  const std::vector<std::vector<plan::TransferRef>>& followers;
  executor::Executor& executor;
};

class StepRun {
 public:
  StepRun(const StepContext& context, const Step& step);

  // Returns the weighted loss. Errors of a callback or a transfer, with stage
  // and micro-batch. On a stream: of those transfers that have failed so far.
  absl::StatusOr<double> Run();

  // After Run: behind all tasks and transfers. Complete without a stream.
  const Event& over() const { return over_; }

  // After an error: whether only this rank failed, as in a callback.
  bool failed_here() const { return failed_here_; }
  // Otherwise: the communicator of the failed transfer; -1: none.
  int failed_communicator() const { return failed_communicator_; }

 private:
  // Orders later work, on the stages' stream or on the host, after the
  // transfer.
  absl::Status Await(plan::TransferRef ref);
  // Blocks until the transfer is complete.
  absl::Status AwaitOnHost(plan::TransferRef ref);
  // The world rank of the transfer's peer; -1: several peers.
  int PeerIn(const plan::Transfer& transfer) const;
  absl::StatusOr<Event> Launched(plan::TransferRef ref);
  absl::Status StatusOf(plan::TransferRef ref);
  absl::Status Do(int number);
  absl::Status MarkFollowers(int number);
  absl::Status EndStages(const std::vector<int>& stages);
  absl::Status Compute(int number, const plan::Task& task);
  absl::Status ComputeLoss(const plan::Task& task,
                           const std::vector<TensorView>& gradient);
  absl::Status Weigh(const std::vector<TensorView>& gradient, double weight);
  absl::Status EndStage(int stage);
  absl::Status EndStep();

  std::vector<TensorView> InputOf(int number, const plan::Task& task) const;
  std::vector<TensorView> OutputOf(int number, const plan::Task& task) const;
  std::vector<TensorView> OutputGradientOf(const plan::Task& task) const;
  std::vector<TensorView> InputGradientOf(int number,
                                          const plan::Task& task) const;
  PipelineStage& StageOf(const plan::Task& task) const;
  double WeightOf(int micro_batch) const;

  const plan::Transfer& At(plan::TransferRef ref) const {
    return context_.rank.lanes[ref.lane].transfers[ref.index];
  }

  const StepContext context_;
  const Step& step_;
  int tasks_done_ = 0;
  std::set<int> ended_;  // stages
  // The task that computes the gradient of a stage's input, by stage and
  // micro-batch.
  std::vector<std::vector<int>> gradient_task_;
  double loss_ = 0;
  Event over_;
  bool failed_here_ = false;
  int failed_communicator_ = -1;
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_STEP_RUN_H_
