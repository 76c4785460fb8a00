// Whole jobs whose programs launch graphs of their own: GradientSync, the
// session and the real coordinator core, on fake GPUs.

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/replayed_steps.h"
#include "lockstep/state_replicas.h"
#include "tests/support/fake_gpu_job.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using transport::nccl::CudaResult;
using transport::nccl::CudaStream;
using transport::nccl::DeviceScope;

constexpr int kWorld = 3;
constexpr int kParameters = 3;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

float GradientOf(int rank, int64_t step, int parameter) {
  return static_cast<float>((rank + 1) * (step + 1) + parameter);
}

// What a worker has learnt; kernels of a test may write host memory.
struct Model {
  std::vector<float> weights = std::vector<float>(kParameters);
  int64_t step = 0;

  static Model After(int64_t steps) {
    Model model{.step = steps};
    for (int p = 0; p < kParameters; ++p) {
      for (int64_t step = 0; step < steps; ++step) {
        for (int rank = 0; rank < kWorld; ++rank) {
          model.weights[p] += GradientOf(rank, step, p);
        }
      }
    }
    return model;
  }
  bool operator==(const Model&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Model& model) {
  return out << "step " << model.step << ", "
             << testing::PrintToString(model.weights);
}

// One rank's training in one epoch. The graph reads which step it is from the
// model, whose update is part of it: so a void launch is repeated by the next.
class Program {
 public:
  Program(FakeGpuJob* job, transport::nccl::Tables tables, Session* session,
          Model* model)
      : gpus_(job->gpus()),
        tables_(std::move(tables)),
        session_(*session),
        model_(*model),
        stream_(*CudaStream::Create(tables_.cuda.get())) {}
  ~Program() {
    (void)stream_->Synchronize();
    DestroyGraph();
  }

  absl::Status Begin() {
    sync_ = *GradientSync::Create(session_);
    for (int p = 0; p < kParameters; ++p) {
      auto id = sync_->Register({.name = "p" + std::to_string(p),
                                 .shape = {100},
                                 .op = ReduceOp::kSum});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
    }
    return sync_->Seal();
  }

  absl::Status Capture() {
    auto replays = sync_->BeginReplays();
    if (!replays.ok()) return replays.status();
    replays_ = *std::move(replays);
    const DeviceScope scope(*tables_.cuda);
    EXPECT_EQ(tables_.cuda->StreamBeginCapture(stream_->handle()),
              CudaResult::kSuccess);
    absl::Status joined = replays_->JoinCapture(*stream_);
    if (joined.ok()) joined = Step({.samples = 1}).status();
    replays_->LeaveCapture();
    transport::nccl::CudaGraphHandle graph = nullptr;
    const CudaResult ended =
        tables_.cuda->StreamEndCapture(stream_->handle(), &graph);
    if (!joined.ok()) return joined;
    EXPECT_EQ(ended, CudaResult::kSuccess);
    EXPECT_EQ(tables_.cuda->GraphInstantiate(&exec_, graph),
              CudaResult::kSuccess);
    tables_.cuda->GraphDestroy(graph);
    return absl::OkStatus();
  }

  // Passes one step more, with up to kAhead launches of which the host knows
  // nothing, none of them behind step `last`.
  absl::Status Pass(int64_t last) {
    for (;;) {
      // Before Next is asked: what passed before is known then.
      const bool all_decided = replays_->decided() == launched_;
      const auto next = replays_->Next(absl::Milliseconds(1));
      if (next.ok()) {
        EXPECT_GE(next->launch, returned_);
        returned_ = next->launch + 1;
        passed_ = static_cast<int64_t>(next->verdict.step) + 1;
        return absl::OkStatus();
      }
      if (!absl::IsDeadlineExceeded(next.status())) return next.status();
      if (all_decided) returned_ = launched_;  // the others were void
      while (launched_ - returned_ < kAhead &&
             passed_ + static_cast<int64_t>(launched_ - returned_) < last) {
        const DeviceScope scope(*tables_.cuda);
        EXPECT_EQ(tables_.cuda->GraphLaunch(exec_, stream_->handle()),
                  CudaResult::kSuccess);
        ++launched_;
      }
    }
  }
  void SetPassed(int64_t steps) { passed_ = steps; }
  int64_t passed() const { return passed_; }
  uint64_t launched() const { return launched_; }

