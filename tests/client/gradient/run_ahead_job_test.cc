// Whole jobs with steps in flight, whose devices scale the loss: GradientSync,
// the session and the real coordinator core, on fake GPUs.

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/nccl/cuda_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/captured_step.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/state_replicas.h"
#include "tests/client/gradient/loss_model.h"
#include "tests/support/failing_calls.h"
#include "tests/support/fake_gpu_job.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::session {
namespace {

using gradient::LossModel;
using testing::IsEmpty;
using transport::nccl::CudaStream;

constexpr int kParameters = 3;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// What ranks compute and how it is reduced. Sums of three ranks; for jobs whose
// size changes means of gradients that are equal on all ranks.
constexpr ReduceOp kOfThree = ReduceOp::kSum;
constexpr ReduceOp kOfAny = ReduceOp::kMean;
constexpr int kWorld = 3;

// Each fifth step is not finite, because of one rank. Where all ranks compute
// the same, they do so as rank 0.
bool Overflows(int64_t step, ReduceOp op) {
  return step % 5 == 3 && (op == kOfThree || step % 2 == 1);
}
int OverflowingRank(int64_t step, ReduceOp op) {
  return op == kOfThree ? static_cast<int>(step / 5 % kWorld) : 0;
}

// Each element of a parameter's gradient, of the loss before it is scaled.
float GradientOf(int rank, int64_t step, int parameter) {
  return static_cast<float>((rank + 1) * (step + 1) + parameter);
}

// What a worker has learnt, in host memory: kernels of a test may write there.
struct Model {
  std::vector<float> weights = std::vector<float>(kParameters);
  int64_t step = 0;
  int64_t draws = 0;  // one for each step, as its forward pass begins
  LossScale loss_scale = LossModel{}.scale();

  static Model After(int64_t steps, ReduceOp op = kOfThree) {
    LossModel loss;
    for (int64_t step = 0; step < steps; ++step) loss.Pass(Overflows(step, op));
    Model model{.step = steps, .draws = steps, .loss_scale = loss.scale()};
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
  bool operator==(const Model&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Model& model) {
  return out << "step " << model.step << ", " << model.draws << " draws, "
             << "loss scale " << model.loss_scale.scale << " ("
             << model.loss_scale.steps_without_overflow << "), "
             << testing::PrintToString(model.weights);
}

// One rank's training in one epoch, eager or captured. Gradients become ready
// in the order of registration, the worst one for the first buckets.
class Program {
 public:
  Program(FakeGpuJob* job, const transport::nccl::Tables& tables,
          Session* session, Model* model, bool is_captured)
      : gpus_(job->gpus()),
        session_(*session),
        model_(*model),
        run_ahead_(static_cast<size_t>(job->spec().run_ahead)),
        is_captured_(is_captured),
        batches_(run_ahead_ + 1),
        stream_(*CudaStream::Create(tables.cuda.get())) {}
  ~Program() { (void)stream_->Synchronize(); }

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
    absl::Status sealed = sync_->ScaleLossOnDevice(LossModel::kOptions);
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
  Model& model_;
  const size_t run_ahead_;
  const bool is_captured_;
  ReduceOp op_ = kOfThree;
  int rank_ = 0;
  const LossScale* loss_scale_ = nullptr;  // the device's
  std::vector<int64_t> batches_;           // one for each graph
  const std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
  std::deque<PendingVerdict> in_flight_;
  std::vector<PendingVerdict> captured_;  // scalars of graphs
  std::unique_ptr<CapturedStep> graph_;
  uint64_t launches_ = 0;  // of the graph
  std::set<const float*> views_;
};

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
    EXPECT_THAT(job_.gpus().violations(), IsEmpty());
  }

  int run_ahead() { return job_.spec().run_ahead; }
  static bool is_captured() { return std::get<1>(GetParam()) % 2 == 0; }

