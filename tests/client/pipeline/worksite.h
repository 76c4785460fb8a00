// Stages that enqueue their work on a stream and return: on a host stream, or
// as kernels of a device.

#ifndef LOCKSTEP_TESTS_CLIENT_PIPELINE_WORKSITE_H_
#define LOCKSTEP_TESTS_CLIENT_PIPELINE_WORKSITE_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/pipeline/runner.h"
#include "lockstep/pipeline_stage.h"
#include "lockstep/stream.h"

namespace lockstep::pipeline {

// A rank's stream, and the addresses that its work uses.
class Worksite {
 public:
  virtual ~Worksite() = default;
  virtual Stream& stream() = 0;
  virtual absl::Status Enqueue(std::function<void()> work) = 0;
  // Later work waits until `open` returns true.
  virtual void StallUntil(std::function<bool()> open) = 0;
  // The address that work uses for the memory at `at`.
  virtual void* Reach(void* at) { return at; }

  std::vector<TensorView> Reach(TensorViews views) {
    std::vector<TensorView> reached(views.begin(), views.end());
    for (TensorView& view : reached) view.data = Reach(view.data);
    return reached;
  }
};

class HostSite final : public Worksite {
 public:
  // How long all work takes.
  explicit HostSite(absl::Duration takes = absl::ZeroDuration())
      : takes_(takes) {}
  Stream& stream() override { return stream_; }
  absl::Status Enqueue(std::function<void()> work) override {
    stream_.Enqueue([work = std::move(work), takes = takes_] {
      if (takes > absl::ZeroDuration()) absl::SleepFor(takes);
      work();
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }
  void StallUntil(std::function<bool()> open) override {
    stream_.Enqueue([open = std::move(open)] {
      while (!open()) absl::SleepFor(absl::Milliseconds(1));
      return absl::OkStatus();
    });
  }

 private:
  const absl::Duration takes_;
  HostStream stream_{"ls-stages"};
};

class EnqueuedStage final : public PipelineStage {
 public:
  EnqueuedStage(PipelineStage* stage, Worksite* site)
      : stage_(*stage), site_(*site) {}

  absl::Status Forward(int m, TensorViews input, TensorViews output) override {
    return site_.Enqueue(
        [this, m, in = site_.Reach(input), out = site_.Reach(output)] {
          stage_.Forward(m, in, out).IgnoreError();
        });
  }
  absl::Status BackwardInput(int m, TensorViews output_gradient,
                             TensorViews input_gradient) override {
    return site_.Enqueue([this, m, out = site_.Reach(output_gradient),
                          in = site_.Reach(input_gradient)] {
      stage_.BackwardInput(m, out, in).IgnoreError();
    });
  }
  absl::Status BackwardWeight(int m, TensorViews output_gradient) override {
    return site_.Enqueue([this, m, out = site_.Reach(output_gradient)] {
      stage_.BackwardWeight(m, out).IgnoreError();
    });
  }

 private:
  PipelineStage& stage_;
  Worksite& site_;
};

// Waits for the loss, or returns 0 and adds it up.
class EnqueuedLoss final : public PipelineLoss {
 public:
  EnqueuedLoss(PipelineLoss* loss, Worksite* site, bool waits)
      : loss_(*loss), site_(*site), waits_(waits) {}

  absl::StatusOr<double> Loss(int m, TensorViews output,
                              TensorViews gradient) override {
    absl::Status enqueued = site_.Enqueue(
        [this, m, out = site_.Reach(output), d_out = site_.Reach(gradient)] {
          value_ = *loss_.Loss(m, out, d_out);
          sum_ += value_;
        });
    if (!enqueued.ok()) return enqueued;
    if (!waits_) return 0;
    absl::Status over = site_.stream().Record().Wait();
    if (!over.ok()) return over;
    return value_;
  }

  // Without weights. Read it behind the stream.
  double sum() const { return sum_; }

 private:
  PipelineLoss& loss_;
  Worksite& site_;
  const bool waits_;
  double value_ = 0;
  double sum_ = 0;
};

// A step whose stages compute synchronously, or enqueue on a site.
class Enqueued {
 public:
  Enqueued(const PipelineStep& step, Worksite* site,
           bool waits_for_losses = true)
      : step_(step) {
    if (site == nullptr) return;
    for (PipelineStage*& stage : step_.stages) {
      stages_.push_back(std::make_unique<EnqueuedStage>(stage, site));
      stage = stages_.back().get();
    }
    if (step_.loss != nullptr) {
      loss_ =
          std::make_unique<EnqueuedLoss>(step_.loss, site, waits_for_losses);
      step_.loss = loss_.get();
    }
    step_.stream = &site->stream();
  }

  const PipelineStep& step() const { return step_; }
  const EnqueuedLoss& loss() const { return *loss_; }

 private:
  PipelineStep step_;
  std::vector<std::unique_ptr<EnqueuedStage>> stages_;
  std::unique_ptr<EnqueuedLoss> loss_;
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_TESTS_CLIENT_PIPELINE_WORKSITE_H_
