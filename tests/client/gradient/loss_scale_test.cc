// A loss scale on the device, on fake GPUs: the backward pass reads it there,
// any rank's gradients overflow in any step, and scales, skipped steps and
// weights are those of a model.

#include "client/gradient/loss_scale.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/gradient/disagreement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/client/gradient/damaged_record.h"
#include "tests/client/gradient/loss_model.h"
#include "tests/support/inproc_world.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 2;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

enum class Calls { kEager, kCaptured, kMixed };

// A gradient that overflows, or kNobody.
constexpr int kNobody = -1;
struct Overflow {
  int rank = kNobody;
  int parameter = 0;
  bool is_nan = false;
};

std::vector<Overflow> RandomOverflows(uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  std::vector<Overflow> overflows(steps);
  for (Overflow& overflow : overflows) {
    if (random() % 4 != 0) continue;
    overflow = {.rank = static_cast<int>(random() % kRanks),
                .parameter = static_cast<int>(random() % 2),
                .is_nan = random() % 2 == 0};
  }
  return overflows;
}

// A gradient of the loss before it is scaled.
float GradientOf(int rank, uint64_t step) {
  return static_cast<float>((rank + 1) * (step % 7 + 1));
}

BackendJob::Options OptionsFor(int run_ahead) {
  return {.world = kRanks,
          .parameters = {{.name = "w", .shape = {3}, .op = ReduceOp::kSum},
                         {.name = "v", .shape = {2}, .op = ReduceOp::kSum}},
          .policy = {.first_bytes_max = 1, .bytes_max = 1},
          .run_ahead = run_ahead,
          .loss_scale = [](int) { return LossModel::Begin(); }};
}

// A rank whose kernels number the steps, so that a graph needs no other batch.
class Rank {
 public:
  Rank(BackendJob* job, int rank, bool in_views,
       const std::vector<Overflow>* overflows)
      : job_(*job),
        rank_(rank),
        in_views_(in_views),
        overflows_(*overflows),
        engine_(job->engine(rank)),
        stream_(job->MakeStream(rank)),
        address_(*engine_.DeviceAddressOfLossScale()),
        scale_(reinterpret_cast<const LossScale*>(job->Reach(address_))),
        weights_(job->Buffer(rank, {0, 0, 0})) {
    buffers_.push_back(job->Buffer(rank, {0, 0, 0}));
    buffers_.push_back(job->Buffer(rank, {0, 0}));
  }
  ~Rank() { (void)stream_->Synchronize(); }

  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Step(
      const FinishOptions& options = {.samples = 1}) {
    EXPECT_EQ(*engine_.DeviceAddressOfLossScale(), address_);
    const float* reduced = nullptr;
    for (const int p : {1, 0}) {
      const auto view = engine_.View(p);
      if (!view.ok()) return view.status();
      if (p == 0) reduced = job_.Floats(view->data());
      std::byte* const at = in_views_ ? view->data() : buffers_[p].data();
      Backward(p, job_.Floats(at), view->size() / sizeof(float));
      absl::Status done =
          engine_.Submit(p, in_views_ ? nullptr : at,
                         in_views_ ? 0 : view->size(), stream_.get());
      if (!done.ok()) return done;
    }
    auto pending = engine_.Finish(options, kNoLimit, stream_.get());
    if (pending.ok()) Update(**pending, reduced);
    return pending;
  }

  absl::Status Capture() {
    auto graph = engine_.Capture(*stream_, [this]() -> absl::Status {
      const auto state = Step();
      if (state.ok()) captured_.push_back(*state);
      return state.status();
    });
    if (graph.ok()) graph_ = *std::move(graph);
    return graph.status();
  }
  absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Launch(
      const FinishOptions& options) {
    return engine_.Launch(graph_, options, *stream_);
  }

  absl::Status Synchronize() { return stream_->Synchronize(); }
  std::vector<float> weights() {
    EXPECT_EQ(Synchronize(), absl::OkStatus());
    return job_.Get(weights_.data(), 3);
  }
  // Those that the backward passes have read, twice in each step.
  const std::vector<float>& scales() const { return scales_; }
  LossScale device_scale() const { return *scale_; }

 private:
  void Backward(int p, float* to, size_t count) {
    job_.Enqueue(*stream_, [=, this] {
      const Overflow& overflow = overflows_[step_];
      scales_.push_back(scale_->scale);
      std::fill_n(to, count, scale_->scale * GradientOf(rank_, step_));
      if (overflow.rank == rank_ && overflow.parameter == p) {
        to[count - 1] = overflow.is_nan
                            ? std::numeric_limits<float>::quiet_NaN()
                            : std::numeric_limits<float>::infinity();
      }
      if (p == 0) ++step_;
    });
  }

