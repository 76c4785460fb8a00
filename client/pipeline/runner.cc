#include "client/pipeline/runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/pipeline/step_run.h"
#include "plan/pipeline/stages.h"
#include "plan/schedule/pipeline_shape.h"
#include "plan/shard.h"

namespace lockstep::pipeline {

absl::StatusOr<std::unique_ptr<Runner>> Runner::Create(RunnerOptions options) {
  if (options.plan->ranks[options.rank].tasks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the plan has no tasks for rank %d", options.rank));
  }
  std::unique_ptr<Runner> made(new Runner(std::move(options)));
  if (absl::Status ready = made->Prepare(); !ready.ok()) return ready;
  return made;
}

Runner::Runner(RunnerOptions options)
    : options_(std::move(options)),
      mine_(options_.plan->ranks[options_.rank]) {}

Runner::~Runner() {
  options_.executor->SetOwner(plan::LaneKind::kPipeline, nullptr);
  AwaitLastRun();
}

void Runner::AwaitLastRun() { last_run_.Wait().IgnoreError(); }

absl::Status Runner::Prepare() {
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
  FindFollowers();
  options_.executor->SetOwner(plan::LaneKind::kPipeline, this);
  options_.executor->pipeline_run().Require();
  return absl::OkStatus();
}

void Runner::FindStageEnds() {
  stages_done_.resize(mine_.tasks.size() + 1);
  std::set<int> done;
  int tasks = 0;  // tasks before this position of the launch order
  for (plan::TransferRef ref : mine_.launch_order) {
    const plan::Transfer& transfer = mine_.lanes[ref.lane].transfers[ref.index];
    tasks = std::max(tasks, transfer.after_task + 1);
    if (transfer.bucket < 0 ||
        plan::GathersParameters(*options_.plan, transfer)) {
      continue;
    }
    const int stage =
        plan::StageOf(*options_.plan, options_.plan->buckets[transfer.bucket]);
    if (stage >= 0 && done.insert(stage).second) {
      stages_done_[tasks].push_back(stage);
    }
  }
}

void Runner::FindFollowers() {
  followers_.resize(mine_.tasks.size());
  for (size_t lane = 0; lane < mine_.lanes.size(); ++lane) {
    if (mine_.lanes[lane].kind != plan::LaneKind::kPipeline) continue;
    const std::vector<plan::Transfer>& transfers = mine_.lanes[lane].transfers;
    for (size_t i = 0; i < transfers.size(); ++i) {
      if (transfers[i].after_task < 0) continue;
      followers_[transfers[i].after_task].push_back(
          {static_cast<int>(lane), static_cast<int>(i)});
    }
  }
}

absl::Status Runner::Judge(const Step& step) const {
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
    const absl::Status kind =
        options_.executor->compute().CheckStream(*step.stream);
    if (!kind.ok()) return refuse(std::string(kind.message()));
    if (options_.executor->compute().Captures(*step.stream)) {
      return refuse(
          "a CUDA graph cannot hold a pipeline's step, in which the "
          "host has a part");
    }
  }
  const bool first = stages_.front() == 0;
  const size_t shared = last || first ? spec.shared.size() : 0;
  // A rank with both ends adds the gradients up itself and uses no views.
  const bool may_be_absent = last && first && step.shared.empty();
  if (step.shared.size() != shared && !may_be_absent) {
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

absl::Status Runner::JudgeShared(const Step& step) const {
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

absl::StatusOr<double> Runner::Run(const Step& step) {
  if (absl::Status failed = failure(); !failed.ok()) return failed;
  if (absl::Status wrong = Judge(step); !wrong.ok()) return wrong;
  executor::PipelineRun& pipeline_run = options_.executor->pipeline_run();
  if (absl::Status may = pipeline_run.Begin(); !may.ok()) return may;
  const absl::Cleanup end = [&pipeline_run] { pipeline_run.End(); };
  absl::Status made =
      handoffs_->Prepare(step.output, last_run_, options_.allocate);
  if (!made.ok()) return Report(made);
  {
    MutexLock lock(&mutex_);
    failed_communicator_ = -1;
    failed_to_launch_ = false;
  }
  StepRun run({.plan = *options_.plan,
               .number = options_.rank,
               .rank = mine_,
               .spec = options_.plan->pipeline,
               .stages = stages_,
               .last_stage = last_stage_,
               .buffers = *buffers_,
               .handoffs = *handoffs_,
               .stages_done = stages_done_,
               .followers = followers_,
               .executor = *options_.executor},
              step);
  step_ = &step;
  const absl::Status begun = BeginBehindLastRun(step.stream);
  const absl::StatusOr<double> loss =
      begun.ok() ? run.Run() : absl::StatusOr<double>(begun);
  options_.executor->EndRun();
  if (begun.ok()) last_run_ = run.over();
  if (loss.ok()) return loss;
  int communicator = run.failed_communicator();
  bool failed_here = run.failed_here() || !begun.ok();
  {
    MutexLock lock(&mutex_);
    if (communicator < 0) communicator = failed_communicator_;
    failed_here |= failed_to_launch_;
  }
  absl::Status error = loss.status();
  if (!failed_here && absl::IsAborted(error)) {
    int culprit = -1;
    const absl::Status cause = options_.executor->FirstError(&culprit);
    if (!cause.ok() && !absl::IsAborted(cause)) {
      communicator = culprit;
      error = cause;
    }
  }
  error = failed_here ? Report(error) : Explained(communicator, error);
  // Launched transfers still use the buffers: abort them, then wait for them.
  Abort(error);
  Drain(step.stream);
  if (!begun.ok()) AwaitLastRun();
  return failure();
}

absl::Status Runner::BeginBehindLastRun(Stream* stream) {
  absl::Status begun;
  if (stream == nullptr) {
    AwaitLastRun();
  } else {
    begun = options_.executor->compute().WaitFor(*stream, last_run_);
  }
  options_.executor->BeginRun(last_run_);
  return begun;
}

void Runner::Drain(Stream* stream) {
  if (stream != nullptr) stream->Record().Wait().IgnoreError();
  for (size_t lane = 0; lane < mine_.lanes.size(); ++lane) {
    if (mine_.lanes[lane].kind != plan::LaneKind::kPipeline) continue;
    options_.executor->Synchronize(static_cast<int>(lane));
  }
}

void Runner::Abort(const absl::Status& cause) {
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = cause;
  }
  for (const plan::Lane& lane : mine_.lanes) {
    if (lane.kind != plan::LaneKind::kPipeline || lane.transfers.empty()) {
      continue;
    }
    // A lane has one communicator.
    options_.executor->communicator(lane.transfers[0].communicator)
        ->Abort(std::string(cause.message()));
  }
}

// --- As owner of the lanes --------------------------------------------------

// The collectives of a pipeline lane sum the gradients of shared parameters, in
// the order of those parameters.
executor::Operands Runner::OperandsOf(plan::TransferRef ref,
                                      const plan::Transfer& transfer) {
  void* const data = IsPointToPoint(transfer.kind)
                         ? buffers_->At(transfer).data
                         : step_->shared[ref.index].data;
  return {data, data};
}

void Runner::Failed(const plan::Transfer&, int communicator,
                    const absl::Status&) {
  MutexLock lock(&mutex_);
  failed_communicator_ = communicator;
  failed_to_launch_ = communicator < 0;
}

absl::Status Runner::Report(const absl::Status& error) {
  if (failure().ok() && options_.on_failure) options_.on_failure(error);
  return error;
}

absl::Status Runner::Explained(int communicator, const absl::Status& error) {
  if (absl::Status known = failure(); !known.ok()) return known;
  return options_.explain ? options_.explain(communicator, error) : error;
}

absl::Status Runner::failure() {
  MutexLock lock(&mutex_);
  return failure_;
}

absl::StatusOr<std::shared_ptr<const executor::Program>> PipelineProgram(
    std::shared_ptr<const plan::Plan> plan, int rank,
    const executor::Executor& executor) {
  using executor::LaneRun;
  return executor::Program::Create(
      std::move(plan), rank,
      {.run_of =
           [](const plan::Lane& lane) {
             return lane.kind == plan::LaneKind::kPipeline ? LaneRun::kStream
                                                           : LaneRun::kNone;
           },
       .pending_of =
           [](const plan::Lane&, const plan::Transfer& transfer) {
             return transfer.after_task >= 0 ? 1 : 0;
           },
       .one_order = executor.compute().NeedsOneOrder()});
}

}  // namespace lockstep::pipeline
