#include "lockstep/pipeline.h"

#include <string>
#include <utility>

#include "client/pipeline/executor.h"
#include "client/session/internals.h"

namespace lockstep {

// Joins a session, which knows the coordinator, and an executor, which does
// not.
class Pipeline::Impl {
 public:
  Impl(Session::Internals& session, PlanInEffect plan)
      : session_(session),
        plan_(std::make_shared<const plan::Plan>(std::move(plan.plan))),
        rank_(plan.rank),
        communicators_(std::move(plan.communicators)),
        launched_(std::move(plan.launched)) {}

  ~Impl() {
    if (executor_ != nullptr) session_.RemoveWatch(watch_);
  }

  absl::Status Begin() {
    auto compute = session_.transport().MakeCompute();
    if (!compute.ok()) return compute.status();
    compute_ = *std::move(compute);
    absl::StatusOr<std::unique_ptr<pipeline::Executor>> executor =
        pipeline::Executor::Create(Options());
    if (!executor.ok()) return executor.status();
    executor_ = *std::move(executor);
    watch_ = session_.AddWatch(
        [this](const absl::Status& cause) { executor_->Abort(cause); });
    return absl::OkStatus();
  }

  pipeline::Executor& executor() { return *executor_; }

 private:
  pipeline::ExecutorOptions Options() {
    pipeline::ExecutorOptions options{.plan = plan_, .rank = rank_};
    for (const auto& communicator : communicators_) {
      options.communicators.push_back(communicator.get());
    }
    options.compute = compute_.get();
    options.allocate = [this](size_t bytes) {
      return session_.arena().Allocate(bytes);
    };
    options.launched = launched_;
    options.await_gradients = [this](int stage) {
      return session_.AwaitStage(stage);
    };
    options.on_failure = [this](const absl::Status& error) {
      session_.ReportFailure(session_.step(), "Pipeline::Run", error);
    };
    options.explain = [this](int communicator, const absl::Status& error) {
      if (communicator >= 0) {
        session_.Accuse(plan_->communicators[communicator].ranks, error);
      }
      return session_.Explain("Pipeline::Run", error);
    };
    return options;
  }

  Session::Internals& session_;
  const std::shared_ptr<const plan::Plan> plan_;
  const int rank_;
  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const std::shared_ptr<executor::LaunchedTransfers> launched_;
  std::unique_ptr<transport::Compute> compute_;
  std::unique_ptr<pipeline::Executor> executor_;  // uses all of the above
  uint64_t watch_ = 0;
};

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(Session& session) {
  Session::Internals& internals = session.internals();
  absl::StatusOr<PlanInEffect> plan = internals.TakePipeline();
  if (!plan.ok()) return plan.status();
  auto impl = std::make_unique<Impl>(internals, *std::move(plan));
  if (absl::Status begun = impl->Begin(); !begun.ok()) return begun;
  return std::unique_ptr<Pipeline>(new Pipeline(std::move(impl)));
}

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::~Pipeline() = default;

const std::vector<int>& Pipeline::stages() const {
  return impl_->executor().stages();
}

size_t Pipeline::buffer_bytes() const {
  return impl_->executor().buffer_bytes();
}

absl::StatusOr<double> Pipeline::Run(const PipelineStep& step) {
  return impl_->executor().Run(step);
}

}  // namespace lockstep