  void Update(PendingVerdict::State& verdict, const float* reduced) {
    const auto* const scalars =
        reinterpret_cast<const VerdictScalars*>(job_.Reach(verdict.scalars()));
    float* const weights = job_.Floats(weights_.data());
    job_.Enqueue(*stream_, [=] {
      if (!MayUpdate(*scalars)) return;
      const auto factor = static_cast<float>(scalars->clip);
      for (int i = 0; i < 3; ++i) weights[i] += factor * reduced[i];
    });
  }

  BackendJob& job_;
  const int rank_;
  const bool in_views_;
  const std::vector<Overflow>& overflows_;
  Engine& engine_;
  const std::unique_ptr<Stream> stream_;
  const LossScale* const address_;
  const LossScale* const scale_;  // as kernels of the test reach it
  const ArenaBuffer weights_;
  std::vector<ArenaBuffer> buffers_;
  std::vector<std::shared_ptr<PendingVerdict::State>> captured_;
  std::shared_ptr<Captured> graph_;
  // Kernels use these.
  uint64_t step_ = 0;
  std::vector<float> scales_;
};

// The sums of all ranks, of the steps that do not overflow.
float WeightAfter(const std::vector<Overflow>& overflows, size_t steps) {
  float sum = 0;
  for (size_t step = 0; step < steps; ++step) {
    if (overflows[step].rank != kNobody) continue;
    for (int rank = 0; rank < kRanks; ++rank) sum += GradientOf(rank, step);
  }
  return sum;
}

void ExpectVerdict(const absl::StatusOr<Verdict>& verdict,
                   const LossScale& used, const LossScale& next,
                   bool overflows) {
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(verdict->committed);
  EXPECT_EQ(verdict->finite, !overflows);
  EXPECT_EQ(verdict->inverse_scale, 1.0 / used.scale);
  EXPECT_EQ(verdict->UpdateFactor(kNoLimit), 1.0 / used.scale);
  ASSERT_TRUE(verdict->next_loss_scale.has_value());
  EXPECT_EQ(*verdict->next_loss_scale, next);
}

// --- Steps -------------------------------------------------------------------

using Case = std::tuple<int, Calls, bool>;
class DeviceLossScaleTest : public testing::TestWithParam<Case> {
 protected:
  static int ahead() { return std::get<0>(GetParam()); }
  static bool in_views() { return std::get<2>(GetParam()); }
  static bool IsCaptured(int step) {
    const Calls calls = std::get<1>(GetParam());
    return calls == Calls::kCaptured ||
           (calls == Calls::kMixed && step / 4 % 2 == 1);
  }
};

