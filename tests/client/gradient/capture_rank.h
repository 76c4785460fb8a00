// One rank that trains by a captured step: its kernels read values that the
// host stores before each launch.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_CAPTURE_RANK_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_CAPTURE_RANK_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/client/gradient/backend_job.h"
#include "tests/client/gradient/stream_rank.h"

namespace lockstep::gradient {

// A rank of a job of kThree. The gradients of w (in its view) and v (from a
// buffer, in two micro-batches) are computed from the batch, b gets none. The
// update adds w's gradient, times the clip coefficient, to the weights.
class CaptureRank {
 public:
  CaptureRank(BackendJob* job, int rank)
      : job_(*job),
        rank_(rank),
        stream_(job->MakeStream(rank)),
        weights_(job->Buffer(rank, {0, 0, 0})),
        buffer_(job->Buffer(rank, {0, 0, 0, 0})) {}
  ~CaptureRank() { (void)stream_->Synchronize(); }

  Engine& engine() { return job_.engine(rank_); }
  Stream& stream() { return *stream_; }
  std::vector<float> weights() { return job_.Get(weights_.data(), 3); }
  // Sets the batch of the next step. Call it while no step is in flight.
  void Load(float batch) { *batch_ = batch; }

  // Enqueues one step, captured or not.
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Enqueue(
      const FinishOptions& options) {
    engine().SetMicroBatchWeight(0.5);
    Fill(buffer_.data(), 4, 1);
    absl::Status done = engine().BeginNoSync();
    if (done.ok()) done = SubmitBuffer();
    engine().EndNoSync();
    Fill(buffer_.data(), 4, 3);
    if (done.ok()) done = SubmitBuffer();
    Fill(engine().View(0)->data(), 3, 1);
    if (done.ok()) done = engine().Submit(0, nullptr, 0, stream_.get());
    if (!done.ok()) return done;
    auto verdict = engine().Finish(options, kMaxNorm, stream_.get());
    if (verdict.ok()) Update(*verdict);
    return verdict;
  }

  absl::Status Capture() {
    const auto step = engine().Capture(*stream_, [this]() -> absl::Status {
      const auto captured = Enqueue({});
      if (!captured.ok()) return captured.status();
      captured_ = *captured;
      return absl::OkStatus();
    });
    if (step.ok()) step_ = *step;
    return step.status();
  }

  // Launches the captured step and returns its verdict.
  absl::StatusOr<Verdict> Launch(const FinishOptions& options = {
                                     .samples = 1}) {
    auto verdict = engine().Launch(step_, options, *stream_);
    if (!verdict.ok()) return verdict.status();
    return (*verdict)->Wait();
  }
  bool stale() { return engine().IsStale(*step_); }
  const std::shared_ptr<Captured>& step() const { return step_; }
  PendingVerdict::State& captured() { return *captured_; }
  void Forget() { step_ = nullptr; }

  static constexpr double kMaxNorm = 40;

 private:
  absl::Status SubmitBuffer() {
    return engine().Submit(2, buffer_.data(), buffer_.bytes(), stream_.get());
  }

  void Fill(const void* at, size_t count, float times) {
    auto* const to = reinterpret_cast<float*>(job_.Reach(at));
    job_.Enqueue(*stream_, [to, count, times, batch = batch_] {
      for (size_t i = 0; i < count; ++i) to[i] = times * *batch / (i + 1);
    });
  }

  void Update(const std::shared_ptr<PendingVerdict::State>& state) {
    const auto* const verdict =
        reinterpret_cast<const VerdictScalars*>(job_.Reach(state->scalars()));
    auto* const weights = reinterpret_cast<float*>(job_.Reach(weights_.data()));
    const auto* const gradient =
        reinterpret_cast<const float*>(job_.Reach(engine().View(0)->data()));
    eager_.push_back(state);
    job_.Enqueue(*stream_, [verdict, weights, gradient] {
      if (!MayUpdate(*verdict)) return;
      for (int i = 0; i < 3; ++i) {
        weights[i] += static_cast<float>(verdict->clip) * gradient[i];
      }
    });
  }

  BackendJob& job_;
  const int rank_;
  const std::unique_ptr<Stream> stream_;
  const ArenaBuffer weights_;
  const ArenaBuffer buffer_;
  const std::shared_ptr<float> batch_ = std::make_shared<float>(0);
  std::shared_ptr<Captured> step_;
  std::shared_ptr<PendingVerdict::State> captured_;
  std::vector<std::shared_ptr<PendingVerdict::State>> eager_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_CAPTURE_RANK_H_
