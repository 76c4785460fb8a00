#include "lockstep/pipeline.h"

#include <string>
#include <utility>

#include "client/pipeline/runner.h"
#include "client/session/session_impl.h"

namespace lockstep {

// Connects a session, which talks to the coordinator, to a runner, which does
// not.
class Pipeline::Impl {
 public:
  Impl(Session::Impl& session, PlanInEffect plan)
      : session_(session),
        plan_(std::make_shared<const plan::Plan>(std::move(plan.plan))),
        rank_(plan.rank),
        executor_(std::move(plan.executor)) {}

  // The session ends the wait if peers are lost.
  ~Impl() {
    if (runner_ == nullptr) return;
    runner_->AwaitLastRun();
    session_.RemoveWatch(watch_);
  }

  absl::Status Begin() {
    absl::StatusOr<std::unique_ptr<pipeline::Runner>> runner =
        pipeline::Runner::Create(Options());
    if (!runner.ok()) return runner.status();
    runner_ = *std::move(runner);
    watch_ = session_.AddWatch(
        [this](const absl::Status& cause) { runner_->Abort(cause); });
    return absl::OkStatus();
  }

  pipeline::Runner& runner() { return *runner_; }

 private:
  pipeline::RunnerOptions Options() {
    pipeline::RunnerOptions options{.plan = plan_, .rank = rank_};
    options.executor = executor_;
    options.allocate = [this](size_t bytes) {
      return session_.arena().Allocate(bytes);
    };
    options.on_failure = [this](const absl::Status& error) {
      session_.ReportFailure(session_.step(), "Pipeline::Run", error);
    };
    options.explain = [this](int communicator, const absl::Status& error) {
      if (communicator >= 0) {
        session_.ReportPeerFailure(plan_->communicators[communicator].ranks,
                                   error);
      }
      return session_.Explain("Pipeline::Run", error);
    };
    return options;
  }

  Session::Impl& session_;
  const std::shared_ptr<const plan::Plan> plan_;
  const int rank_;
  const std::shared_ptr<executor::Executor> executor_;
  std::unique_ptr<pipeline::Runner> runner_;  // uses all of the above
  uint64_t watch_ = 0;
};

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(Session& session) {
  Session::Impl& joined = session.impl();
  absl::StatusOr<PlanInEffect> plan = joined.TakePipeline();
  if (!plan.ok()) return plan.status();
  auto impl = std::make_unique<Impl>(joined, *std::move(plan));
  if (absl::Status begun = impl->Begin(); !begun.ok()) return begun;
  return std::unique_ptr<Pipeline>(new Pipeline(std::move(impl)));
}

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::~Pipeline() = default;

const std::vector<int>& Pipeline::stages() const {
  return impl_->runner().stages();
}

size_t Pipeline::buffer_bytes() const { return impl_->runner().buffer_bytes(); }

absl::StatusOr<double> Pipeline::Run(const PipelineStep& step) {
  return impl_->runner().Run(step);
}

}  // namespace lockstep
