// One step of a rank: its tasks in order, each behind the messages it needs.

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

// What a runner has from step to step; all of it outlives the run.
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

  // The weighted loss. Errors: what a callback or a transfer said, with stage
  // and micro-batch.
  absl::StatusOr<double> Run();

  // After an error: is this rank alone to blame, as for a callback's?
  bool failed_here() const { return failed_here_; }
  // Else: where a transfer failed; -1 for none.
  int failed_communicator() const { return failed_communicator_; }

 private:
  // Lets what comes next, on the stages' stream or on the host, come behind the
  // transfer.
  absl::Status Await(plan::TransferRef ref);
  // Until it is over.
  absl::Status AwaitOnHost(plan::TransferRef ref);
  // The rank of the world that the transfer is with; -1: with several.
  int PeerIn(const plan::Transfer& transfer) const;
  absl::StatusOr<Event> Launched(plan::TransferRef ref);
  absl::Status StatusOf(plan::TransferRef ref);
  // What the stages enqueue now comes behind all that was awaited.
  absl::Status AwaitQueued();

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
  // The task that has the gradient of a stage's output: by stage, micro-batch.
  std::vector<std::vector<int>> gradient_task_;
  double loss_ = 0;
  bool failed_here_ = false;
  int failed_communicator_ = -1;
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_STEP_RUN_H_
