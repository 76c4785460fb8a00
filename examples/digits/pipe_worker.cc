#include "examples/digits/pipe_worker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "examples/digits/dataset.h"
#include "examples/digits/network_stage.h"
#include "examples/digits/saved_training.h"
#include "examples/digits/session_domain.h"
#include "examples/digits/sgd.h"
#include "examples/digits/stages.h"
#include "examples/digits/through_host.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/pipeline.h"
#include "lockstep/samples.h"
#include "plan/schedule/pipeline_shape.h"

namespace lockstep::digits {
namespace {

class PipelineWorker {
 public:
  PipelineWorker(const PipeWorkerOptions& options, Session& session)
      : options_(options),
        session_(session),
        shape_(plan::ShapeOf(session.spec().pipeline, session.spec().mesh)),
        place_(CoordinateOn(session.spec().pipeline.axis)),
        replica_(CoordinateOn("data")),
        replicas_(SizeOf("data")) {}

  // Work on the stream still reads and writes the message buffers.
  ~PipelineWorker() {
    if (device() != nullptr) (void)device()->stream().Synchronize();
  }
  PipelineWorker(const PipelineWorker&) = delete;
  PipelineWorker& operator=(const PipelineWorker&) = delete;

  absl::StatusOr<std::vector<NamedWeights>> Train() {
    absl::Status ready = ReadData();
    if (ready.ok() && AxisIndex(kDomainAxis) >= 0) ready = MakeDomain();
    if (ready.ok()) ready = MakeStages();
    if (ready.ok()) ready = Connect();
    if (!ready.ok()) return ready;
    Sgd<double> sgd(options_.recipe.sgd, parameters_);
    const absl::StatusOr<int64_t> first = saved_->Open(sgd);
    if (!first.ok()) return first.status();
    bool was_last = false;
    for (int64_t s = *first; s < options_.recipe.steps && !was_last; ++s) {
      const absl::StatusOr<double> loss = Compute(s);
      if (!loss.ok()) return loss.status();
      const auto verdict = sync_->Finish({.samples = SamplesHere()});
      if (!verdict.ok()) return verdict.status();
      if (absl::Status got = FetchGradients(); !got.ok()) return got;
      if (verdict->finite) sgd.Update();
      saved_->Passed(s, verdict->Holds(Command::kSave));
      was_last = verdict->IsLast();
      // The first replica's share, scaled as if all shares were equal.
      if (replica_ == 0 && ReportsReplica() && options_.after_update) {
        options_.after_update(s, *loss * replicas_);
      }
    }
    pipeline_.reset();
    if (absl::Status saved = saved_->Finish(); !saved.ok()) return saved;
    return Snapshot<double>(parameters_);
  }

 private:
  Device* device() const { return options_.device; }

  int AxisIndex(absl::string_view axis) const {
    return session_.spec().mesh.AxisIndex(axis);
  }
  int SizeOf(absl::string_view axis) const {
    return session_.spec().mesh.axes[AxisIndex(axis)].size;
  }
  int CoordinateOn(absl::string_view axis) const {
    return session_.spec().mesh.CoordinatesOf(session_.rank())[AxisIndex(axis)];
  }

  absl::Status MakeDomain() {
    if (device() != nullptr) {
      return absl::InvalidArgumentError(
          "a mesh with domain wants the layers' memory on the host");
    }
    domain_.emplace(session_, SessionDomainOptions{
                                  .batch = static_cast<int>(micro_batch_size_),
                                  .without_halos = options_.without_halos});
    for (int chunk = 0; chunk < shape_.virtual_stages; ++chunk) {
      absl::Status declared =
          domain_->Declare(StageOf(shape_, place_, chunk), shape_.stages());
      if (!declared.ok()) return declared;
    }
    return absl::OkStatus();
  }

  // Gradients of convolutions are sums over the rows of a domain; all of its
  // ranks compute those of dense layers.
  ParameterOptions OptionsOf(const Parameter<double>& parameter, int stage) {
    ParameterOptions options{.name = parameter.name(),
                             .shape = parameter.shape(),
                             .dtype = DType::kF64,
                             .op = ReduceOp::kSum,
                             .axes = {"data"},
                             .stage = stage};
    if (!domain_.has_value()) return options;
    const bool is_cut = absl::StartsWith(parameter.name(), "conv");
    (is_cut ? options.axes : options.replicated_over).push_back(kDomainAxis);
    return options;
  }

