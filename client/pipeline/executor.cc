#include "client/pipeline/executor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/pipeline/walk.h"
#include "plan/pipeline/shape.h"
#include "plan/pipeline/stages.h"
#include "plan/shard.h"

namespace lockstep::pipeline {

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    ExecutorOptions options) {
  if (options.plan->ranks[options.rank].tasks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the plan has no tasks for rank %d", options.rank));
  }
  std::unique_ptr<Executor> made(new Executor(std::move(options)));
  if (absl::Status ready = made->Prepare(); !ready.ok()) return ready;
  return made;
}

Executor::Executor(ExecutorOptions options)
    : options_(std::move(options)),
      mine_(options_.plan->ranks[options_.rank]) {}

Executor::~Executor() = default;

absl::Status Executor::Prepare() {
  if (absl::Status order = CheckOrder(); !order.ok()) return order;
  std::set<int> stages;
  for (const plan::Task& task : mine_.tasks) stages.insert(task.stage);
  stages_.assign(stages.begin(), stages.end());
  const plan::ScheduleShape shape =
      plan::ShapeOf(options_.plan->pipeline, options_.plan->mesh);
  last_stage_ = shape.stages() - 1;
  absl::StatusOr<std::unique_ptr<Buffers>> buffers =
      Buffers::Create(mine_, options_.allocate);
  if (!buffers.ok()) return buffers.status();
  buffers_ = *std::move(buffers);
  handoffs_ = std::make_unique<Handoffs>(mine_, options_.plan->pipeline,
                                         shape.stages());
  FindStageEnds();
  return MakeStreams();
}

