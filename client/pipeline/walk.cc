#include "client/pipeline/walk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/device_stream.h"

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

Walk::Walk(const WalkGround& ground, const Step& step)
    : ground_(ground), step_(step) {
  for (const plan::Lane& lane : ground_.rank.lanes) {
    done_.emplace_back(lane.transfers.size());
  }
  computed_.resize(ground_.rank.tasks.size());
  gradient_task_.assign(ground_.last_stage + 1,
                        std::vector<int>(ground_.spec.micro_batches, -1));
  for (size_t i = 0; i < ground_.rank.tasks.size(); ++i) {
    const Task& task = ground_.rank.tasks[i];
    if (GivesInputGradient(task.work)) {
      gradient_task_[task.stage][task.micro_batch] = static_cast<int>(i);
    }
  }
}

absl::StatusOr<double> Walk::Run() {
  const int tasks = static_cast<int>(ground_.rank.tasks.size());
  for (int number = 0; number < tasks; ++number) {
    absl::Status status = LaunchReady(number);
    if (status.ok()) status = Do(number);
    if (!status.ok()) return status;
  }
  absl::Status status = LaunchReady(tasks);
  for (const int stage : ground_.stages) {
    if (status.ok()) status = EndStage(stage);
  }
  if (status.ok()) status = EndStep();
  if (!status.ok()) return status;
  return loss_;
}

// The next step fills the buffers again.
absl::Status Walk::EndStep() {
  for (size_t lane = 0; lane < done_.size(); ++lane) {
    for (size_t i = 0; i < done_[lane].size(); ++i) {
      absl::Status over =
          AwaitOnHost({static_cast<int>(lane), static_cast<int>(i)});
      if (!over.ok()) return over;
    }
  }
  if (step_.stream == nullptr) return absl::OkStatus();
  return step_.stream->Record().Wait();
}

void Walk::Drain() {
  if (step_.stream != nullptr) step_.stream->Record().Wait().IgnoreError();
  for (const std::unique_ptr<Stream>& stream : ground_.streams) {
    if (stream != nullptr) stream->Synchronize().IgnoreError();
  }
}

// --- Transfers --------------------------------------------------------------

std::vector<TransferRef> Walk::UnitAt(size_t place) const {
  const std::vector<TransferRef>& order = ground_.rank.launch_order;
  std::vector<TransferRef> unit = {order[place]};
  const int group = At(order[place]).group;
  while (group != 0 && ++place < order.size() &&
         order[place].lane == unit[0].lane && At(order[place]).group == group) {
    unit.push_back(order[place]);
  }
  return unit;
}

absl::Status Walk::LaunchReady(int tasks_done) {
  const std::vector<TransferRef>& order = ground_.rank.launch_order;
  while (next_ < order.size()) {
    const std::vector<TransferRef> unit = UnitAt(next_);
    for (const TransferRef& ref : unit) {
      if (At(ref).after_task >= tasks_done) return absl::OkStatus();
    }
    // The gradient lane is another's: it is told where its turn is.
    const bool ours = ground_.streams[unit[0].lane] != nullptr;
    const absl::Status launched =
        ours ? LaunchUnit(unit) : EndStage(ground_.stage_done_at[next_]);
    if (!launched.ok()) return launched;
    next_ += unit.size();
  }
  return absl::OkStatus();
}

absl::Status Walk::LaunchUnit(const std::vector<TransferRef>& unit) {
  Stream& stream = *ground_.streams[unit[0].lane];
  for (const TransferRef& ref : unit) {
    for (const TransferRef& earlier : At(ref).after) {
      stream.WaitFor(done_[earlier.lane][earlier.index]);
    }
    if (At(ref).after_task >= 0) stream.WaitFor(computed_[At(ref).after_task]);
  }
  Communicator& communicator = *ground_.communicators[At(unit[0]).communicator];
  std::vector<executor::PlannedTransfer> planned;
  for (const TransferRef& ref : unit) {
    planned.push_back({&At(ref), OperandsOf(At(ref), ref.index)});
  }
  const absl::Status launched =
      executor::EnqueueTogether(planned, communicator, stream);
  if (!launched.ok()) {
    failed_communicator_ = At(unit[0]).communicator;
    return launched;
  }
  const Event done = stream.Record();
  for (const TransferRef& ref : unit) {
    done_[ref.lane][ref.index] = done;
    if (ground_.launched != nullptr) ground_.launched->MarkLaunched(ref, done);
  }
  return absl::OkStatus();
}

// The collectives of a pipeline lane are the sums of shared parameters'
// gradients, in their order.
executor::Operands Walk::OperandsOf(const Transfer& transfer, int index) const {
  if (IsPointToPoint(transfer.kind)) {
    void* const data = ground_.buffers.At(transfer).data;
    return {data, data};
  }
  return {step_.shared[index].data, step_.shared[index].data};
}

absl::Status Walk::Await(const TransferRef& ref) {
  if (step_.stream == nullptr) return AwaitOnHost(ref);
  if (ground_.streams[ref.lane] == nullptr) return absl::OkStatus();
  step_.stream->WaitFor(done_[ref.lane][ref.index]);
  return StatusOf(ref);
}

absl::Status Walk::AwaitOnHost(const TransferRef& ref) {
  if (ground_.streams[ref.lane] == nullptr) return absl::OkStatus();
  const absl::Status waited = done_[ref.lane][ref.index].Wait();
  return waited.ok() ? StatusOf(ref) : waited;
}

