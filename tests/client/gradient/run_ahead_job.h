// A job with steps in flight, whose devices scale the loss: GradientSync, the
// session and the real coordinator core, on fake GPUs.
//
// All that is computed is a function of rank and step, so that a model says
// what any training must end with, whatever happened in it.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_RUN_AHEAD_JOB_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_RUN_AHEAD_JOB_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/captured_step.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/recovery.h"
#include "tests/client/gradient/loss_model.h"
#include "tests/support/fake_gpu_job.h"

namespace lockstep::session {

inline constexpr int kParameters = 3;
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// What ranks compute and how it is reduced. Sums of three ranks; for jobs whose
// size changes means of gradients that are equal on all ranks.
inline constexpr ReduceOp kOfThree = ReduceOp::kSum;
inline constexpr ReduceOp kOfAny = ReduceOp::kMean;
inline constexpr int kWorld = 3;

// Each fifth step is not finite, because of one rank. Where all ranks compute
// the same, they do so as rank 0.
inline bool Overflows(int64_t step, ReduceOp op) {
  return step % 5 == 3 && (op == kOfThree || step % 2 == 1);
}
inline int OverflowingRank(int64_t step, ReduceOp op) {
  return op == kOfThree ? static_cast<int>(step / 5 % kWorld) : 0;
}

// Each element of a parameter's gradient, of the loss before it is scaled.
inline float GradientOf(int rank, int64_t step, int parameter) {
  return static_cast<float>((rank + 1) * (step + 1) + parameter);
}

// What a worker has learnt, in host memory: kernels of a test may write there.
struct ScaledModel {
  std::vector<float> weights = std::vector<float>(kParameters);
  int64_t step = 0;
  int64_t draws = 0;  // one for each step, as its forward pass begins
  LossScale loss_scale = gradient::LossModel{}.scale();

  static ScaledModel After(int64_t steps, ReduceOp op = kOfThree) {
    gradient::LossModel loss;
    for (int64_t step = 0; step < steps; ++step) loss.Pass(Overflows(step, op));
    ScaledModel model{
        .step = steps, .draws = steps, .loss_scale = loss.scale()};
    for (int p = 0; p < kParameters; ++p) {
      for (int64_t step = 0; step < steps; ++step) {
        if (Overflows(step, op)) continue;
        for (int rank = 0; rank < (op == kOfThree ? kWorld : 1); ++rank) {
          model.weights[p] += GradientOf(rank, step, p);
        }
      }
    }
    return model;
  }
  bool operator==(const ScaledModel&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const ScaledModel& model) {
  return out << "step " << model.step << ", " << model.draws << " draws, "
             << "loss scale " << model.loss_scale.scale << " ("
             << model.loss_scale.steps_without_overflow << "), "
             << testing::PrintToString(model.weights);
}

// One rank's training in one epoch, eager or captured. Gradients become ready
// in the order of registration, the worst one for the first buckets.
class RunAheadRank {
 public:
  RunAheadRank(FakeGpuJob* job, const transport::nccl::Tables& tables,
               Session* session, ScaledModel* model, bool is_captured)
      : gpus_(job->gpus()),
        session_(*session),
        model_(*model),
        run_ahead_(static_cast<size_t>(job->spec().run_ahead)),
        is_captured_(is_captured),
        batches_(run_ahead_ + 1),
        stream_(*transport::nccl::CudaStream::Create(tables.cuda.get())) {}
  ~RunAheadRank() { (void)stream_->Synchronize(); }

  absl::Status Begin(ReduceOp op) {
    op_ = op;
    rank_ = op == kOfThree ? session_.rank() : 0;
    sync_ = *GradientSync::Create(session_);
    for (int p = 0; p < kParameters; ++p) {
      auto id = sync_->Register(
          {.name = "p" + std::to_string(p), .shape = {100}, .op = op});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
    }
    EXPECT_TRUE(absl::IsInvalidArgument(
        sync_->ScaleLossOnDevice({.growth_interval = 0})));
    absl::Status sealed =
        sync_->ScaleLossOnDevice(gradient::LossModel::kOptions);
    EXPECT_TRUE(absl::IsFailedPrecondition(sync_->ScaleLossOnDevice()));
    if (sealed.ok()) sealed = sync_->Seal();
    if (!sealed.ok()) return sealed;
    EXPECT_TRUE(absl::IsFailedPrecondition(sync_->ScaleLossOnDevice()));
    loss_scale_ = gpus_.Reach(*sync_->DeviceLossScale());
    sync_->OnMoved([this] {
      EXPECT_EQ(run_ahead_, 0u) << "each step has its views anyway";
    });
    return sealed;
  }