absl::Status Executor::CheckOrder() const {
  const auto check = [this](const std::string& what,
                            const std::vector<plan::TransferRef>& after) {
    for (const plan::TransferRef& ref : after) {
      const plan::Lane& lane = mine_.lanes[ref.lane];
      if (lane.kind == plan::LaneKind::kPipeline) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s comes after transfer %d of lane %s, which the pipeline does not "
          "run",
          what, ref.index, lane.name));
    }
    return absl::OkStatus();
  };
  for (const plan::Task& task : mine_.tasks) {
    absl::Status order = check(Describe(task), task.after);
    if (!order.ok()) return order;
  }
  for (const plan::Lane& lane : mine_.lanes) {
    if (lane.kind != plan::LaneKind::kPipeline) continue;
    for (const plan::Transfer& transfer : lane.transfers) {
      absl::Status order =
          check(absl::StrFormat("%s in lane %s", Describe(transfer), lane.name),
                transfer.after);
      if (!order.ok()) return order;
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::MakeStreams() {
  for (const plan::Lane& lane : mine_.lanes) {
    streams_.push_back(nullptr);
    if (lane.kind != plan::LaneKind::kPipeline) continue;
    auto stream = options_.compute->MakeStream("ls-" + lane.name);
    if (!stream.ok()) return stream.status();
    streams_.back() = *std::move(stream);
  }
  return absl::OkStatus();
}

void Executor::FindStageEnds() {
  const std::vector<plan::TransferRef>& order = mine_.launch_order;
  stage_done_at_.assign(order.size(), -1);
  std::set<int> done;
  for (size_t place = 0; place < order.size(); ++place) {
    const plan::Transfer& transfer =
        mine_.lanes[order[place].lane].transfers[order[place].index];
    if (transfer.bucket < 0 ||
        plan::GathersParameters(*options_.plan, transfer)) {
      continue;
    }
    const int stage =
        plan::StageOf(*options_.plan, options_.plan->buckets[transfer.bucket]);
    if (stage >= 0 && done.insert(stage).second) stage_done_at_[place] = stage;
  }
}

absl::Status Executor::Judge(const Step& step) const {
  const auto refuse = [](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("Pipeline::Run: ", why));
  };
  if (step.stages.size() != stages_.size()) {
    return refuse(absl::StrFormat("%d stages are given, the rank has %d",
                                  step.stages.size(), stages_.size()));
  }
  const PipelineSpec& spec = options_.plan->pipeline;
  const size_t micro_batches = static_cast<size_t>(spec.micro_batches);
  if (!step.weights.empty() && step.weights.size() != micro_batches) {
    return refuse(absl::StrFormat("%d weights of %d micro-batches",
                                  step.weights.size(), micro_batches));
  }
  const bool last = stages_.back() == last_stage_;
  if (last && (step.loss == nullptr || step.output.parts.empty())) {
    return refuse("the rank of the last stage has no loss or no output type");
  }
  if (step.stream != nullptr) {
    const absl::Status kind = options_.compute->CheckStream(*step.stream);
    if (!kind.ok()) return refuse(std::string(kind.message()));
    if (options_.compute->Captures(*step.stream)) {
      return refuse(
          "a CUDA graph cannot hold a pipeline's step, in which the "
          "host has a part");
    }
  }
  const bool shares = last || stages_.front() == 0;
  const size_t shared = shares ? spec.shared.size() : 0;
  if (step.shared.size() != shared) {
    return refuse(
        absl::StrFormat("%d shared gradients are given, the rank has "
                        "%d",
                        step.shared.size(), shared));
  }
  for (size_t i = 0; i < step.stages.size(); ++i) {
    if (step.stages[i] == nullptr) {
      return refuse(absl::StrFormat("stage %d is null", stages_[i]));
    }
  }
  return JudgeShared(step);
}

absl::Status Executor::JudgeShared(const Step& step) const {
  for (const plan::Lane& lane : mine_.lanes) {
    if (lane.kind != plan::LaneKind::kPipeline) continue;
    for (size_t i = 0; i < lane.transfers.size(); ++i) {
      const plan::Transfer& sum = lane.transfers[i];
      if (IsPointToPoint(sum.kind)) continue;
      const TensorView& given = step.shared[i];
      const bool there = given.data != nullptr || given.elements() == 0;
      if (there && given.type.dtype == sum.dtype &&
          given.elements() == plan::CountOf(sum)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrFormat(
          "Pipeline::Run: the shared gradient of %s has %d elements of %s%s; "
          "the plan has %d of %s",
          options_.plan->pipeline.shared[i], given.elements(),
          Name(given.type.dtype), there ? "" : " at no address",
          plan::CountOf(sum), Name(sum.dtype)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Executor::Run(const Step& step) {
  if (absl::Status failed = failure(); !failed.ok()) return failed;
  if (absl::Status wrong = Judge(step); !wrong.ok()) return wrong;
  absl::Status made = handoffs_->Prepare(step.output, options_.allocate);
  if (!made.ok()) return Report(made);
  Walk walk({.rank = mine_,
             .spec = options_.plan->pipeline,
             .stages = stages_,
             .last_stage = last_stage_,
             .buffers = *buffers_,
             .handoffs = *handoffs_,
             .communicators = options_.communicators,
             .streams = streams_,
             .stage_done_at = stage_done_at_,
             .compute = *options_.compute,
             .await_gradients = options_.await_gradients,
             .launched = options_.launched.get()},
            step);
  if (options_.launched != nullptr) options_.launched->BeginRun();
  absl::StatusOr<double> loss = walk.Run();
  if (options_.launched != nullptr) options_.launched->EndRun();
  if (loss.ok()) return loss;
  const absl::Status error =
      walk.failed_in_callback()
          ? Report(loss.status())
          : Explained(walk.failed_communicator(), loss.status());
  // What was launched still uses the buffers: end it, then wait for it.
  Abort(error);
  walk.Drain();
  return failure();
}

void Executor::Abort(const absl::Status& cause) {
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = cause;
  }
  for (size_t lane = 0; lane < mine_.lanes.size(); ++lane) {
    if (streams_[lane] == nullptr) continue;
    for (const plan::Transfer& transfer : mine_.lanes[lane].transfers) {
      options_.communicators[transfer.communicator]->Abort(
          std::string(cause.message()));
      break;  // a lane has one communicator
    }
  }
}

absl::Status Executor::Report(const absl::Status& error) {
  if (failure().ok() && options_.on_failure) options_.on_failure(error);
  return error;
}

absl::Status Executor::Explained(int communicator, const absl::Status& error) {
  if (absl::Status known = failure(); !known.ok()) return known;
  return options_.explain ? options_.explain(communicator, error) : error;
}

absl::Status Executor::failure() {
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace lockstep::pipeline