  // Runs live(rank, program, model) on all workers of one epoch.
  void Epoch(const std::function<void(int, Program&, Model&)>& live) {
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorld; ++i) {
      workers.emplace_back([&, i] {
        const auto tables = job_.TablesOf(i);
        auto session = job_.Join(i, tables);
        ASSERT_TRUE(session.ok()) << session.status();
        Model model;
        {
          Program program(&job_, tables, session->get(), &model, is_captured());
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

// Buckets are cut again after the first step, while others are in flight.
TEST_P(RunAheadJobTest, BucketsMoveBetweenSteps) {
  std::atomic<int> moved{0};
  Epoch([&](int rank, Program& program, Model& model) {
    int64_t steps = 0;
    bool has_moved = false;
    const int voids = program.TrainToTheEnd([&] {
      const auto views = static_cast<size_t>(kParameters * (run_ahead() + 1));
      if (!has_moved && program.views() > views) {
        has_moved = true;
        ++moved;
      }
      // All of them go on for a while, with the new buckets.
      const bool enough = moved == kWorld || steps > 20'000;
      return rank != 0 || !enough || ++steps % 5 != 0;
    });
    EXPECT_LE(voids, run_ahead());
    EXPECT_EQ(model, Model::After(model.step));
  });
  EXPECT_EQ(moved, kWorld);
}

TEST_P(RunAheadJobTest, PausesAndIsDrained) {
  std::atomic<int64_t> enqueued{0};
  std::thread operators([&] {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    const auto await = [&](const std::function<bool()>& condition) {
      while (!condition() && absl::Now() < deadline) std::this_thread::yield();
      EXPECT_TRUE(condition());
    };
    await([&] { return enqueued > 5; });
    EXPECT_EQ(job_.Ask(JobCommand::kPause), absl::OkStatus());
    await([&] {
      const auto workers = job_.Describe().workers;
      return std::all_of(workers.begin(), workers.end(),
                         [](const WorkerView& w) { return w.paused; });
    });
    const int64_t then = enqueued;
    absl::SleepFor(absl::Milliseconds(20));
    // What does not need the verdict at which they pause.
    EXPECT_LE(enqueued, then + kWorld * run_ahead());
    EXPECT_EQ(job_.Ask(JobCommand::kResume), absl::OkStatus());
    await([&] { return enqueued > then + 9; });
    EXPECT_EQ(job_.Ask(JobCommand::kDrain), absl::OkStatus());
  });
  std::vector<int64_t> steps(kWorld);
  Epoch([&](int rank, Program& program, Model& model) {
    const int voids = program.TrainToTheEnd([&] {
      ++enqueued;
      return true;
    });
    EXPECT_EQ(voids, 0);
    EXPECT_EQ(model, Model::After(model.step));
    steps[rank] = model.step;
  });
  operators.join();
  EXPECT_EQ(steps, std::vector<int64_t>(kWorld, steps[0]));
}

TEST_P(RunAheadJobTest, StepsBehindTheLastBatchAreVoid) {
  Epoch([&](int rank, Program& program, Model& model) {
    int64_t batches = 7 + 2 * rank;
    program.TrainToTheEnd([&] { return --batches > 0; });
    EXPECT_EQ(model, Model::After(7));
  });
}

// Memory for new buckets is taken, and events are recorded, once a test lets
// them.
class HeldCalls final : public fake::ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;

  Result Malloc(void** memory, size_t bytes) override {
    char thread[16] = "";
    pthread_getname_np(pthread_self(), thread, sizeof(thread));
    if (std::string(thread) == "ls-revise") {
      wants_memory_ = true;
      while (holds_memory_) absl::SleepFor(absl::Milliseconds(1));
    }
    return ForwardingCuda::Malloc(memory, bytes);
  }
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    while (holds_records_) absl::SleepFor(absl::Milliseconds(1));
    return ForwardingCuda::EventRecord(event, stream);
  }
  bool wants_memory() const { return wants_memory_; }
  void GiveMemory() { holds_memory_ = false; }
  void HoldRecords(bool hold) { holds_records_ = hold; }

 private:
  std::atomic<bool> holds_records_{false};
  std::atomic<bool> wants_memory_{false};
  std::atomic<bool> holds_memory_{true};
};

class RunAheadVoidStepTest : public RunAheadJobTest {};

// A rank that has left hears nothing of a peer that fails behind the last step,
// and its device waits for the void step of that peer.
TEST_P(RunAheadVoidStepTest, ARankEndsWhosePeerLaunchesNone) {
  constexpr int kSteps = 5;
  job_.spec().mesh = {{{"data", 2}}};
  op_ = kOfAny;
  std::array<fake::FailingCalls, 2> calls;
  std::atomic<bool> fails{false};     // all calls of the first rank
  std::atomic<bool> has_left{false};  // the second one
  std::vector<std::thread> workers;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back([&, i] {
      auto tables = job_.TablesOf(i);
      calls[i].Decorate(&tables);
      const auto held = std::make_shared<HeldCalls>(tables.cuda);
      tables.cuda = held;
      auto session = job_.Join(i, tables);
      ASSERT_TRUE(session.ok()) << session.status();
      Model model;
      Program program(&job_, tables, session->get(), &model, false);
      ASSERT_EQ(program.Begin(op_), absl::OkStatus());
      const bool is_first = (*session)->rank() == 0;
      absl::Status enqueued;
      for (int step = 0; enqueued.ok() && step < kSteps; ++step) {
        if (step == kSteps - 1) {
          // Buckets are cut again in the order of the first step.
          while (!held->wants_memory()) absl::SleepFor(absl::Milliseconds(1));
          if (is_first) program.StallUntil([&] { return fails.load(); });
        }
        enqueued = program.Enqueue(step + 1 < kSteps);
        if (program.is_full()) {
          ASSERT_TRUE(program.Await().ok());
        }
      }
      if (is_first) {
        calls[i].FailLastingly();
        calls[i].FailAt(1, /*captured=*/false);
        held->HoldRecords(true);
        fails = true;
        while (!has_left) absl::SleepFor(absl::Milliseconds(1));
        held->HoldRecords(false);
      }
      bool was_last = false;
      while (!program.is_idle()) {
        const auto verdict = program.Await();
        was_last |= verdict.ok() && verdict->IsLast();
      }
      EXPECT_TRUE(was_last);
      (void)(*session)->Leave();
      has_left = true;
      held->GiveMemory();
      absl::SleepFor(absl::Milliseconds(50));
      program.EndSync();
      calls[i].End();
    });
  }
  for (std::thread& worker : workers) worker.join();
}

// --- The end of an epoch -----------------------------------------------------

// Where in a step a worker dies, or fails and stays.
enum class Point { kBeforeIt, kBehindIt, kBehindAVerdict };
struct StepFault {
  int worker;
  Point point;
  bool dies;
};

class RunAheadRecoveryTest : public RunAheadJobTest {
 protected:
  // A worker's process, and those that replace it: until it has trained to the
  // end.
  Model Work(int worker) {
    auto model = std::make_unique<Model>();
    auto tables = job_.TablesOf(worker);
    calls_[worker].Decorate(&tables);
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
    const auto draws = session.RegisterScalar("draws", &model.draws);
    ready.Update(session.SetStepScoped(*draws));
    LossScale& scale = model.loss_scale;
    ready.Update(session.RegisterScalar("scale", &scale.scale).status());
    ready.Update(
        session.RegisterScalar("scale_steps", &scale.steps_without_overflow)
            .status());
    if (!ready.ok()) return ready;

    Program program(&job_, tables, &session, &model, is_captured());
    ready = program.Begin(op_);
    if (ready.ok()) ready = replicas->Resume().status();
    if (ready.ok()) ready = program.Restore();
    if (ready.ok()) ready = Train(worker, session, program, model);
    const bool failed_here = calls_[worker].End();
    if (ready.ok()) return session.Leave();
    if (absl::IsUnknown(ready)) return ready;
    // The epoch may go on without the call that failed.
    if (failed_here) session.ReportFailure("a call", ready);
    auto recovery = program.Recover();
    if (!recovery.ok()) return recovery.status();
    if (recovery->holds_state) {
      EXPECT_EQ(model,
                Model::After(static_cast<int64_t>(recovery->steps), op_));
    }
    *recovered = *recovery;
    return absl::OkStatus();
  }

  // Unknown: it dies.
  absl::Status Train(int worker, Session& session, Program& program,
                     Model& model) {
    int64_t step = model.step;
    const auto fail = [&](Point point) {
      const auto fault = Take(worker, step, point);
      if (!fault) return absl::OkStatus();
      if (fault->dies) return absl::UnknownError("it dies");
      session.ReportFailure("Test", absl::InternalError("injected"));
      return absl::InternalError("injected");
    };
    absl::Status done;
    for (; done.ok() && step < steps_; ++step) {
      if (before_step_) before_step_(step);
      if (const int call = TakeCall(worker, step); call > 0) {
        calls_[worker].FailAt(call, /*captured=*/false);
      }
      done = fail(Point::kBeforeIt);
      if (done.ok()) done = program.Enqueue();
      if (done.ok()) done = fail(Point::kBehindIt);
      if (!done.ok() || !program.is_full()) continue;
      done = program.Await().status();
      if (done.ok()) done = fail(Point::kBehindAVerdict);
    }
    while (done.ok() && !program.is_idle()) done = program.Await().status();
    return done;
  }

  // An operator's commands, at any time.
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

  std::optional<StepFault> Take(int worker, int64_t step, Point point) {
    MutexLock lock(&mutex_);
    const auto found = faults_.find(step);
    if (found == faults_.end()) return std::nullopt;
    const StepFault fault = found->second;
    if (fault.worker != worker || fault.point != point) return std::nullopt;
    faults_.erase(found);
    return fault;
  }

  // The call that fails from now on; 0: none.
  int TakeCall(int worker, int64_t step) {
    MutexLock lock(&mutex_);
    const auto found = failing_.find({worker, step});
    if (found == failing_.end()) return 0;
    const int call = found->second;
    failing_.erase(found);
    return call;
  }

  std::vector<Model> WorkAll() {
    std::vector<std::thread> workers;
    std::vector<Model> models(kWorld);
    for (int i = 0; i < kWorld; ++i) {
      workers.emplace_back([this, i, &models] { models[i] = Work(i); });
    }
    for (std::thread& worker : workers) worker.join();
    return models;
  }

  int64_t steps_ = 12;
  std::function<void(int64_t step)> before_step_;
  Mutex mutex_;
  std::map<int64_t, StepFault> faults_;  // by step, each once
  std::array<fake::FailingCalls, 4> calls_;
  std::map<std::pair<int, int64_t>, int> failing_;  // by worker and step
};

TEST_P(RunAheadRecoveryTest, AnyFaultsAndCommandsEndInTheSameState) {
  std::mt19937 random(static_cast<unsigned>(std::get<1>(GetParam())));
  std::atomic<bool> is_over{false};
  std::thread operators([&, seed = random()] { Command(seed, is_over); });
  for (int64_t step = 1; step < steps_ - 1; ++step) {
    if (random() % 3 != 0) continue;
    faults_[step] = {static_cast<int>(random() % kWorld),
                     static_cast<Point>(random() % 3), random() % 3 == 0};
  }
  const std::vector<Model> models = WorkAll();
  is_over = true;
  operators.join();
  EXPECT_EQ(models, std::vector<Model>(kWorld, Model::After(steps_)));
}

// Calls of CUDA fail, early or late, and the devices go on.
TEST_P(RunAheadRecoveryTest, AnyCallsThatFailEndInTheSameState) {
  std::mt19937 random(static_cast<unsigned>(std::get<1>(GetParam())));
  steps_ = 30;
  for (fake::FailingCalls& calls : calls_) {
    if (random() % 2 == 0) calls.FailLate();
  }
  for (int64_t step = 1; step < steps_ - 1; ++step) {
    const int worker = static_cast<int>(random() % kWorld);
    if (random() % 2 == 0) {
      failing_[{worker, step}] = 1 + static_cast<int>(random() % 60);
    }
  }
  EXPECT_EQ(WorkAll(), std::vector<Model>(kWorld, Model::After(steps_)));
}

class RunAheadGrowthTest : public RunAheadRecoveryTest {};

// Two workers begin, and two more join them.
TEST_P(RunAheadGrowthTest, AJobGrowsBehindTheStepsInFlight) {
  constexpr int kLargest = 4;
  op_ = kOfAny;
  steps_ = 30;
  job_.spec().mesh = {{{"data", kLargest}}};
  job_.spec().elastic = {.axis = "data", .min_workers = 2};
  job_.spec().timeouts.join = absl::Milliseconds(500);
  const auto await = [this](const std::function<bool(const JobView&)>& is) {
    for (const absl::Time end = absl::Now() + absl::Seconds(30);
         absl::Now() < end;) {
      const auto view = job_.server().Describe("job");
      if (view.ok() && is(*view)) return;
      absl::SleepFor(absl::Milliseconds(1));
    }
    ADD_FAILURE() << "waited for 30 s";
  };
  before_step_ = [&](int64_t step) {
    // From then on it takes its time, so that growth comes before the end.
    if (step > 9) absl::SleepFor(absl::Milliseconds(5));
    if (step != 9) return;
    await([](const JobView& view) { return view.workers.size() == kLargest; });
  };
  std::vector<std::thread> workers;
  std::vector<Model> models(kLargest);
  for (int i = 0; i < kLargest; ++i) {
    workers.emplace_back([&, i] {
      if (i >= 2) await([](const JobView& view) { return view.step >= 2; });
      models[i] = Work(i);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(models, std::vector<Model>(kLargest, Model::After(steps_, kOfAny)));
  EXPECT_GE(job_.Describe().epoch, EpochId{2});
}

std::string NameOf(const testing::TestParamInfo<std::tuple<int, int>>& info) {
  const auto [run_ahead, seed] = info.param;
  return "Ahead" + std::to_string(run_ahead) +
         (seed % 2 == 0 ? "Captured" : "Eager") + "Seed" + std::to_string(seed);
}

INSTANTIATE_TEST_SUITE_P(Over, RunAheadJobTest,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(1, 2)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Over, RunAheadVoidStepTest,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(1)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Seeds, RunAheadRecoveryTest,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::Range(0, 4)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Over, RunAheadGrowthTest,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::Values(1, 2)),
                         NameOf);

}  // namespace
}  // namespace lockstep::session
