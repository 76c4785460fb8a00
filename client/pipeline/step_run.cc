#include "client/pipeline/step_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::pipeline {

using plan::LaneKind;
using plan::Task;
using plan::Transfer;
using plan::TransferKind;
using plan::TransferRef;
using plan::Work;

namespace {

absl::Status Within(const Task& task, const absl::Status& error) {
  if (error.ok()) return error;
  return absl::Status(error.code(),
                      absl::StrCat(Describe(task), ": ", error.message()));
}

}  // namespace

StepRun::StepRun(const StepContext& context, const Step& step)
    : context_(context), step_(step) {
  gradient_task_.assign(context_.last_stage + 1,
                        std::vector<int>(context_.spec.micro_batches, -1));
  for (size_t i = 0; i < context_.rank.tasks.size(); ++i) {
    const Task& task = context_.rank.tasks[i];
    if (GivesInputGradient(task.work)) {
      gradient_task_[task.stage][task.micro_batch] = static_cast<int>(i);
    }
  }
}

absl::StatusOr<double> StepRun::Run() {
  const int tasks = static_cast<int>(context_.rank.tasks.size());
  absl::Status status;
  for (int number = 0; status.ok() && number < tasks; ++number) {
    status = EndStages(context_.stages_done[number]);
    if (status.ok()) status = Do(number);
  }
  if (status.ok()) status = EndStages(context_.stages_done[tasks]);
  if (status.ok()) status = EndStages(context_.stages);
  if (status.ok()) status = EndStep();
  if (!status.ok()) return status;
  return loss_;
}

// Behind all transfers: the next step overwrites the buffers. A lane has one
// stream, so its last transfer stands for the others. On the host a stream
// delivers gradients when it reaches their Submit, which must be before Finish.
absl::Status StepRun::EndStep() {
  for (size_t lane = 0; lane < context_.rank.lanes.size(); ++lane) {
    const plan::Lane& planned = context_.rank.lanes[lane];
    if (planned.kind != LaneKind::kPipeline || planned.transfers.empty()) {
      continue;
    }
    const int last = static_cast<int>(planned.transfers.size()) - 1;
    absl::Status over = Await({static_cast<int>(lane), last});
    if (!over.ok()) return over;
  }
  if (step_.stream == nullptr) return absl::OkStatus();
  over_ = step_.stream->Record();
  const bool on_host = !context_.executor.compute().NeedsOneOrder();
  return on_host ? over_.Wait() : absl::OkStatus();
}

// --- Transfers --------------------------------------------------------------

absl::Status StepRun::Await(TransferRef ref) {
  if (step_.stream == nullptr) return AwaitOnHost(ref);
  const absl::StatusOr<Event> over = Launched(ref);
  if (!over.ok()) return over.status();
  absl::Status waits =
      context_.executor.compute().WaitFor(*step_.stream, *over);
  if (!waits.ok()) failed_here_ = true;
  return waits.ok() ? StatusOf(ref) : waits;
}

// All earlier tasks are done, so a message that is not launched waits for the
// gradients of a stage.
absl::StatusOr<Event> StepRun::Launched(TransferRef ref) {
  absl::StatusOr<Event> over = context_.executor.Launched(ref);
  if (!absl::IsFailedPrecondition(over.status())) return over;
  failed_here_ = true;
  return absl::FailedPreconditionError(absl::StrCat(
      over.status().message(),
      ": submit all gradients of a stage before on_stage_done returns"));
}

absl::Status StepRun::AwaitOnHost(TransferRef ref) {
  const absl::StatusOr<Event> over = Launched(ref);
  if (!over.ok()) return over.status();
  context_.executor.pipeline_run().AwaitsRank(PeerIn(At(ref)));
  const absl::Status waited = over->Wait();
  context_.executor.pipeline_run().AwaitsRank(-1);
  return waited.ok() ? StatusOf(ref) : waited;
}

int StepRun::PeerIn(const Transfer& transfer) const {
  const std::vector<int>& ranks =
      context_.plan.communicators[transfer.communicator].ranks;
  if (plan::IsPointToPoint(transfer.kind)) return ranks[transfer.peer];
  if (ranks.size() != 2) return -1;
  return ranks[ranks[0] == context_.number ? 1 : 0];
}

absl::Status StepRun::StatusOf(TransferRef ref) {
  const int communicator = At(ref).communicator;
  const absl::Status status =
      context_.executor.communicator(communicator)->status();
  if (!status.ok()) failed_communicator_ = communicator;
  return status;
}

// --- Tasks ------------------------------------------------------------------

absl::Status StepRun::Do(int number) {
  const Task& task = context_.rank.tasks[number];
  context_.executor.pipeline_run().At(task);
  for (TransferRef ref : task.after) {
    if (absl::Status s = Await(ref); !s.ok()) return Within(task, s);
  }
  context_.executor.Advance();
  const absl::Status computed = Within(task, Compute(number, task));
  failed_here_ = !computed.ok();
  return computed.ok() ? MarkFollowers(number) : computed;
}

