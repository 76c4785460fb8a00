// One rank whose steps are in graphs that the program captures and launches.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_REPLAY_RANK_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_REPLAY_RANK_H_

#include <memory>
#include <utility>
#include <vector>

#include "client/transport/nccl/device_scope.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/client/gradient/stream_rank.h"

namespace lockstep::gradient {

// A rank of a job of kThree. The gradients of w (in its view) and v (from a
// buffer) are computed from the batch of the launch, b gets none. The update
// adds w's gradient, times the clip coefficient, to the weights.
class ReplayRank {
 public:
  using Tables = transport::nccl::Tables;

  ReplayRank(BackendJob* job, FakeGpuBackend* backend, int rank)
      : job_(*job),
        rank_(rank),
        tables_(
            static_cast<fake::FakeGpuWorld&>(backend->world()).TablesOf(rank)),
        stream_(job->MakeStream(rank)),
        weights_(job->Buffer(rank, {0, 0, 0})),
        buffer_(job->Buffer(rank, {0, 0, 0, 0})),
        other_(job->Buffer(rank, {0, 0, 0})) {}
  ~ReplayRank() {
    (void)stream_->Synchronize();
    DestroyGraphs();
  }

  Engine& engine() { return job_.engine(rank_); }
  Stream& stream() { return *stream_; }
  std::vector<float> weights() { return job_.Get(weights_.data(), 3); }
  int graphs() const { return static_cast<int>(execs_.size()); }

  // Captures a graph whose launches say `options`. Its gradients are `times`
  // the batch.
  absl::Status Capture(const FinishOptions& options = {.samples = 1},
                       float times = 1) {
    absl::Status begun = engine().BeginReplays();
    if (!begun.ok()) return begun;
    BeginCapture();
    absl::Status step = engine().JoinCapture(*stream_);
    if (step.ok()) step = Step(options, times);
    engine().LeaveCapture();
    return EndCapture(step);
  }

  // Enqueues a step, in a capture or eager. With w's gradient in a buffer
  // FinishAsync need not wait for the sake of views.
  absl::Status Step(const FinishOptions& options, float times = 1,
                    bool in_views = true) {
    absl::Status done = SubmitV(*stream_, times);
    if (done.ok()) done = SubmitW(*stream_, times, in_views);
    return done.ok() ? Finish(options, *stream_) : done;
  }
  // Finishes without a stream, and updates if the verdict allows it.
  absl::Status StepOnHost(const FinishOptions& options) {
    absl::Status done = SubmitV(*stream_);
    if (done.ok()) done = SubmitW(*stream_);
    if (!done.ok()) return done;
    auto finished = engine().Finish(options, kMaxNorm, /*stream=*/nullptr);
    if (!finished.ok()) return finished.status();
    const auto verdict = (*finished)->Wait();
    if (!verdict.ok()) return verdict.status();
    const auto* const gradient =
        reinterpret_cast<const float*>(job_.Reach(engine().View(0)->data()));
    auto* const weights = reinterpret_cast<float*>(job_.Reach(weights_.data()));
    for (int i = 0; i < 3; ++i) weights[i] += gradient[i];
    return absl::OkStatus();
  }
  // The parts of Step.
  absl::Status SubmitV(Stream& stream, float times = 1) {
    Fill(buffer_.data(), 4, 2 * times, stream);
    return engine().Submit(2, buffer_.data(), buffer_.bytes(), &stream);
  }
  absl::Status SubmitW(Stream& stream, float times = 1, bool in_views = true) {
    const auto view = engine().View(0);
    if (!view.ok()) return view.status();
    const void* const w = in_views ? view->data() : other_.data();
    Fill(w, 3, times, stream);
    return engine().Submit(0, in_views ? nullptr : w,
                           in_views ? 0 : other_.bytes(), &stream);
  }
  absl::Status Finish(const FinishOptions& options, Stream& stream) {
    const auto view = engine().View(0);  // the next step may have another one
    if (!view.ok()) return view.status();
    auto verdict = engine().Finish(options, kMaxNorm, &stream);
    if (!verdict.ok()) return verdict.status();
    Update(*verdict, view->data(), stream);
    last_ = *verdict;
    return absl::OkStatus();
  }
  // The verdict of an eager step.
  absl::StatusOr<Verdict> Wait() { return last_->Wait(); }
  std::shared_ptr<PendingVerdict::State> last() const { return last_; }