  // Goes on with the loss scale that the model has.
  absl::Status Restore() { return sync_->SetLossScale(model_.loss_scale); }

  // The step behind those in flight.
  absl::Status Enqueue(bool more = true) {
    const int64_t step = model_.step + static_cast<int64_t>(in_flight_.size());
    model_.draws += 1;
    const FinishOptions options{.samples = 1, .more_data = more};
    auto pending = is_captured_ ? Launch(step, options) : Eager(step, options);
    if (!pending.ok()) return pending.status();
    in_flight_.push_back(*std::move(pending));
    return absl::OkStatus();
  }

  // The verdict of the first step in flight.
  absl::StatusOr<Verdict> Await() {
    auto verdict = in_flight_.front().Wait();
    in_flight_.pop_front();
    if (verdict.ok()) {
      EXPECT_EQ(verdict->step, static_cast<uint64_t>(model_.step));
      Pass(*verdict);
    }
    return verdict;
  }
  bool is_full() const { return in_flight_.size() > run_ahead_; }
  bool is_idle() const { return in_flight_.empty(); }

  // Until a verdict is the last; how many steps behind it were void.
  int TrainToTheEnd(const std::function<bool()>& has_more) {
    absl::Status over;
    bool more = true;
    bool was_last = false;
    int voids = 0;
    while (over.ok() && more) {
      more = has_more();
      over = Enqueue(more);
      if (!over.ok()) model_.draws -= 1;
      while (is_full() && !was_last) was_last = IsLast(Await(), &voids);
    }
    while (!is_idle()) was_last |= IsLast(Await(), &voids);
    model_.draws -= voids;
    EXPECT_TRUE(was_last);
    EXPECT_TRUE(over.ok() || absl::IsCancelled(over)) << over;
    EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
    return voids;
  }

  // The epoch has ended: what it has committed is kept.
  absl::StatusOr<Recovery> Recover() {
    while (!is_idle()) (void)Await();
    (void)stream_->Synchronize();
    auto recovery = session_.Recover();
    if (!recovery.ok() || !recovery->verdict) return recovery;
    const auto factor =
        static_cast<float>(recovery->verdict->UpdateFactor(kNoLimit));
    for (int p = 0; p < kParameters && recovery->verdict->finite; ++p) {
      model_.weights[p] +=
          factor * *gpus_.Reach(sync_->Gradient<float>(ids_[p])->data());
    }
    Pass(*recovery->verdict);
    return recovery;
  }

  size_t views() const { return views_.size(); }
  void EndSync() { sync_ = nullptr; }
  // What is enqueued from now on waits.
  void StallUntil(std::function<bool()> over) {
    gpus_.StallUntil(stream_->handle(), std::move(over));
  }

 private:
  static bool IsLast(const absl::StatusOr<Verdict>& verdict, int* voids) {
    if (verdict.ok()) return verdict->IsLast();
    EXPECT_TRUE(absl::IsCancelled(verdict.status())) << verdict.status();
    *voids += 1;
    return false;
  }

  void Pass(const Verdict& verdict) {
    EXPECT_EQ(verdict.finite, !Overflows(model_.step, op_));
    EXPECT_EQ(verdict.inverse_scale, 1.0 / model_.loss_scale.scale);
    model_.loss_scale = *verdict.next_loss_scale;
    model_.step += 1;
  }

  // A gradient of the loss before it is scaled.
  float Loss(int64_t step, int parameter) const {
    const bool overflows =
        Overflows(step, op_) && OverflowingRank(step, op_) == rank_;
    return overflows && parameter == 1 ? std::numeric_limits<float>::infinity()
                                       : GradientOf(rank_, step, parameter);
  }

  absl::StatusOr<PendingVerdict> Eager(int64_t step,
                                       const FinishOptions& options) {
    return Calls(options, [=, this](int p) { return Loss(step, p); });
  }

  // A graph reads its batch, the number of the step, where its capture did.
  absl::StatusOr<PendingVerdict> Launch(int64_t step,
                                        const FinishOptions& options) {
    if (graph_ == nullptr || graph_->stale()) {
      absl::Status captured = Capture();
      if (!captured.ok()) return captured;
    }
    batches_[launches_++ % batches_.size()] = step;
    return graph_->Launch(options, *stream_);
  }

