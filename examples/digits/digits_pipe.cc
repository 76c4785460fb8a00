// One worker of the digits job as a pipeline: run it under `lockstepctl run`
// with a spec whose mesh has the axes data and pipe, and a pipeline.
//
//   worker 0  conv1 conv2 ─▶ worker 1  conv3 dense ...     replica 0
//   worker 2  conv1 conv2 ─▶ worker 3  conv3 dense ...     replica 1
//
// Each replica trains on its share of every step's samples, micro-batch by
// micro-batch; the gradients of a stage are added up over the replicas.

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "examples/digits/dataset.h"
#include "examples/digits/flags.h"
#include "examples/digits/network_stage.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/sgd.h"
#include "examples/digits/stages.h"
#include "examples/digits/weights_file.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/pipeline.h"
#include "lockstep/samples.h"
#include "lockstep/session.h"
#include "plan/pipeline/shape.h"

namespace lockstep::digits {
namespace {

class PipelineWorker {
 public:
  PipelineWorker(const TrainingFlags& flags, Session& session)
      : flags_(flags),
        session_(session),
        shape_(plan::ShapeOf(session.spec().pipeline, session.spec().mesh)),
        place_(session.rank() % shape_.ranks),
        replica_(session.rank() / shape_.ranks),
        replicas_(session.world_size() / shape_.ranks) {}

  absl::Status Train() {
    absl::Status ready = ReadData();
    if (ready.ok()) ready = MakeStages();
    if (ready.ok()) ready = Connect();
    if (!ready.ok()) return ready;
    Sgd<double> sgd(flags_.recipe.sgd, parameters_);
    const ProgressReport report(flags_.recipe.steps, flags_.machine_progress);
    bool was_last = false;
    for (int64_t s = 0; s < flags_.recipe.steps && !was_last; ++s) {
      const absl::StatusOr<double> loss = Compute(s);
      if (!loss.ok()) return loss.status();
      const auto verdict = sync_->Finish({.samples = SamplesHere()});
      if (!verdict.ok()) return verdict.status();
      if (verdict->finite) sgd.Update();
      was_last = verdict->IsLast();
      // The first replica's share, as if the others' were the same.
      if (replica_ == 0 && HasLastStage()) report.Passed(s, *loss * replicas_);
    }
    pipeline_.reset();
    if (flags_.save.empty()) return absl::OkStatus();
    return WriteWeights(flags_.save, Snapshot<double>(parameters_));
  }

 private:
  absl::Status ReadData() {
    absl::StatusOr<Dataset> dataset = ParseDigits(EmbeddedCsv());
    if (!dataset.ok()) return dataset.status();
    dataset_ = *std::move(dataset);
    absl::StatusOr<Split> split = SplitRows(static_cast<int>(dataset_.size()));
    if (!split.ok()) return split.status();
    train_ = split->train;
    const int64_t batch = flags_.recipe.global_batch;
    if (batch % (replicas_ * shape_.micro_batches) != 0) {
      return absl::InvalidArgumentError(
          "the batch does not divide into replicas and micro-batches");
    }
    micro_batch_size_ = batch / replicas_ / shape_.micro_batches;
    return absl::OkStatus();
  }