  absl::StatusOr<Verdict> EagerStep(const FinishOptions& options) {
    auto pending = Step(options);
    if (!pending.ok()) return pending.status();
    return pending->Wait();
  }

  // The epoch has ended: what it has committed is kept.
  absl::StatusOr<Recovery> Recover() {
    if (exec_ != nullptr) {
      const absl::Status refused = session_.Recover().status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(refused.message(), HasSubstr("CUDA graphs"));
    }
    (void)stream_->Synchronize();
    DestroyGraph();
    auto recovery = session_.Recover();
    if (!recovery.ok() || !recovery->verdict) return recovery;
    const auto factor =
        static_cast<float>(recovery->verdict->UpdateFactor(kNoLimit));
    for (int p = 0; p < kParameters; ++p) {
      model_.weights[p] +=
          factor * *gpus_.Reach(sync_->Gradient<float>(ids_[p])->data());
    }
    model_.step += 1;
    return recovery;
  }

  absl::Status Synchronize() { return stream_->Synchronize(); }

 private:
  static constexpr uint64_t kAhead = 5;

  absl::StatusOr<PendingVerdict> Step(const FinishOptions& options) {
    std::vector<const float*> reduced;
    for (int p = 0; p < kParameters; ++p) {
      const auto view = sync_->Gradient<float>(ids_[p]);
      if (!view.ok()) return view.status();
      float* const to = gpus_.Reach(view->data());
      reduced.push_back(to);
      Enqueue([=, this, rank = session_.rank()] {
        std::fill_n(to, 100, GradientOf(rank, model_.step, p));
      });
      absl::Status done = sync_->Submit(ids_[p], *stream_);
      if (!done.ok()) return done;
    }
    auto pending = sync_->FinishAsync(options, kNoLimit, *stream_);
    if (!pending.ok()) return pending;
    const VerdictScalars* const scalars = gpus_.Reach(pending->scalars());
    Enqueue([=, this] {
      if (!MayUpdate(*scalars)) return;
      for (int p = 0; p < kParameters; ++p) {
        model_.weights[p] += static_cast<float>(scalars->clip) * reduced[p][99];
      }
      model_.step += 1;
    });
    return pending;
  }

  void Enqueue(std::function<void()> kernel) {
    gpus_.LaunchKernel(stream_->handle(), std::move(kernel));
  }

  void DestroyGraph() {
    if (exec_ == nullptr) return;
    const DeviceScope scope(*tables_.cuda);
    tables_.cuda->GraphExecDestroy(std::exchange(exec_, nullptr));
  }

  fake::FakeGpus& gpus_;
  const transport::nccl::Tables tables_;
  Session& session_;
  Model& model_;
  const std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<ReplayedSteps> replays_;
  std::vector<ParameterId> ids_;
  transport::nccl::CudaGraphExecHandle exec_ = nullptr;
  uint64_t launched_ = 0, returned_ = 0;
  int64_t passed_ = 0;
};

class ReplayJobTest : public testing::TestWithParam<int> {
 protected:
  ReplayJobTest()
      : job_({.name = "job",
              .mesh = {{{"data", kWorld}}},
              .transport = "nccl",
              .buckets = {.first_bytes_max = 1, .bytes_max = 1},
              .limits = {.max_restarts = 1000}},
             static_cast<uint64_t>(GetParam())) {}
  ~ReplayJobTest() override {
    EXPECT_THAT(job_.gpus().violations(), IsEmpty());
  }

  // A worker's process, and those that replace it: until it has trained to the
  // end.
  Model Work(int worker) {
    auto model = std::make_unique<Model>();
    const auto tables = job_.TablesOf(worker);
    std::optional<Recovery> recovered;
    while (model->step < steps_) {
      auto session = job_.Join(worker, tables, recovered);
      EXPECT_TRUE(session.ok()) << session.status();
      if (!session.ok()) break;
      const absl::Status lived =
          Live(worker, tables, **session, *model, &recovered);
      if (absl::IsUnknown(lived)) {
        session->reset();
        model = std::make_unique<Model>();
        recovered.reset();
      } else if (!lived.ok()) {
        ADD_FAILURE() << lived;
        break;
      }
    }
    return *model;
  }

