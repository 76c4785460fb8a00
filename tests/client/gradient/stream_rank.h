// One rank that trains on a stream: kernels compute its gradients and update
// its weights, and the host runs as far ahead as it may.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_STREAM_RANK_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_STREAM_RANK_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "tests/client/gradient/backend_job.h"

namespace lockstep::gradient {

inline const std::vector<Parameter> kThree = {
    {.name = "w", .shape = {3}, .op = ReduceOp::kSum},
    {.name = "b", .shape = {2}, .op = ReduceOp::kMean},
    {.name = "v", .shape = {4}, .op = ReduceOp::kSum}};

// A rank of a job of kThree; its update adds w's gradient to the weights.
class StreamRank {
 public:
  StreamRank(BackendJob* job, int rank)
      : job_(*job),
        rank_(rank),
        stream_(job->MakeStream(rank)),
        weights_(job->Buffer(rank, {0, 0, 0})) {}
  ~StreamRank() { (void)stream_->Synchronize(); }

  Stream& stream() { return *stream_; }
  std::vector<float> weights() { return job_.Get(weights_.data(), 3); }

  // Backward: gradient = (rank + 1) * (step + 1) in the view, for all
  // parameters or, unless `all`, for all except v.
  absl::Status Submit(uint64_t step, bool all = true) {
    Engine& engine = job_.engine(rank_);
    const float value = static_cast<float>((rank_ + 1) * (step + 1));
    for (int p = all ? 2 : 1; p >= 0; --p) {
      const absl::Span<std::byte> view =
          from_buffers_ ? buffers_[p].as<std::byte>() : *engine.View(p);
      auto* const at = reinterpret_cast<float*>(job_.Reach(view.data()));
      const size_t count = view.size() / sizeof(float);
      job_.Enqueue(*stream_,
                   [at, count, value] { std::fill(at, at + count, value); });
      absl::Status submitted =
          engine.Submit(p, from_buffers_ ? view.data() : nullptr,
                        from_buffers_ ? view.size() : 0, stream_.get());
      if (!submitted.ok()) return submitted;
    }
    return absl::OkStatus();
  }

  // FinishAsync, followed by the update: weights += gradient of w. The scalars
  // are kept until ForgetScalars or destruction. `before_update` runs between
  // the two.
  absl::StatusOr<PendingVerdict> FinishAndUpdate(
      const std::function<void()>& before_update = [] {}) {
    Engine& engine = job_.engine(rank_);
    auto state = engine.Finish(
        {.samples = 1}, std::numeric_limits<double>::infinity(), stream_.get());
    if (!state.ok()) return state.status();
    const PendingVerdict& pending = pending_.emplace_back(*state);
    const auto* const verdict =
        reinterpret_cast<const VerdictScalars*>(job_.Reach(pending.scalars()));
    auto* const weights = reinterpret_cast<float*>(job_.Reach(weights_.data()));
    before_update();
    job_.Enqueue(*stream_, [this, verdict, weights] {
      if (!MayUpdate(*verdict)) return;
      const float* const gradient = gradient_.load();
      for (int i = 0; i < 3; ++i) weights[i] += gradient[i];
    });
    return pending;
  }

  // From now on, Submit submits buffers: FinishAsync does not wait for the
  // verdict.
  void SubmitFromBuffers() {
    from_buffers_ = true;
    for (int p = 0; p < 3; ++p) {
      const size_t count = job_.engine(rank_).View(p)->size() / sizeof(float);
      buffers_.push_back(job_.Buffer(rank_, std::vector<float>(count)));
    }
  }

  void ForgetScalars() { pending_.clear(); }

  // Looks up the address of w's gradient for kernels. Call it while no stream
  // has work.
  void Fetch() {
    gradient_ = reinterpret_cast<const float*>(
        job_.Reach(job_.engine(rank_).View(0)->data()));
  }

 private:
  BackendJob& job_;
  const int rank_;
  const std::unique_ptr<Stream> stream_;
  const ArenaBuffer weights_;
  bool from_buffers_ = false;
  std::vector<ArenaBuffer> buffers_;
  std::vector<PendingVerdict> pending_;
  std::atomic<const float*> gradient_ = nullptr;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_STREAM_RANK_H_