TEST_P(DeviceLossScaleTest, ScalesAndWeightsAreThoseOfTheModel) {
  constexpr int kSteps = 40;
  for (uint64_t seed = 1; seed <= (kUnderThreadSanitizer ? 2 : 4); ++seed) {
    FakeGpuBackend backend(seed);
    BackendJob job(&backend, OptionsFor(ahead()));
    const std::vector<Overflow> overflows = RandomOverflows(seed, kSteps);
    job.Run([&](int r, Engine& engine) {
      Rank rank(&job, r, in_views(), &overflows);
      if (std::get<1>(GetParam()) != Calls::kEager) {
        ASSERT_EQ(rank.Capture(), absl::OkStatus());
      }
      std::vector<std::shared_ptr<PendingVerdict::State>> pending;
      for (int step = 0; step < kSteps; ++step) {
        const FinishOptions options{.samples = 1,
                                    .more_data = step + 1 < kSteps};
        auto state =
            IsCaptured(step) ? rank.Launch(options) : rank.Step(options);
        ASSERT_TRUE(state.ok()) << state.status();
        pending.push_back(*state);
      }
      LossModel model;
      std::vector<float> scales;
      for (int step = 0; step < kSteps; ++step) {
        const LossScale used = model.scale();
        const bool overflow = overflows[step].rank != kNobody;
        model.Pass(overflow);
        scales.insert(scales.end(), {used.scale, used.scale});
        ExpectVerdict(pending[step]->Wait(), used, model.scale(), overflow);
      }
      ASSERT_EQ(rank.Synchronize(), absl::OkStatus());
      EXPECT_EQ(rank.scales(), scales);
      EXPECT_EQ(rank.weights(),
                std::vector<float>(3, WeightAfter(overflows, kSteps)));
      EXPECT_EQ(rank.device_scale(), model.scale());
      EXPECT_EQ(*engine.loss_scale(), model.scale());
      EXPECT_GT(model.skipped, 0);
    });
    EXPECT_EQ(backend.violations(), std::vector<std::string>());
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// Rank 0 has no more data; what rank 1 has enqueued behind is void.
TEST_P(DeviceLossScaleTest, VoidStepsKeepTheScale) {
  constexpr int kLast = 4;
  FakeGpuBackend backend(1);
  BackendJob job(&backend, OptionsFor(ahead()));
  // The void steps would reduce the scale.
  std::vector<Overflow> overflows(20);
  for (size_t i = kLast + 1; i < overflows.size(); ++i) overflows[i].rank = 1;
  LossModel model;
  for (int step = 0; step <= kLast; ++step) model.Pass(false);
  job.Run([&](int r, Engine& engine) {
    Rank rank(&job, r, in_views(), &overflows);
    const bool captured = std::get<1>(GetParam()) != Calls::kEager;
    if (captured) {
      ASSERT_EQ(rank.Capture(), absl::OkStatus());
    }
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    for (int step = 0; r == 1 || step <= kLast; ++step) {
      const FinishOptions options{.samples = 1,
                                  .more_data = r == 1 || step < kLast};
      const auto state = captured ? rank.Launch(options) : rank.Step(options);
      if (!state.ok()) break;
      pending.push_back(*state);
    }
    for (const auto& state : pending) (void)state->Wait();
    ASSERT_EQ(rank.Synchronize(), absl::OkStatus());
    engine.Rest();  // behind the void steps
    EXPECT_EQ(*engine.loss_scale(), model.scale());
    EXPECT_EQ(rank.device_scale(), model.scale());
  });
}

TEST_P(DeviceLossScaleTest, GoesOnFromTheScaleThatTheProgramSets) {
  constexpr LossScale kRestored{.scale = 8, .steps_without_overflow = 2};
  FakeGpuBackend backend(1);
  BackendJob job(&backend, OptionsFor(ahead()));
  const std::vector<Overflow> overflows(4);
  job.Run([&](int r, Engine& engine) {
    Rank rank(&job, r, in_views(), &overflows);
    for (const float scale : {2.0F, 128.0F, -1.0F, std::nanf(""), 0.0F}) {
      EXPECT_TRUE(
          absl::IsInvalidArgument(engine.SetLossScale({.scale = scale})));
    }
    const bool captured = std::get<1>(GetParam()) != Calls::kEager;
    if (captured) {
      ASSERT_EQ(rank.Capture(), absl::OkStatus());
    }
    const FinishOptions more{.samples = 1};
    const FinishOptions end{.samples = 1, .more_data = false};
    const auto first = captured ? rank.Launch(more) : rank.Step(more);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE((*first)->Wait().ok());
    ASSERT_EQ(engine.SetLossScale(kRestored), absl::OkStatus());
    EXPECT_EQ(*engine.loss_scale(), kRestored);
    const auto second = captured ? rank.Launch(end) : rank.Step(end);
    ASSERT_TRUE(second.ok()) << second.status();
    ExpectVerdict((*second)->Wait(), kRestored, {.scale = 16}, false);
    EXPECT_EQ(rank.weights(), std::vector<float>(3, WeightAfter(overflows, 2)));
  });
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const auto [ahead, calls, in_views] = info.param;
  constexpr const char* kNames[] = {"Eager", "Captured", "Mixed"};
  return "Ahead" + std::to_string(ahead) + kNames[static_cast<int>(calls)] +
         (in_views ? "InViews" : "FromBuffers");
}

INSTANTIATE_TEST_SUITE_P(Over, DeviceLossScaleTest,
                         testing::Combine(testing::Values(0, 1, 2),
                                          testing::Values(Calls::kEager,
                                                          Calls::kCaptured,
                                                          Calls::kMixed),
                                          testing::Bool()),
                         NameOf);

// --- Calls -------------------------------------------------------------------

// The scale cannot be set while a step is in flight, or begun.
TEST(LossScaleCallsTest, AStepInProgressKeepsItsScale) {
  FakeGpuBackend backend(1);
  BackendJob job(&backend, OptionsFor(/*run_ahead=*/1));
  std::latch made(kRanks);
  std::atomic<int> refused{0};
  job.Run([&](int r, Engine& engine) {
    const auto stream = job.MakeStream(r);
    const ArenaBuffer gradient = job.Buffer(r, {1, 1});
    made.arrive_and_wait();  // memory waits for the device
    if (r == 0) {
      backend.gpus().StallUntil(
          static_cast<transport::nccl::CudaStream&>(*stream).handle(),
          [&] { return refused == kRanks; });
    }
    ASSERT_EQ(engine.Submit(1, gradient.data(), gradient.bytes(), stream.get()),
              absl::OkStatus());
    EXPECT_TRUE(absl::IsFailedPrecondition(engine.SetLossScale({.scale = 8})));
    const auto pending = engine.Finish({.samples = 1, .more_data = false},
                                       kNoLimit, stream.get());
    ASSERT_TRUE(pending.ok()) << pending.status();
    EXPECT_TRUE(absl::IsFailedPrecondition(engine.SetLossScale({.scale = 8})));
    EXPECT_EQ(*engine.loss_scale(), LossModel{}.scale());
    ++refused;
    EXPECT_EQ((*pending)->Wait()->inverse_scale, 1.0 / 16);
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  });
}

TEST(LossScaleCallsTest, TheHostGivesNoInverseScale) {
  FakeGpuBackend backend(1);
  BackendJob job(&backend, OptionsFor(/*run_ahead=*/0));
  const std::vector<Overflow> overflows(4);
  job.Run([&](int r, Engine&) {
    Rank rank(&job, r, /*in_views=*/false, &overflows);
    const auto refused = rank.Step({.samples = 1, .inverse_scale = 0.5});
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  });
}

TEST(LossScaleCallsTest, ThereIsNoneUnlessAskedFor) {
  FakeGpuBackend backend(1);
  BackendJob::Options options = OptionsFor(/*run_ahead=*/0);
  options.loss_scale = nullptr;
  BackendJob job(&backend, options);
  job.Run([&](int, Engine& engine) {
    for (const absl::Status& none :
         {engine.loss_scale().status(), engine.SetLossScale({}),
          engine.DeviceAddressOfLossScale().status()}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
    }
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->next_loss_scale, std::nullopt);
  });
}

TEST(LossScaleCallsTest, AJobWhoseHostDecidesIsRefused) {
  const SystemClock clock;
  testing_support::InprocWorld world;
  const auto arena = MakePlainArena();
  plan::PlanInput input{.mesh = {{{"data", 1}}}};
  input.registrations = {{{.name = "w", .shape = {1}}}};
  EngineOptions options{
      .epoch = {1},
      .plan = *plan::Compile(input),
      .names = {"w"},
      .uses = {1},
      .allocate = [&](size_t bytes) { return arena->Allocate(bytes); },
      .clock = &clock,
      .on_failure = [](int, const absl::Status&) {},
      .loss_scale = LossModel::Begin(),
      .explain = [](const absl::Status& error) { return error; }};
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const plan::CommunicatorSpec& spec : options.plan.communicators) {
    communicators.push_back(std::move(world.Connect(spec.name, 1)[0]));
  }
  options.executor = *executor::Executor::Create(
      std::move(communicators), transport::MakeHostDeviceContext());
  const absl::Status refused = Engine::Create(std::move(options)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("LossScaler"));
}