absl::Status StepRun::MarkFollowers(int number) {
  tasks_done_ = number + 1;
  const Event computed =
      step_.stream == nullptr ? Event() : step_.stream->Record();
  for (TransferRef ref : context_.followers[number]) {
    absl::Status ready = context_.executor.MarkReady(ref, computed);
    if (!ready.ok()) return ready;
  }
  context_.executor.Advance();
  return absl::OkStatus();
}

absl::Status StepRun::Compute(int number, const Task& task) {
  PipelineStage& stage = StageOf(task);
  const int m = task.micro_batch;
  if (task.work == Work::kForward) {
    return stage.Forward(m, InputOf(number, task), OutputOf(number, task));
  }
  const std::vector<TensorView> gradient = OutputGradientOf(task);
  if (GivesInputGradient(task.work)) {
    if (task.stage == context_.last_stage) {
      if (absl::Status s = ComputeLoss(task, gradient); !s.ok()) return s;
    }
    absl::Status s =
        stage.BackwardInput(m, gradient, InputGradientOf(number, task));
    if (!s.ok()) return s;
  }
  if (!EndsMicroBatch(task.work)) return absl::OkStatus();
  return stage.BackwardWeight(m, gradient);
}

absl::Status StepRun::ComputeLoss(const Task& task,
                                  const std::vector<TensorView>& gradient) {
  const absl::StatusOr<double> loss = step_.loss->Loss(
      task.micro_batch, context_.handoffs.Output(task.stage, task.micro_batch),
      gradient);
  if (!loss.ok()) return loss.status();
  const double weight = WeightOf(task.micro_batch);
  loss_ += weight * *loss;
  return Weigh(gradient, weight);
}

absl::Status StepRun::Weigh(const std::vector<TensorView>& gradient,
                            double weight) {
  if (weight == 1) return absl::OkStatus();
  const bool at_once = step_.stream == nullptr;
  return context_.executor.compute().Perform(
      step_.stream, [gradient, weight, at_once](
                        transport::DeviceContext::KernelQueue& kernel_queue) {
        for (const TensorView& part : gradient) {
          kernel_queue.Scale(part.data, part.type.dtype, weight,
                             static_cast<size_t>(part.elements()));
        }
        absl::Status status = kernel_queue.status();
        if (status.ok() && at_once) status = kernel_queue.Done().Wait();
        return status;
      });
}

absl::Status StepRun::EndStages(const std::vector<int>& stages) {
  for (const int stage : stages) {
    if (absl::Status s = EndStage(stage); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Collectives sum shared gradients; waits for those that are launched. In one
// order with gradients one may be behind those that the caller submits when it
// is told of this stage.
absl::Status StepRun::EndStage(int stage) {
  if (!ended_.insert(stage).second) return absl::OkStatus();
  for (size_t lane = 0; lane < context_.rank.lanes.size(); ++lane) {
    const plan::Lane& planned = context_.rank.lanes[lane];
    if (planned.kind != LaneKind::kPipeline) continue;
    for (size_t i = 0; i < planned.transfers.size(); ++i) {
      const Transfer& transfer = planned.transfers[i];
      const TransferRef ref{static_cast<int>(lane), static_cast<int>(i)};
      const bool is_ready = transfer.after_task < tasks_done_;
      if (IsPointToPoint(transfer.kind) || !is_ready) continue;
      const absl::StatusOr<Event> launched = context_.executor.Launched(ref);
      if (absl::IsFailedPrecondition(launched.status())) continue;
      if (absl::Status s = Await(ref); !s.ok()) return s;
    }
  }
  absl::Status done;
  if (step_.on_stage_done) done = step_.on_stage_done(stage);
  failed_here_ = !done.ok();
  return done;
}

// --- The tensors of a task --------------------------------------------------

std::vector<TensorView> StepRun::InputOf(int number, const Task& task) const {
  if (context_.handoffs.Has(task.stage - 1)) {
    return context_.handoffs.Output(task.stage - 1, task.micro_batch);
  }
  return context_.buffers.BroughtTo(number);
}

std::vector<TensorView> StepRun::OutputOf(int number, const Task& task) const {
  if (context_.handoffs.Has(task.stage)) {
    return context_.handoffs.Output(task.stage, task.micro_batch);
  }
  return context_.buffers.SentFrom(number);
}

std::vector<TensorView> StepRun::OutputGradientOf(const Task& task) const {
  if (context_.handoffs.Has(task.stage)) {
    return context_.handoffs.Gradient(task.stage, task.micro_batch);
  }
  return context_.buffers.BroughtTo(
      gradient_task_[task.stage][task.micro_batch]);
}

std::vector<TensorView> StepRun::InputGradientOf(int number,
                                                 const Task& task) const {
  if (context_.handoffs.Has(task.stage - 1)) {
    return context_.handoffs.Gradient(task.stage - 1, task.micro_batch);
  }
  return context_.buffers.SentFrom(number);
}

PipelineStage& StepRun::StageOf(const Task& task) const {
  const auto found =
      std::find(context_.stages.begin(), context_.stages.end(), task.stage);
  return *step_.stages[found - context_.stages.begin()];
}

double StepRun::WeightOf(int micro_batch) const {
  if (!step_.weights.empty()) return step_.weights[micro_batch];
  return 1.0 / context_.spec.micro_batches;
}

}  // namespace lockstep::pipeline