  absl::Status MakeStages() {
    absl::StatusOr<std::unique_ptr<GradientSync>> sync =
        GradientSync::Create(session_);
    if (!sync.ok()) return sync.status();
    sync_ = *std::move(sync);
    for (int chunk = 0; chunk < shape_.virtual_stages; ++chunk) {
      const int stage = StageOf(shape_, place_, chunk);
      stages_.push_back(std::make_unique<NetworkStage>(
          flags_.recipe.seed, stage, shape_.stages(),
          [this](int m) { return Images<double>(dataset_, RowsOf(m)); }));
      for (Parameter<double>* p : stages_.back()->network().parameters()) {
        absl::StatusOr<ParameterId> id = sync_->Register({.name = p->name(),
                                                          .shape = p->shape(),
                                                          .dtype = DType::kF64,
                                                          .op = ReduceOp::kSum,
                                                          .axes = {"data"},
                                                          .stage = stage});
        if (!id.ok()) return id.status();
        ids_[p] = *id;
        parameters_.push_back(p);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Connect() {
    if (absl::Status sealed = sync_->Seal(); !sealed.ok()) return sealed;
    const auto bind = [this] {
      for (const auto& [parameter, id] : ids_) {
        parameter->BindGradient(sync_->Gradient<double>(id).data());
      }
    };
    sync_->OnMoved(bind);
    bind();
    auto pipeline = Pipeline::Create(session_);
    if (!pipeline.ok()) return pipeline.status();
    pipeline_ = *std::move(pipeline);
    return absl::OkStatus();
  }

  absl::StatusOr<double> Compute(int64_t step) {
    const SampleStream stream{
        .seed = flags_.recipe.seed,
        .dataset_size = static_cast<int64_t>(train_.size()),
        .global_batch = flags_.recipe.global_batch};
    rows_.clear();
    for (const int64_t s : ShareOfStep(stream, step, replica_, replicas_)) {
      rows_.push_back(train_[s]);
    }
    const int last = shape_.stages() - 1;
    DigitsLoss loss([this](int m) { return Labels(dataset_, RowsOf(m)); },
                    flags_.recipe.global_batch);
    PipelineStep work{
        .loss = &loss,
        .output = {{{DType::kF64,
                     {micro_batch_size_,
                      OutputOfStage(last, shape_.stages()).size()}}}},
        // The loss is a part of the batch's mean already.
        .weights = std::vector<double>(shape_.micro_batches, 1)};
    for (const auto& stage : stages_) {
      stage->network().ZeroGradients();
      work.stages.push_back(stage.get());
    }
    work.on_stage_done = [this](int stage) { return Submit(stage); };
    return pipeline_->Run(work);
  }

  absl::Status Submit(int stage) {
    const std::vector<int>& here = pipeline_->stages();
    const auto place = std::find(here.begin(), here.end(), stage);
    NetworkStage& done = *stages_[place - here.begin()];
    for (Parameter<double>* parameter : done.network().parameters()) {
      absl::Status s = sync_->Submit(ids_.at(parameter));
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  std::vector<int> RowsOf(int micro_batch) const {
    const auto first = rows_.begin() + micro_batch * micro_batch_size_;
    return {first, first + micro_batch_size_};
  }
  bool HasLastStage() const {
    return RankOf(shape_, shape_.stages() - 1) == place_;
  }
  // Those of the replica, counted by one of its ranks.
  double SamplesHere() const {
    return HasLastStage() ? static_cast<double>(rows_.size()) : 0;
  }

  const TrainingFlags& flags_;
  Session& session_;
  const plan::ScheduleShape shape_;
  const int place_;  // in the pipeline
  const int replica_;
  const int replicas_;
  Dataset dataset_;
  std::vector<int> train_;
  std::vector<int> rows_;  // of this step
  int64_t micro_batch_size_ = 0;
  std::vector<std::unique_ptr<NetworkStage>> stages_;
  std::vector<Parameter<double>*> parameters_;
  std::map<Parameter<double>*, ParameterId> ids_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<Pipeline> pipeline_;
};

absl::Status Run(const TrainingFlags& flags) {
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Join({});
  if (!session.ok()) return session.status();
  if (!plan::HasPipeline((*session)->spec().pipeline)) {
    return absl::InvalidArgumentError("the job's spec has no pipeline");
  }
  absl::Status trained = PipelineWorker(flags, **session).Train();
  if (!trained.ok()) return trained;
  return (*session)->Leave();
}

int Main(int argc, char** argv) {
  TrainingFlags flags;
  CLI::App app("A worker that trains a part of the digits' network.",
               "digits_pipe");
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits_pipe: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