  // Launches a graph with this batch, which it reads when it runs.
  void Launch(float batch, int graph = 0) {
    Load(batch);
    const transport::nccl::DeviceScope scope(*tables_.cuda);
    EXPECT_EQ(tables_.cuda->GraphLaunch(execs_[graph], handle()),
              transport::nccl::CudaResult::kSuccess);
  }
  // What is enqueued behind it reads this batch.
  void Load(float batch) {
    job_.Enqueue(*stream_, [to = batch_, batch] { *to = batch; });
  }
  absl::StatusOr<ReplayedVerdict> Next(
      absl::Duration timeout = absl::Seconds(20)) {
    return engine().replays().Next(timeout);
  }
  void AwaitDecided(uint64_t launches) {
    const Deadline deadline(absl::Seconds(20));
    while (engine().replays().decided() < launches && !deadline.Passed()) {
      absl::SleepFor(absl::Microseconds(100));
    }
    EXPECT_GE(engine().replays().decided(), launches);
  }

  // --- The program's part of a capture ---

  void BeginCapture() {
    const transport::nccl::DeviceScope scope(*tables_.cuda);
    EXPECT_EQ(tables_.cuda->StreamBeginCapture(handle()),
              transport::nccl::CudaResult::kSuccess);
  }
  absl::Status EndCapture(const absl::Status& step) {
    using transport::nccl::CudaResult;
    const transport::nccl::DeviceScope scope(*tables_.cuda);
    transport::nccl::CudaGraphHandle graph = nullptr;
    const CudaResult ended = tables_.cuda->StreamEndCapture(handle(), &graph);
    if (!step.ok() || ended != CudaResult::kSuccess) {
      if (graph != nullptr) tables_.cuda->GraphDestroy(graph);
      return step.ok() ? absl::InternalError("EndCapture") : step;
    }
    transport::nccl::CudaGraphExecHandle exec = nullptr;
    EXPECT_EQ(tables_.cuda->GraphInstantiate(&exec, graph),
              CudaResult::kSuccess);
    tables_.cuda->GraphDestroy(graph);
    execs_.push_back(exec);
    return absl::OkStatus();
  }
  // The caller destroys it.
  transport::nccl::CudaGraphExecHandle TakeGraph() {
    const auto exec = execs_.back();
    execs_.pop_back();
    return exec;
  }
  void DestroyGraphs() {
    const transport::nccl::DeviceScope scope(*tables_.cuda);
    for (const auto exec : std::exchange(execs_, {})) {
      tables_.cuda->GraphExecDestroy(exec);
    }
  }

  static constexpr double kMaxNorm = 1e6;

 private:
  transport::nccl::CudaStreamHandle handle() const {
    return static_cast<transport::nccl::CudaStream&>(*stream_).handle();
  }

  void Fill(const void* at, size_t count, float times, Stream& stream) {
    auto* const to = reinterpret_cast<float*>(job_.Reach(at));
    job_.Enqueue(stream, [to, count, times, batch = batch_] {
      for (size_t i = 0; i < count; ++i) to[i] = times * *batch;
    });
  }

  void Update(const std::shared_ptr<PendingVerdict::State>& state,
              const void* view, Stream& stream) {
    const auto* const verdict =
        reinterpret_cast<const VerdictScalars*>(job_.Reach(state->scalars()));
    auto* const weights = reinterpret_cast<float*>(job_.Reach(weights_.data()));
    const auto* const gradient =
        reinterpret_cast<const float*>(job_.Reach(view));
    job_.Enqueue(stream, [verdict, weights, gradient] {
      if (!MayUpdate(*verdict)) return;
      for (int i = 0; i < 3; ++i) {
        weights[i] += static_cast<float>(verdict->clip) * gradient[i];
      }
    });
  }

  BackendJob& job_;
  const int rank_;
  const Tables tables_;
  const std::unique_ptr<Stream> stream_;
  const ArenaBuffer weights_;
  const ArenaBuffer buffer_, other_;
  const std::shared_ptr<float> batch_ = std::make_shared<float>(0);
  std::vector<transport::nccl::CudaGraphExecHandle> execs_;
  std::shared_ptr<PendingVerdict::State> last_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_REPLAY_RANK_H_