TEST(LossScaleCallsTest, OptionsAreChecked) {
  const LossScaler::Options good = LossModel::kOptions;
  const auto made = DeviceLossScaleOf(good);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->rule, LossModel::Begin().rule);
  EXPECT_EQ(made->first, LossModel::Begin().first);
  EXPECT_TRUE(DeviceLossScaleOf({}).ok());
  const auto refuses = [&](const char* name, auto&& change) {
    LossScaler::Options wrong = good;
    change(wrong);
    const absl::Status refused = DeviceLossScaleOf(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << name;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(name));
  };
  for (const double x : {0.5, kNoLimit, std::nan("")}) {
    refuses("growth_factor", [&](auto& wrong) { wrong.growth_factor = x; });
  }
  for (const double x : {0.0, -1.0, 1.5, std::nan("")}) {
    refuses("backoff_factor", [&](auto& wrong) { wrong.backoff_factor = x; });
  }
  refuses("growth_interval", [](auto& wrong) { wrong.growth_interval = 0; });
  for (const double x : {0.0, 1e-40, std::nan("")}) {
    refuses("scale_min", [&](auto& wrong) { wrong.scale_min = x; });
  }
  for (const double x : {3.0, 1e39, std::nan("")}) {
    refuses("scale_max", [&](auto& wrong) { wrong.scale_max = x; });
  }
  for (const double x : {3.0, 65.0, std::nan("")}) {
    refuses("initial_scale", [&](auto& wrong) { wrong.initial_scale = x; });
  }
}