absl::Status Walk::StatusOf(const TransferRef& ref) {
  const int communicator = At(ref).communicator;
  const absl::Status status = ground_.communicators[communicator]->status();
  if (!status.ok()) failed_communicator_ = communicator;
  return status;
}

absl::Status Walk::AwaitQueued() {
  auto* const device = dynamic_cast<DeviceStream*>(step_.stream);
  return device == nullptr ? absl::OkStatus() : device->AwaitQueued();
}

// --- Tasks ------------------------------------------------------------------

absl::Status Walk::Do(int number) {
  const Task& task = ground_.rank.tasks[number];
  for (const TransferRef& ref : task.after) {
    if (absl::Status s = Await(ref); !s.ok()) return Within(task, s);
  }
  if (absl::Status s = AwaitQueued(); !s.ok()) return Within(task, s);
  const absl::Status computed = Within(task, Compute(number, task));
  failed_in_callback_ = !computed.ok();
  if (step_.stream != nullptr) computed_[number] = step_.stream->Record();
  return computed;
}

absl::Status Walk::Compute(int number, const Task& task) {
  PipelineStage& stage = StageOf(task);
  const int m = task.micro_batch;
  if (task.work == Work::kForward) {
    return stage.Forward(m, InputOf(number, task), OutputOf(number, task));
  }
  const std::vector<TensorView> gradient = OutputGradientOf(task);
  if (GivesInputGradient(task.work)) {
    if (task.stage == ground_.last_stage) {
      if (absl::Status s = ComputeLoss(task, gradient); !s.ok()) return s;
    }
    absl::Status s =
        stage.BackwardInput(m, gradient, InputGradientOf(number, task));
    if (!s.ok()) return s;
  }
  if (!EndsMicroBatch(task.work)) return absl::OkStatus();
  return stage.BackwardWeight(m, gradient);
}

absl::Status Walk::ComputeLoss(const Task& task,
                               const std::vector<TensorView>& gradient) {
  const absl::StatusOr<double> loss = step_.loss->Loss(
      task.micro_batch, ground_.handoffs.Output(task.stage, task.micro_batch),
      gradient);
  if (!loss.ok()) return loss.status();
  const double weight = WeightOf(task.micro_batch);
  loss_ += weight * *loss;
  return Weigh(gradient, weight);
}

absl::Status Walk::Weigh(const std::vector<TensorView>& gradient,
                         double weight) {
  if (weight == 1) return absl::OkStatus();
  const bool at_once = step_.stream == nullptr;
  return ground_.compute.Perform(
      step_.stream,
      [gradient, weight, at_once](transport::Compute::Site& site) {
        for (const TensorView& part : gradient) {
          site.Scale(part.data, part.type.dtype, weight,
                     static_cast<size_t>(part.elements()));
        }
        absl::Status status = site.status();
        if (status.ok() && at_once) status = site.Done().Wait();
        return status;
      });
}

// Collectives are the sums of shared gradients: those that are launched.
absl::Status Walk::EndStage(int stage) {
  if (stage < 0 || !ended_.insert(stage).second) return absl::OkStatus();
  for (size_t lane = 0; lane < ground_.rank.lanes.size(); ++lane) {
    const std::vector<Transfer>& transfers = ground_.rank.lanes[lane].transfers;
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (IsPointToPoint(transfers[i].kind)) continue;
      absl::Status s = Await({static_cast<int>(lane), static_cast<int>(i)});
      if (!s.ok()) return s;
    }
  }
  if (absl::Status s = AwaitQueued(); !s.ok()) return s;
  absl::Status done;
  if (step_.on_stage_done) done = step_.on_stage_done(stage);
  if (done.ok() && ground_.await_gradients) {
    done = ground_.await_gradients(stage);
  }
  failed_in_callback_ = !done.ok();
  return done;
}

// --- Where a task finds what it needs ---------------------------------------

std::vector<TensorView> Walk::InputOf(int number, const Task& task) const {
  if (ground_.handoffs.Has(task.stage - 1)) {
    return ground_.handoffs.Output(task.stage - 1, task.micro_batch);
  }
  return ground_.buffers.BroughtTo(number);
}

std::vector<TensorView> Walk::OutputOf(int number, const Task& task) const {
  if (ground_.handoffs.Has(task.stage)) {
    return ground_.handoffs.Output(task.stage, task.micro_batch);
  }
  return ground_.buffers.SentFrom(number);
}

std::vector<TensorView> Walk::OutputGradientOf(const Task& task) const {
  if (ground_.handoffs.Has(task.stage)) {
    return ground_.handoffs.Gradient(task.stage, task.micro_batch);
  }
  return ground_.buffers.BroughtTo(
      gradient_task_[task.stage][task.micro_batch]);
}

std::vector<TensorView> Walk::InputGradientOf(int number,
                                              const Task& task) const {
  if (ground_.handoffs.Has(task.stage - 1)) {
    return ground_.handoffs.Gradient(task.stage - 1, task.micro_batch);
  }
  return ground_.buffers.SentFrom(number);
}

PipelineStage& Walk::StageOf(const Task& task) const {
  const auto found =
      std::find(ground_.stages.begin(), ground_.stages.end(), task.stage);
  return *step_.stages[found - ground_.stages.begin()];
}

double Walk::WeightOf(int micro_batch) const {
  if (!step_.weights.empty()) return step_.weights[micro_batch];
  return 1.0 / ground_.spec.micro_batches;
}

}  // namespace lockstep::pipeline
