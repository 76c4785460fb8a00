// The ranks of a job in one process, over the in-process transport: each has an
// engine, and Run starts a thread for each.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_ENGINE_JOB_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_ENGINE_JOB_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/gradient/engine.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/support/inproc_world.h"

namespace lockstep::gradient {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Registered {
  Parameter parameter;
  int uses = 1;
};

struct EngineExtras {
  Overlap overlap = Overlap::kThread;
  const Clock* clock = nullptr;  // null: the system's clock
};

class EngineJob {
 public:
  EngineJob(const char* mesh, std::vector<Registered> registered,
            BucketPolicy policy = {}, std::vector<uint64_t> first_steps = {},
            Uneven uneven = Uneven::kStop, EngineExtras extras = {})
      : uneven_(uneven), extras_(extras) {
    plan::PlanInput input{.mesh = *ParseMesh(mesh), .policy = policy};
    std::vector<Parameter> parameters;
    for (const Registered& r : registered) {
      parameters.push_back(r.parameter);
      names_.push_back(r.parameter.name);
      uses_.push_back(r.uses);
    }
    size_ = input.mesh.WorldSize();
    input.registrations.assign(size_, parameters);
    first_steps.resize(size_);
    first_steps_ = first_steps;
    absl::StatusOr<plan::Plan> plan = plan::Compile(input);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    failures_.resize(size_);
    endings_.resize(size_, Ending::kNone);
    growths_.resize(size_);
    // communicators[c][position]
    std::vector<std::vector<std::unique_ptr<Communicator>>> communicators;
    for (const plan::CommunicatorSpec& communicator : plan_.communicators) {
      communicators.push_back(world_.Connect(
          communicator.name, static_cast<int>(communicator.ranks.size())));
    }
    for (int rank = 0; rank < size_; ++rank) {
      engines_.push_back(MakeEngine(rank, communicators));
    }
  }

  int size() const { return size_; }
  Engine& engine(int rank) { return *engines_[rank]; }
  const plan::Plan& plan() const { return plan_; }
  absl::Status failure(int rank) {
    MutexLock lock(&mutex_);
    return failures_[rank];
  }
  // The ending that on_last received.
  Ending ending(int rank) {
    MutexLock lock(&mutex_);
    return endings_[rank];
  }
  // What on_grow received.
  std::vector<protocol::EpochReport> growth(int rank) {
    MutexLock lock(&mutex_);
    return growths_[rank];
  }
  std::vector<std::unique_ptr<Engine>>& engines() { return engines_; }

  void Run(const std::function<void(int rank, Engine& engine)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] { body(rank, *engines_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::unique_ptr<Engine> MakeEngine(
      int rank, std::vector<std::vector<std::unique_ptr<Communicator>>>& all) {
    EngineOptions options{
        .epoch = {1},
        .first_step = first_steps_[rank],
        .uneven = uneven_,
        .overlap = extras_.overlap,
        .plan = plan_,
        .rank = rank,
        .names = names_,
        .uses = uses_,
        .allocate = [this](size_t bytes) { return arena_->Allocate(bytes); },
        .clock = extras_.clock == nullptr ? &clock_ : extras_.clock,
        .on_failure =
            [this, rank](int, const absl::Status& error) {
              MutexLock lock(&mutex_);
              failures_[rank] = error;
            },
        .on_last =
            [this, rank](Ending ending) {
              MutexLock lock(&mutex_);
              endings_[rank] = ending;
            },
        .on_grow =
            [this, rank](const absl::Status&, protocol::EpochReport report) {
              MutexLock lock(&mutex_);
              growths_[rank].push_back(std::move(report));
            },
        .explain = [](const absl::Status& error) { return error; },
    };
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (size_t c = 0; c < all.size(); ++c) {
      const std::vector<int>& ranks = plan_.communicators[c].ranks;
      const auto at = std::find(ranks.begin(), ranks.end(), rank);
      communicators.push_back(
          at == ranks.end() ? nullptr : std::move(all[c][at - ranks.begin()]));
    }
    options.executor = *executor::Executor::Create(
        std::move(communicators), transport::MakeHostDeviceContext());
    auto engine = Engine::Create(std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

  const Uneven uneven_;
  const EngineExtras extras_;
  SystemClock clock_;
  testing_support::InprocWorld world_;
  std::unique_ptr<Arena> arena_ = MakePlainArena();
  int size_ = 0;
  std::vector<uint64_t> first_steps_;
  std::vector<std::string> names_;
  std::vector<int> uses_;
  plan::Plan plan_;
  Mutex mutex_;
  std::vector<absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
  std::vector<Ending> endings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<protocol::EpochReport>> growths_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Engine>> engines_;
};

template <typename T>
absl::Span<T> ViewAs(Engine& engine, int parameter) {
  const absl::Span<std::byte> bytes = *engine.View(parameter);
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

inline void FillView(Engine& engine, int parameter, float value) {
  for (float& x : ViewAs<float>(engine, parameter)) x = value;
}

inline absl::StatusOr<Verdict> FinishAndWait(
    Engine& engine, const FinishOptions& options = {}) {
  auto pending = engine.Finish(options, kInfinity, nullptr);
  if (!pending.ok()) return pending.status();
  return (*pending)->Wait();
}

inline std::vector<float> Floats(Engine& engine, int parameter) {
  const absl::Span<float> view = ViewAs<float>(engine, parameter);
  return {view.begin(), view.end()};
}

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_ENGINE_JOB_H_