// --- Ends of an epoch --------------------------------------------------------

// The loss scale of rank 1, and what the error says.
struct Difference {
  std::optional<DeviceLossScale> of_rank_1;
  std::vector<const char*> words;
};

TEST(LossScaleEndTest, RanksWithOtherScalesOrOptionsAreNamed) {
  std::vector<Difference> differences(
      4, {LossModel::Begin(), {"step 0", "rank 0", "rank 1"}});
  differences[0].of_rank_1->first.scale = 32;
  differences[0].words.insert(differences[0].words.end(),
                              {"0 has 16 after 0", "1 has 32 after 0"});
  differences[1].of_rank_1->first.steps_without_overflow = 1;
  differences[1].words.push_back("1 has 16 after 1");
  differences[2].of_rank_1->rule.growth_interval = 4;
  differences[2].words.push_back("options");
  differences[3].of_rank_1.reset();
  differences[3].words.push_back("1 has none");
  for (const Difference& difference : differences) {
    FakeGpuBackend backend(1);
    BackendJob::Options options = OptionsFor(/*run_ahead=*/0);
    options.loss_scale = [&](int rank) {
      return rank == 0 ? LossModel::Begin() : difference.of_rank_1;
    };
    BackendJob* job = nullptr;
    options.on_failure = [&](int, const absl::Status& error) {
      EXPECT_TRUE(absl::IsAborted(error)) << error;
      EXPECT_TRUE(IsOfAllRanks(error));
      for (const char* const word : difference.words) {
        EXPECT_THAT(std::string(error.message()), HasSubstr(word));
      }
      job->AbortAll(error);
    };
    BackendJob made(&backend, options);
    job = &made;
    made.Run([&](int, Engine& engine) {
      EXPECT_TRUE(absl::IsAborted(FinishBlocking(engine).status()));
      EXPECT_EQ(engine.step(), 0u);
    });
  }
}

class LossScaleRollForwardTest
    : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(LossScaleRollForwardTest, ARankThatIsBehindHasTheScaleOfTheOthers) {
  const auto [run_ahead, overflows_then] = GetParam();
  for (uint64_t last = 0; last < (kUnderThreadSanitizer ? 4 : 9); ++last) {
    FirstControl first = nullptr;
    FakeGpuBackend backend(last, [&](int, transport::nccl::Tables* tables) {
      tables->kernels = std::make_shared<DamagedRecord>(
          tables->kernels, &backend.gpus(), &first, last);
    });
    std::vector<Overflow> overflows = RandomOverflows(last, 40);
    overflows[last].rank = overflows_then ? 0 : kNobody;
    LossModel model;
    for (uint64_t step = 0; step < last; ++step) {
      model.Pass(overflows[step].rank != kNobody);
    }
    const LossScale used = model.scale();
    model.Pass(overflows_then);
    BackendJob::Options options = OptionsFor(run_ahead);
    BackendJob* job = nullptr;
    options.on_failure = [&](int, const absl::Status& error) {
      job->AbortAll(error);
    };
    BackendJob made(&backend, options);
    job = &made;
    std::vector<protocol::EpochReport> reports(kRanks);
    made.Run([&](int r, Engine& engine) {
      Rank rank(&made, r, /*in_views=*/false, &overflows);
      for (absl::Status lives; lives.ok();) lives = rank.Step().status();
      (void)rank.Synchronize();
      const auto report = engine.Report();
      ASSERT_TRUE(report.ok()) << report.status();
      reports[r] = *report;
    });
    ASSERT_EQ(reports[0].position.step, last + 1);
    ASSERT_EQ(reports[1].position.step, last);
    EXPECT_EQ(*made.engine(0).loss_scale(), model.scale());
    EXPECT_EQ(*made.engine(1).loss_scale(), used);
    for (int call = 0; call < 2; ++call) {  // a program may ask again
      ExpectVerdict(made.engine(1).RollForward(reports[0].verdict), used,
                    model.scale(), overflows_then);
      EXPECT_EQ(*made.engine(1).loss_scale(), model.scale());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Over, LossScaleRollForwardTest,
    testing::Combine(testing::Values(0, 1, 2), testing::Bool()),
    [](const testing::TestParamInfo<std::tuple<int, bool>>& info) {
      return "Ahead" + std::to_string(std::get<0>(info.param)) +
             (std::get<1>(info.param) ? "Overflows" : "Finite");
    });

}  // namespace
}  // namespace lockstep::gradient