  absl::Status Capture() {
    // Their verdicts are counted when they are waited for.
    for (PendingVerdict& pending : in_flight_) (void)pending.Wait();
    launches_ = 0;
    size_t calls = 0;
    auto graph = sync_->Capture(*stream_, [&]() -> absl::Status {
      const int64_t* const batch = &batches_[calls++];
      auto pending = Calls({}, [=, this](int p) { return Loss(*batch, p); });
      if (pending.ok()) captured_.push_back(*std::move(pending));
      return pending.status();
    });
    if (!graph.ok()) return graph.status();
    graph_ = *std::move(graph);
    return absl::OkStatus();
  }

  // The calls of a step, and its update; the kernels scale `gradient_of`.
  absl::StatusOr<PendingVerdict> Calls(
      const FinishOptions& options,
      const std::function<float(int parameter)>& gradient_of) {
    std::vector<const float*> reduced;
    for (int p = 0; p < kParameters; ++p) {
      const auto view = sync_->Gradient<float>(ids_[p]);
      if (!view.ok()) return view.status();
      views_.insert(view->data());
      float* const to = gpus_.Reach(view->data());
      reduced.push_back(to);
      absl::Status done = Enqueue([=, scale = loss_scale_] {
        std::fill_n(to, 100, scale->scale * gradient_of(p));
      });
      if (done.ok()) done = sync_->Submit(ids_[p], *stream_);
      if (!done.ok()) return done;
    }
    auto pending = sync_->FinishAsync(options, kNoLimit, *stream_);
    if (!pending.ok()) return pending;
    const VerdictScalars* const scalars = gpus_.Reach(pending->scalars());
    absl::Status done = Enqueue([=, weights = model_.weights.data()] {
      if (!MayUpdate(*scalars)) return;
      const auto factor = static_cast<float>(scalars->clip);
      for (int p = 0; p < kParameters; ++p) {
        weights[p] += factor * reduced[p][99];
      }
    });
    if (!done.ok()) return done;
    return pending;
  }

  absl::Status Enqueue(std::function<void()> kernel) {
    gpus_.LaunchKernel(stream_->handle(), std::move(kernel));
    return absl::OkStatus();
  }

  fake::FakeGpus& gpus_;
  Session& session_;
  ScaledModel& model_;
  const size_t run_ahead_;
  const bool is_captured_;
  ReduceOp op_ = kOfThree;
  int rank_ = 0;
  const LossScale* loss_scale_ = nullptr;  // the device's
  std::vector<int64_t> batches_;           // one for each graph
  const std::unique_ptr<transport::nccl::CudaStream> stream_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
  std::deque<PendingVerdict> in_flight_;
  std::vector<PendingVerdict> captured_;  // scalars of graphs
  std::unique_ptr<CapturedStep> graph_;
  uint64_t launches_ = 0;  // of the graph
  std::set<const float*> views_;
};

// By run_ahead and seed; steps of even seeds are captured.
class RunAheadJobTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  RunAheadJobTest()
      : job_({.name = "job",
              .mesh = {{{"data", kWorld}}},
              .transport = "nccl",
              .buckets = {.first_bytes_max = 1, .bytes_max = 1},
              .limits = {.max_restarts = 1000},
              .run_ahead = std::get<0>(GetParam())},
             static_cast<uint64_t>(std::get<1>(GetParam()))) {}
  ~RunAheadJobTest() override {
    EXPECT_THAT(job_.gpus().violations(), testing::IsEmpty());
  }

  int run_ahead() { return job_.spec().run_ahead; }
  static bool is_captured() { return std::get<1>(GetParam()) % 2 == 0; }

  // Runs live(rank, program, model) on all workers of one epoch.
  void Epoch(
      const std::function<void(int, RunAheadRank&, ScaledModel&)>& live) {
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorld; ++i) {
      workers.emplace_back([&, i] {
        const auto tables = job_.TablesOf(i);
        auto session = job_.Join(i, tables);
        ASSERT_TRUE(session.ok()) << session.status();
        ScaledModel model;
        {
          RunAheadRank program(&job_, tables, session->get(), &model,
                               is_captured());
          const absl::Status begun = program.Begin(op_);
          ASSERT_TRUE(begun.ok()) << begun;
          live((*session)->rank(), program, model);
        }
        EXPECT_EQ((*session)->Leave(), absl::OkStatus());
      });
    }
    for (std::thread& worker : workers) worker.join();
  }

  FakeGpuJob job_;
  ReduceOp op_ = kOfThree;
};

inline std::string NameOfRunAhead(
    const testing::TestParamInfo<std::tuple<int, int>>& info) {
  const auto [run_ahead, seed] = info.param;
  return "Ahead" + std::to_string(run_ahead) +
         (seed % 2 == 0 ? "Captured" : "Eager") + "Seed" + std::to_string(seed);
}

}  // namespace lockstep::session

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_RUN_AHEAD_JOB_H_
