// One worker of a job with a pipeline; the test makes its session.
//
//   mesh data=2,pipe=2: two replicas of a pipeline of two ranks

#ifndef LOCKSTEP_TESTS_CLIENT_PIPELINE_JOB_WORKER_H_
#define LOCKSTEP_TESTS_CLIENT_PIPELINE_JOB_WORKER_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/captured_step.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/pipeline.h"
#include "lockstep/session.h"
#include "plan/schedule/pipeline_shape.h"
#include "tests/client/pipeline/model.h"
#include "tests/client/pipeline/worksite.h"

namespace lockstep::pipeline {

inline constexpr int kMicroBatches = 4;
inline constexpr int kSteps = 3;

// A parameter that the first and the last stage share, if any.
struct Tied {
  enum class Stage { kNoParameter, kItsOwn, kNone };
  Stage registered = Stage::kNoParameter;  // the stage it is registered with
  bool in_view = false;  // submitted from its view, else from a buffer
  // Submitted in the middle of the run, not when the rank's last stage is done.
  // The stages that share it have no other parameter, so only this one delays
  // them.
  bool in_run = false;
  bool before_run = false;  // submitted before the run
};

struct Job {
  std::string transport;
  PipelineSchedule schedule;
  int virtual_stages = 1;
  SyncMode sync = SyncMode::kStatic;
  int leaves = 0;
  Tied tied = {};
  Overlap overlap = Overlap::kAuto;
  bool small_buckets = false;  // of one parameter each
  bool on_stream = false;      // on the host; else the stages compute at once
};

inline bool HasTied(const Job& job) {
  return job.tied.registered != Tied::Stage::kNoParameter;
}

inline JobSpec SpecOf(const Job& job) {
  return {.name = "job",
          .mesh = {{{"data", 2}, {"pipe", 2}}},
          .sync = job.sync,
          .transport = job.transport,
          .buckets = job.small_buckets
                         ? BucketPolicy{.first_bytes_max = 8, .bytes_max = 8}
                         : BucketPolicy{},
          .reproducible = {.leaves = job.leaves},
          .pipeline = {.schedule = job.schedule,
                       .micro_batches = kMicroBatches,
                       .virtual_stages = job.virtual_stages,
                       .activations = {{{{DType::kF64, {kSamples, kWidth}}}}},
                       .shared = HasTied(job) ? std::vector<std::string>{"tied"}
                                              : std::vector<std::string>{}},
          .timeouts = {.join = absl::Seconds(30)},
          .overlap = job.overlap};
}

// One worker's results.
struct Seen {
  absl::Status status;
  int rank = -1;
  std::vector<int> stages;
  std::vector<int> stages_done;                // in the last step, in order
  std::vector<double> losses;                  // by step
  std::vector<std::vector<Matrix>> gradients;  // by step: of its stages
  std::vector<ParameterSlice> slices;  // the reduced parts of `gradients`
  std::vector<Matrix> tied;            // by step: the shared gradient
};

// A stage that shares a parameter: it adds its gradient to its own copy of the
// shared gradient at the end of its last pass.
class SharingStage final : public TanhStage {
 public:
  using TanhStage::TanhStage;
  double* shared = nullptr;

  absl::Status BackwardWeight(int m, TensorViews output_gradient) override {
    absl::Status done = TanhStage::BackwardWeight(m, output_gradient);
    if (shared == nullptr || passes() < kMicroBatches) return done;
    for (size_t i = 0; i < gradient().size(); ++i) shared[i] += gradient()[i];
    return done;
  }
};

// The samples of a replica's step, different for each step and replica.
inline int SamplesOf(int step, int replica) { return 10 * step + replica; }

class JobWorker {
 public:
  // `site`: where the stages enqueue their work; null: they compute
  // synchronously.
  JobWorker(const JobSpec& spec, int fails_at, Worksite* site)
      : spec_(spec), fails_at_(fails_at), site_(site) {}

