// One step of a rank: its tasks in order, its transfers as the launch order
// says.

#ifndef LOCKSTEP_CLIENT_PIPELINE_WALK_H_
#define LOCKSTEP_CLIENT_PIPELINE_WALK_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/executor/enqueue.h"
#include "client/executor/launched_transfers.h"
#include "client/pipeline/buffers.h"
#include "client/pipeline/executor.h"
#include "client/pipeline/handoffs.h"
#include "client/transport/compute.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

// What an executor has from step to step; all of it outlives the walk.
struct WalkGround {
  const plan::RankPlan& rank;
  const PipelineSpec& spec;
  const std::vector<int>& stages;
  int last_stage;
  const Buffers& buffers;
  const Handoffs& handoffs;
  const std::vector<Communicator*>& communicators;
  const std::vector<std::unique_ptr<Stream>>& streams;
  const std::vector<int>& stage_done_at;
  transport::Compute& compute;
  const std::function<absl::Status(int)>& await_gradients;
  executor::LaunchedTransfers* launched;  // null: nobody asks
};

class Walk {
 public:
  Walk(const WalkGround& ground, const Step& step);

  // The weighted loss. Errors: what a callback or a transfer said, with stage
  // and micro-batch.
  absl::StatusOr<double> Run();

  // After an error: was it a callback's?
  bool failed_in_callback() const { return failed_in_callback_; }
  // Else: where a transfer failed; -1 for none.
  int failed_communicator() const { return failed_communicator_; }

  // Returns when nothing that was launched can use a buffer any more. The
  // communicators must have been aborted, or all have been launched.
  void Drain();

 private:
  // Launches what follows in the order and waits for no task but those before
  // `tasks_done`.
  absl::Status LaunchReady(int tasks_done);
  absl::Status LaunchUnit(const std::vector<plan::TransferRef>& unit);
  executor::Operands OperandsOf(const plan::Transfer& transfer,
                                int index) const;
  // The transfer and those that progress together with it.
  std::vector<plan::TransferRef> UnitAt(size_t place) const;
  // Lets what comes next, on the stages' stream or on the host, come behind the
  // transfer.
  absl::Status Await(const plan::TransferRef& ref);
  // Until it is over.
  absl::Status AwaitOnHost(const plan::TransferRef& ref);
  absl::Status StatusOf(const plan::TransferRef& ref);
  // What the stages enqueue now comes behind all that was awaited.
  absl::Status AwaitQueued();

  absl::Status Do(int number);
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

  const plan::Transfer& At(const plan::TransferRef& ref) const {
    return ground_.rank.lanes[ref.lane].transfers[ref.index];
  }

  const WalkGround ground_;
  const Step& step_;
  size_t next_ = 0;                       // in the launch order
  std::vector<std::vector<Event>> done_;  // by lane, index: once launched
  std::vector<Event> computed_;           // by task: once it was called
  std::set<int> ended_;                   // stages
  // The task that has the gradient of a stage's output: by stage, micro-batch.
  std::vector<std::vector<int>> gradient_task_;
  double loss_ = 0;
  bool failed_in_callback_ = false;
  int failed_communicator_ = -1;
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_WALK_H_