  absl::Status ReadData() {
    absl::StatusOr<Dataset> dataset = ParseDigits(EmbeddedCsv());
    if (!dataset.ok()) return dataset.status();
    dataset_ = *std::move(dataset);
    absl::StatusOr<Split> split = SplitRows(static_cast<int>(dataset_.size()));
    if (!split.ok()) return split.status();
    train_ = split->train;
    const int64_t batch = options_.recipe.global_batch;
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
    saved_.emplace(options_.save, session_, options_.recipe,
                   static_cast<int64_t>(train_.size()));
    for (int chunk = 0; chunk < shape_.virtual_stages; ++chunk) {
      const int stage = StageOf(shape_, place_, chunk);
      stages_.push_back(std::make_unique<NetworkStage>(
          options_.recipe.seed, stage, shape_.stages(),
          [this](int m) { return Images<double>(dataset_, RowsOf(m)); },
          domain_.has_value() ? &*domain_ : nullptr));
      if (device() != nullptr) {
        through_host_.push_back(
            std::make_unique<ThroughHost>(stages_.back().get(), device()));
      }
      for (Parameter<double>* p : stages_.back()->network().parameters()) {
        absl::StatusOr<ParameterId> id = sync_->Register(OptionsOf(*p, stage));
        if (!id.ok()) return id.status();
        absl::Status noted = saved_->Register(*sync_, *id, *p);
        if (!noted.ok()) return noted;
        ids_[p] = *id;
        parameters_.push_back(p);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Connect() {
    if (absl::Status sealed = sync_->Seal(); !sealed.ok()) return sealed;
    BindGradients();
    auto pipeline = Pipeline::Create(session_);
    if (!pipeline.ok()) return pipeline.status();
    pipeline_ = *std::move(pipeline);
    return absl::OkStatus();
  }

  // The host accumulates gradients in the buckets, or in memory of its own.
  void BindGradients() {
    if (device() != nullptr) return sync_->OnMoved([] {});
    const auto bind = [this] {
      for (const auto& [parameter, id] : ids_) {
        parameter->BindGradient(sync_->Gradient<double>(id)->data());
      }
    };
    sync_->OnMoved(bind);
    bind();
  }

  // Copies the reduced gradients to the host, for the optimizer.
  absl::Status FetchGradients() {
    if (device() == nullptr) return absl::OkStatus();
    for (const auto& [parameter, id] : ids_) {
      absl::Status got = device()->Download(sync_->Gradient<double>(id)->data(),
                                            parameter->gradient().data(),
                                            parameter->size() * sizeof(double));
      if (!got.ok()) return got;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> Compute(int64_t step) {
    const SampleStream stream{
        .seed = options_.recipe.seed,
        .dataset_size = static_cast<int64_t>(train_.size()),
        .global_batch = options_.recipe.global_batch};
    rows_.clear();
    for (const int64_t s : ShareOfStep(stream, step, replica_, replicas_)) {
      rows_.push_back(train_[s]);
    }
    const int last = shape_.stages() - 1;
    DigitsLoss loss([this](int m) { return Labels(dataset_, RowsOf(m)); },
                    options_.recipe.global_batch);
    LossThroughHost loss_through_host(&loss, device());
    PipelineStep work{
        .loss = &loss,
        .output = {{{DType::kF64,
                     {micro_batch_size_,
                      OutputOfStage(last, shape_.stages()).size()}}}},
        // The loss is already a part of the batch's mean.
        .weights = std::vector<double>(shape_.micro_batches, 1)};
    for (const auto& stage : stages_) {
      stage->network().ZeroGradients();
      work.stages.push_back(stage.get());
    }
    if (device() != nullptr) {
      work.loss = &loss_through_host;
      work.stream = &device()->stream();
      for (size_t i = 0; i < through_host_.size(); ++i) {
        work.stages[i] = through_host_[i].get();
      }
    }
    work.on_stage_done = [this](int stage) { return Submit(stage); };
    return pipeline_->Run(work);
  }

  absl::Status Submit(int stage) {
    const std::vector<int>& here = pipeline_->stages();
    const auto place = std::find(here.begin(), here.end(), stage);
    NetworkStage& done = *stages_[place - here.begin()];
    for (Parameter<double>* parameter : done.network().parameters()) {
      absl::Status s = Submit(*parameter, ids_.at(parameter));
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Submit(const Parameter<double>& parameter, ParameterId id) {
    if (device() == nullptr) return sync_->Submit(id);
    absl::Status put = device()->Upload(parameter.gradient().data(),
                                        sync_->Gradient<double>(id)->data(),
                                        parameter.size() * sizeof(double));
    return put.ok() ? sync_->Submit(id, device()->stream()) : put;
  }

  std::vector<int> RowsOf(int micro_batch) const {
    const auto first = rows_.begin() + micro_batch * micro_batch_size_;
    return {first, first + micro_batch_size_};
  }
  bool HasLastStage() const {
    return RankOf(shape_, shape_.stages() - 1) == place_;
  }
  // The samples of the replica, reported by one of its ranks.
  double SamplesHere() const {
    return ReportsReplica() ? static_cast<double>(rows_.size()) : 0;
  }
  bool ReportsReplica() const {
    return HasLastStage() && (!domain_.has_value() || domain_->index() == 0);
  }

  const PipeWorkerOptions& options_;
  Session& session_;
  const plan::ScheduleShape shape_;
  const int place_;  // rank in the pipeline
  const int replica_;
  const int replicas_;
  Dataset dataset_;
  std::vector<int> train_;
  std::vector<int> rows_;  // of this step
  int64_t micro_batch_size_ = 0;
  std::optional<SessionDomain> domain_;
  std::vector<std::unique_ptr<NetworkStage>> stages_;
  std::vector<std::unique_ptr<ThroughHost>> through_host_;  // for stages_
  std::vector<Parameter<double>*> parameters_;
  std::map<Parameter<double>*, ParameterId> ids_;
  std::unique_ptr<GradientSync> sync_;
  std::optional<SavedTraining<double>> saved_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace

absl::StatusOr<std::vector<NamedWeights>> TrainPipe(
    const PipeWorkerOptions& options, Session& session) {
  if (!plan::HasPipeline(session.spec().pipeline)) {
    return absl::InvalidArgumentError("the job's spec has no pipeline");
  }
  return PipelineWorker(options, session).Train();
}

}  // namespace lockstep::digits