  absl::Status Train(Session& session, Seen& seen) {
    seen.rank = session.rank();
    auto sync = GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    EXPECT_EQ(Pipeline::Create(session).status().code(),
              absl::StatusCode::kFailedPrecondition);
    const plan::ScheduleShape shape = plan::ShapeOf(spec_.pipeline, spec_.mesh);
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      const int stage = StageOf(shape, seen.rank % 2, chunk);
      const bool shares = stage == 0 || stage == shape.stages() - 1;
      if (shares) tied_stages_.push_back(stage);
      if (shares && (tied.in_run || tied.before_run)) {
        ids_.push_back({});
        continue;
      }
      auto id = (*sync)->Register({.name = absl::StrCat("stage", stage),
                                   .shape = {kWidth, kWidth},
                                   .dtype = DType::kF64,
                                   .axes = {"data"},
                                   .stage = stage});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
    }
    if (spec_.pipeline.shared.empty()) tied_stages_.clear();
    if (!tied_stages_.empty()) {
      auto id =
          (*sync)->Register({.name = "tied",
                             .shape = {kWidth, kWidth},
                             .dtype = DType::kF64,
                             .axes = {"data"},
                             .stage = tied.registered == Tied::Stage::kItsOwn
                                          ? tied_stages_.front()
                                          : -1});
      if (!id.ok()) return id.status();
      tied_id_ = *id;
    }
    if (absl::Status sealed = (*sync)->Seal(); !sealed.ok()) return sealed;
    auto pipeline = Pipeline::Create(session);
    if (!pipeline.ok()) return pipeline.status();
    EXPECT_FALSE(Pipeline::Create(session).ok()) << "a second one";
    seen.stages = (*pipeline)->stages();
    for (const ParameterId id : ids_) {
      seen.slices.push_back(id.index < 0 ? ParameterSlice()
                                         : *(*sync)->Slice(id));
    }
    EXPECT_GT((*pipeline)->buffer_bytes(), 0u);
    std::vector<SharingStage> stages;
    for (const int stage : seen.stages) stages.emplace_back(WeightOf(stage));
    if (tries_capture) TryCapture(**sync, **pipeline, stages, seen);
    for (int step = 0; step < kSteps; ++step) {
      absl::Status done = Step(step, **sync, **pipeline, stages, seen);
      if (!done.ok()) return done;
    }
    for (PendingVerdict& pending : pending_) {
      const auto verdict = pending.Wait();
      if (!verdict.ok()) return verdict.status();
      EXPECT_EQ(verdict->step, &pending - pending_.data());
    }
    if (runs_behind_the_last) {
      EXPECT_EQ(Step(kSteps, **sync, **pipeline, stages, seen).code(),
                absl::StatusCode::kCancelled);
    }
    return absl::OkStatus();
  }

  // The data ends with the last step; a run behind it is refused.
  bool runs_behind_the_last = false;
  // Gives up behind the run of this step, while the device works at it.
  int leaves_behind_run = -1;
  // Stages whose gradients the worker does not submit.
  std::vector<int> forgets;
  // How the worker uses the parameter that two stages share.
  Tied tied;
  // Tries to capture a step into a graph, before the first.
  bool tries_capture = false;
  // Makes calls out of order in every step; they are refused and change
  // nothing.
  bool calls_out_of_turn = false;
  // On a stream of the host: is refused.
  bool runs_before_the_verdict = false;
  // On a stream of a device: waits for the verdicts behind the last step only.
  bool waits_at_the_end = false;
  // Called at the beginning of the step that fails; null: nothing.
  std::function<absl::Status()> fails_before;
  // Called in the middle of the step that fails; returns its error.
  std::function<absl::Status()> fails_with = [] {
    return absl::DataLossError("a sample cannot be read");
  };

 private:
  // A graph would have the launches of one step, and none of the host's work.
  void TryCapture(GradientSync& sync, Pipeline& pipeline,
                  std::vector<SharingStage>& stages, Seen& seen) {
    const auto captured = sync.Capture(
        site_->stream(), [&] { return Step(0, sync, pipeline, stages, seen); });
    EXPECT_EQ(captured.status().code(), absl::StatusCode::kInvalidArgument);
  }