  // One epoch of a worker. Unknown: it dies.
  absl::Status Live(int worker, const transport::nccl::Tables& tables,
                    Session& session, Model& model,
                    std::optional<Recovery>* recovered) {
    auto replicas = *StateReplicas::Create(session);
    absl::Status ready =
        session
            .RegisterState({.name = "w", .shape = {kParameters}},
                           model.weights.data())
            .status();
    ready.Update(session.RegisterScalar("step", &model.step).status());
    if (!ready.ok()) return ready;
    Program program(&job_, tables, &session, &model);
    ready = program.Begin();
    if (ready.ok()) ready = replicas->Resume().status();
    if (ready.ok()) ready = program.Capture();
    if (ready.ok()) ready = Train(worker, session, program, model);
    if (ready.ok()) return session.Leave();
    if (absl::IsUnknown(ready)) return ready;
    auto recovery = program.Recover();
    if (!recovery.ok()) {
      return absl::InternalError(absl::StrCat(recovery.status().ToString(),
                                              "; after ", ready.ToString()));
    }
    if (recovery->holds_state) {
      EXPECT_EQ(model, Model::After(static_cast<int64_t>(recovery->steps)));
    }
    *recovered = *recovery;
    return absl::OkStatus();
  }

  // Unknown: it dies. The last step is eager.
  absl::Status Train(int worker, Session& session, Program& program,
                     const Model& model) {
    program.SetPassed(model.step);
    while (program.passed() < steps_ - 1) {
      if (const auto dies = Take(worker, program.passed()); dies) {
        if (*dies) return absl::UnknownError("it dies");
        session.ReportFailure("Test", absl::InternalError("injected"));
        return absl::InternalError("injected");
      }
      if (absl::Status passed = program.Pass(steps_ - 1); !passed.ok()) {
        return passed;
      }
    }
    auto last = program.EagerStep({.samples = 1, .more_data = false});
    if (!last.ok()) return last.status();
    EXPECT_TRUE(last->IsLast());
    return program.Synchronize();
  }

  void Command(uint64_t seed, const std::atomic<bool>& is_over) {
    std::mt19937_64 random(seed);
    while (!is_over) {
      const auto command = static_cast<JobCommand>(1 + random() % 6);
      // Those that do not end the job.
      if (command != JobCommand::kStop && command != JobCommand::kDrain) {
        (void)job_.Ask(command);
      }
      absl::SleepFor(absl::Milliseconds(random() % 10));
      (void)job_.Ask(JobCommand::kResume);
      absl::SleepFor(absl::Milliseconds(random() % 10));
    }
  }

  // Whether a fault is due, and whether the worker dies.
  std::optional<bool> Take(int worker, int64_t step) {
    MutexLock lock(&mutex_);
    const auto found = faults_.find(step);
    if (found == faults_.end() || found->second.first != worker) {
      return std::nullopt;
    }
    const bool dies = found->second.second;
    faults_.erase(found);
    return dies;
  }

  FakeGpuJob job_;
  int64_t steps_ = 16;
  Mutex mutex_;
  std::map<int64_t, std::pair<int, bool>> faults_;  // by step, each once
};

INSTANTIATE_TEST_SUITE_P(Seeds, ReplayJobTest, testing::Range(1, 7));

TEST_P(ReplayJobTest, AnyFaultsAndCommandsEndInTheSameState) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  std::atomic<bool> is_over{false};
  std::thread operators([&, seed = random()] { Command(seed, is_over); });
  for (int64_t step = 1; step < steps_ - 1; ++step) {
    if (random() % 4 != 0) continue;
    // Several may die before the first of them is noticed, but not all.
    const int worker = static_cast<int>(random() % kWorld);
    faults_[step] = {worker, worker != 0 && random() % 2 == 0};
  }
  std::vector<std::thread> workers;
  std::vector<Model> models(kWorld);
  for (int i = 0; i < kWorld; ++i) {
    workers.emplace_back([this, i, &models] { models[i] = Work(i); });
  }
  for (std::thread& worker : workers) worker.join();
  is_over = true;
  operators.join();
  EXPECT_EQ(models, std::vector<Model>(kWorld, Model::After(steps_)));
}

}  // namespace
}  // namespace lockstep::session