  absl::Status Step(int step, GradientSync& sync, Pipeline& pipeline,
                    std::vector<SharingStage>& stages, Seen& seen) {
    if (spec_.sync == SyncMode::kReduceScatter) {
      if (absl::Status gathered = Gather(sync); !gathered.ok()) return gathered;
    }
    SquareLoss loss;
    const int samples = SamplesOf(step, seen.rank / 2);
    loss.step = samples;
    PipelineStep work{.loss = &loss,
                      .output = {{{DType::kF64, {kSamples, kWidth}}}}};
    for (size_t i = 0; i < stages.size(); ++i) {
      stages[i].BeginStep(samples, seen.stages[i] == 0);
      work.stages.push_back(&stages[i]);
    }
    if (!tied_stages_.empty()) ShareGradient(sync, stages, seen, work);
    if (step == fails_at_ && fails_before) return fails_before();
    if (step == fails_at_) {
      stages[0].fail = [this](int m) {
        return m == 2 ? fails_with() : absl::OkStatus();
      };
    }
    if (tied.in_run && !tied_stages_.empty()) {
      stages[0].fail = [this, &sync](int m) {
        return m == 2 ? SubmitTied(sync) : absl::OkStatus();
      };
    }
    seen.stages_done.clear();
    work.on_stage_done = [&](int stage) {
      seen.stages_done.push_back(stage);
      if (calls_out_of_turn) {
        ExpectRefused(sync.Finish().status(), "while Pipeline::Run is");
        ExpectRefused(pipeline.Run(work).status(), "another Run is");
      }
      if (std::count(forgets.begin(), forgets.end(), stage) > 0) {
        return absl::OkStatus();
      }
      const size_t i =
          std::find(seen.stages.begin(), seen.stages.end(), stage) -
          seen.stages.begin();
      absl::Status submitted =
          ids_[i].index < 0 ? absl::OkStatus()
                            : Submit(sync, ids_[i], stages[i].gradient());
      if (!submitted.ok() || tied_stages_.empty() || tied.in_run ||
          tied.before_run || seen.stages_done.size() != seen.stages.size()) {
        return submitted;
      }
      return SubmitTied(sync);
    };
    if (tied.before_run && site_ != nullptr) {
      // The host is ahead of its stream.
      site_->StallUntil([by = absl::Now() + absl::Milliseconds(20)] {
        return absl::Now() >= by;
      });
    }
    if (tied.before_run && !tied_stages_.empty()) {
      if (absl::Status early = SubmitTied(sync); !early.ok()) return early;
    }
    if (calls_out_of_turn) {
      ExpectRefused(sync.Finish().status(), "Finish without Pipeline::Run");
    }
    const Enqueued enqueued(work, site_, /*waits_for_losses=*/false);
    // The stream uses it, the stages and the loss.
    const absl::Cleanup synchronize = [this] {
      if (site_ != nullptr) site_->stream().Synchronize().IgnoreError();
    };
    const absl::StatusOr<double> ran = pipeline.Run(enqueued.step());
    if (!ran.ok()) return ran.status();
    if (step == leaves_behind_run) {
      return absl::DataLossError("a batch cannot be read");
    }
    if (calls_out_of_turn) {
      ExpectRefused(pipeline.Run(work).status(), "a second time in one step");
    }
    const bool more_data = !runs_behind_the_last || step + 1 < kSteps;
    const auto verdict =
        Finish({.samples = 1, .more_data = more_data}, sync, pipeline, work);
    if (!verdict.ok()) return verdict.status();
    seen.losses.push_back(
        site_ == nullptr ? *ran : enqueued.loss().sum() / kMicroBatches);
    std::vector<Matrix>& gradients = seen.gradients.emplace_back();
    for (const ParameterId id : ids_) {
      if (id.index < 0) {
        gradients.emplace_back();
        continue;
      }
      const auto reduced = *sync.Gradient<double>(id);
      const double* const values = Reach(reduced.data());
      gradients.emplace_back(values, values + reduced.size());
    }
    if (!tied_stages_.empty()) {
      const auto reduced = *sync.Gradient<double>(tied_id_);
      const double* const values = Reach(reduced.data());
      seen.tied.emplace_back(values, values + reduced.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> Finish(const FinishOptions& options,
                                 GradientSync& sync, Pipeline& pipeline,
                                 const PipelineStep& work) {
    if (!runs_before_the_verdict && !waits_at_the_end) {
      return sync.Finish(options);
    }
    // The verdict is not known before the run is refused.
    std::atomic<bool> open = waits_at_the_end;
    site_->StallUntil([&open] { return open.load(); });
    auto pending = sync.FinishAsync(
        options, std::numeric_limits<double>::infinity(), site_->stream());
    if (pending.ok() && !waits_at_the_end) {
      ExpectRefused(pipeline.Run(work).status(), "was not waited for");
    }
    open = true;
    const absl::Status over = site_->stream().Synchronize();
    if (!pending.ok()) return pending.status();
    if (!waits_at_the_end) return pending->Wait();
    pending_.push_back(*std::move(pending));
    return over.ok() ? absl::StatusOr<Verdict>(Verdict()) : over;
  }

  static void ExpectRefused(const absl::Status& status, const char* why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
  }

  absl::Status SubmitTied(GradientSync& sync) {
    if (!tied.in_view) return Submit(sync, tied_id_, shared_);
    return site_ == nullptr ? sync.Submit(tied_id_)
                            : sync.Submit(tied_id_, site_->stream());
  }

  // Sets where the stages add their shared gradient: a buffer, or its view.
  void ShareGradient(GradientSync& sync, std::vector<SharingStage>& stages,
                     const Seen& seen, PipelineStep& work) {
    shared_.assign(kWidth * kWidth, 0);
    double* at = shared_.data();
    if (tied.in_view) {
      at = sync.Gradient<double>(tied_id_)->data();
      std::fill_n(Reach(at), kWidth * kWidth, 0.0);
    }
    for (const int stage : tied_stages_) {
      const auto found =
          std::find(seen.stages.begin(), seen.stages.end(), stage);
      stages[found - seen.stages.begin()].shared = Reach(at);
    }
    work.shared = {{at, {DType::kF64, {kWidth, kWidth}}}};
  }

  absl::Status Gather(GradientSync& sync) {
    absl::Status gathered = site_ == nullptr
                                ? sync.GatherParameters()
                                : sync.GatherParameters(site_->stream());
    for (const ParameterId id : ids_) {
      if (!gathered.ok()) break;
      gathered = site_ == nullptr ? sync.AwaitParameter(id)
                                  : sync.AwaitParameter(id, site_->stream());
    }
    return gathered;
  }

  absl::Status Submit(GradientSync& sync, ParameterId id,
                      const Matrix& gradient) {
    if (site_ == nullptr) {
      return sync.Submit(id, gradient.data(), gradient.size() * sizeof(double));
    }
    double* const view = Reach(sync.Gradient<double>(id)->data());
    absl::Status copied = site_->Enqueue([view, &gradient] {
      std::copy(gradient.begin(), gradient.end(), view);
    });
    return copied.ok() ? sync.Submit(id, site_->stream()) : copied;
  }

  double* Reach(double* at) {
    return site_ == nullptr ? at : static_cast<double*>(site_->Reach(at));
  }

  const JobSpec spec_;
  const int fails_at_;
  Worksite* const site_;
  std::vector<ParameterId> ids_;
  std::vector<int> tied_stages_;  // the rank's stages that share a parameter
  ParameterId tied_id_;
  Matrix shared_;
  std::vector<PendingVerdict> pending_;
};

// Expects that the four workers' losses and gradients equal those of the model
// in one process: each replica on its samples, averaged over the two.
// `steps`: of each rank, or kSeenSteps: those that it has, of all.
inline constexpr int kSeenSteps = -1;
inline void ExpectOneProcess(const std::vector<Seen>& all, const Job& job,
                             int steps = kSteps) {
  const bool seen_only = steps == kSeenSteps;
  if (seen_only) steps = kSteps;
  const int stages = 2 * job.virtual_stages;
  const std::vector<double> weights(kMicroBatches, 1.0 / kMicroBatches);
  for (int step = 0; step < steps; ++step) {
    std::vector<Outcome> alone;
    for (const int replica : {0, 1}) {
      alone.push_back(
          RunAlone(stages, SamplesOf(step, replica), weights, WeightOf));
      if (seen_only) continue;
      EXPECT_NEAR(
          all[2 * replica].losses[step] + all[2 * replica + 1].losses[step],
          alone[replica].loss, 1e-12);
    }
    const auto tied = [&](int replica, size_t k) {
      const std::vector<Matrix>& of = alone[replica].gradients;
      return of.front()[k] + of.back()[k];
    };
    for (const Seen& seen : all) {
      if (seen_only && seen.gradients.size() <= static_cast<size_t>(step)) {
        continue;
      }
      for (size_t k = 0; !seen.tied.empty() && k < kWidth * kWidth; ++k) {
        ASSERT_NEAR(seen.tied[step][k], (tied(0, k) + tied(1, k)) / 2, 1e-12);
      }
      for (size_t i = 0; i < seen.stages.size(); ++i) {
        const Matrix& a = alone[0].gradients[seen.stages[i]];
        const Matrix& b = alone[1].gradients[seen.stages[i]];
        const auto [begin, count] = seen.slices[i];
        for (size_t k = begin; k < begin + count; ++k) {
          // The mean is a sum times 1/2, in f64.
          ASSERT_NEAR(seen.gradients[step][i][k], (a[k] + b[k]) / 2, 1e-12);
        }
      }
    }
  }
}

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_TESTS_CLIENT_PIPELINE_JOB_WORKER_H_
