// A job whose ranks are threads, on either memory backend: engines, memory of
// the backend, and kernels on its streams.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_BACKEND_JOB_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_BACKEND_JOB_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/gradient/engine.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/client/gradient/memory_backend.h"

namespace lockstep::gradient {

class BackendJob {
 public:
  // Wraps a rank's DeviceContext.
  using Decorate = std::function<std::unique_ptr<transport::DeviceContext>(
      int rank, std::unique_ptr<transport::DeviceContext>)>;

  struct Options {
    int world = 2;
    std::vector<Parameter> parameters;
    BucketPolicy policy = {};
    SyncMode sync = SyncMode::kStatic;
    int leaves = 0;
    // Whether the plan is compiled with the transports' facts, or with none.
    bool transports_tell = true;
    Uneven uneven = Uneven::kStop;
    OnUnsubmitted on_unsubmitted = OnUnsubmitted::kIgnore;
    int run_ahead = 0;
    // As BucketPolicy::windows, and whether there is a spare set for them.
    bool windows = false;
    bool has_spare_set = true;
    // A rank's loss scale on its device.
    std::function<std::optional<DeviceLossScale>(int rank)> loss_scale = {};
    Decorate decorate = {};
    // Wraps each communicator of a rank; no memory is registered with wrapped
    // communicators.
    std::function<std::unique_ptr<Communicator>(
        int rank, const std::string& name, std::unique_ptr<Communicator>)>
        wrap = {};
    // For `world` ranks; replaces the compiled plan.
    std::optional<plan::Plan> plan = {};
    // Receives the first error of a rank, on a thread of the library.
    std::function<void(int rank, const absl::Status&)> on_failure = {};
  };

  BackendJob(MemoryBackend* backend, const Options& options)
      : backend_(*backend), world_(options.world) {
    plan::PlanInput input{.mesh = {{{"data", world_}}},
                          .sync = options.sync,
                          .policy = options.policy};
    input.registrations.assign(world_, options.parameters);
    input.leaves = options.leaves;
    for (int rank = 0; options.transports_tell && rank < world_; ++rank) {
      input.transports.push_back(backend_.world().at(rank).facts());
    }
    plan_ = options.plan ? *options.plan : *plan::Compile(input);
    std::vector<std::vector<std::unique_ptr<Communicator>>> all;
    for (const plan::CommunicatorSpec& communicator : plan_.communicators) {
      all.push_back(
          conformance::Connect(backend_.world(), world_, communicator.name));
    }
    ranks_.resize(world_);
    // Concurrently, since the ranks register their memory together.
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) {
      threads.emplace_back([&, rank] { MakeRank(rank, options, all); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // A rank that still runs may report a failure while another is destroyed.
  ~BackendJob() {
    MutexLock lock(&mutex_);
    closing_ = true;
    while (aborting_ > 0) changed_.Wait(&mutex_);
  }

  int world() const { return world_; }
  const plan::Plan& plan() const { return plan_; }
  Engine& engine(int rank) { return *ranks_[rank].engine; }
  executor::Executor& executor(int rank) { return *ranks_[rank].executor; }

  // Runs `body` for each rank on its own thread.
  void Run(const std::function<void(int rank, Engine& engine)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) {
      threads.emplace_back([&, rank] { body(rank, engine(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Aborts all ranks, as the coordinator would.
  void AbortAll(const absl::Status& cause) {
    {
      MutexLock lock(&mutex_);
      if (closing_) return;
      ++aborting_;
    }
    for (const Rank& rank : ranks_) rank.engine->Abort(cause);
    MutexLock lock(&mutex_);
    --aborting_;
    changed_.NotifyAll();
  }

  // All ranks have reported after an abort: a rank that is a step behind has
  // the reduced gradients of that step, and passes it with the other's verdict.
  // Returns whether there was one.
  bool RollForwardWhoIsBehind(
      const std::vector<protocol::EpochReport>& reports) {
    const auto step = [](const protocol::EpochReport& report) {
      return report.position.step;
    };
    const auto [low, high] = std::minmax_element(
        reports.begin(), reports.end(),
        [&](const auto& a, const auto& b) { return step(a) < step(b); });
    EXPECT_LE(step(*high) - step(*low), 1u);
    bool anybody = false;
    for (int rank = 0; rank < world_; ++rank) {
      if (step(reports[rank]) == step(*high)) continue;
      anybody = true;
      EXPECT_EQ(reports[rank].position.phase, protocol::Phase::kVerdict);
      const auto passed = engine(rank).RollForward(high->verdict);
      EXPECT_TRUE(passed.ok()) << passed.status();
    }
    return anybody;
  }

  // --- The backend's memory ---

  std::byte* Reach(const void* at) {
    return backend_.Reach(static_cast<std::byte*>(const_cast<void*>(at)));
  }
  float* Floats(const void* at) { return reinterpret_cast<float*>(Reach(at)); }
  void Put(int rank, int parameter, const std::vector<float>& values) {
    Put(engine(rank).View(parameter)->data(), values);
  }
  void Put(void* at, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), Floats(at));
  }
  std::vector<float> Get(int rank, int parameter) {
    const absl::Span<std::byte> view = *engine(rank).View(parameter);
    return Get(view.data(), view.size() / sizeof(float));
  }
  std::vector<float> Get(const void* at, size_t count) {
    const float* const from = Floats(at);
    return {from, from + count};
  }
  ArenaBuffer Buffer(int rank, const std::vector<float>& values) {
    auto buffer = ranks_[rank].arena->Allocate(values.size() * sizeof(float));
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    Put(buffer->data(), values);
    return *std::move(buffer);
  }

  // --- Streams ---

  std::unique_ptr<Stream> MakeStream(int rank) {
    return backend_.world().MakeStream(rank, "rank");
  }
  // Enqueues a kernel. It may use host addresses that Reach returned before.
  void Enqueue(Stream& stream, std::function<void()> kernel) {
    backend_.world().Enqueue(stream, std::move(kernel));
  }

 private:
  struct Rank {
    std::unique_ptr<Arena> arena;
    std::shared_ptr<executor::Executor> executor;
    std::unique_ptr<Engine> engine;
  };

  void MakeRank(int rank, const Options& options,
                std::vector<std::vector<std::unique_ptr<Communicator>>>& all) {
    transport::Transport& transport = backend_.world().at(rank);
    Rank& made = ranks_[rank];
    made.arena = transport.MakeArena();
    EngineOptions engine{
        .epoch = {1},
        .run_ahead = options.run_ahead,
        .spare_sets = options.windows && options.has_spare_set ? 1 : 0,
        .uneven = options.uneven,
        .plan = plan_,
        .rank = rank,
        .uses = std::vector<int>(options.parameters.size(), 1),
        .allocate = [arena = made.arena.get()](
                        size_t bytes) { return arena->Allocate(bytes); },
        .register_buffer =
            [&transport](Communicator& communicator,
                         const ArenaBuffer& buffer) {
              return transport.RegisterBuffer(communicator, buffer,
                                              absl::Seconds(60));
            },
        .clock = &clock_,
        .on_failure =
            [rank, tell = options.on_failure](int, const absl::Status& error) {
              if (tell) tell(rank, error);
            },
        .sharded = options.sync == SyncMode::kReduceScatter,
        .on_unsubmitted = options.on_unsubmitted,
        .explain = [](const absl::Status& error) { return error; },
    };
    if (!options.windows && transport.abort_writes_to_peers()) {
      engine.register_buffer = nullptr;
    }
    std::unique_ptr<transport::DeviceContext> compute =
        *transport.MakeDeviceContext();
    if (options.decorate) compute = options.decorate(rank, std::move(compute));
    for (const Parameter& parameter : options.parameters) {
      engine.names.push_back(parameter.name);
    }
    if (options.wrap) engine.register_buffer = nullptr;
    if (options.loss_scale) engine.loss_scale = options.loss_scale(rank);
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (size_t c = 0; c < all.size(); ++c) {
      std::unique_ptr<Communicator> communicator = std::move(all[c][rank]);
      communicators.push_back(
          options.wrap ? options.wrap(rank, plan_.communicators[c].name,
                                      std::move(communicator))
                       : std::move(communicator));
    }
    made.executor = *executor::Executor::Create(std::move(communicators),
                                                std::move(compute));
    engine.executor = made.executor;
    auto created = Engine::Create(std::move(engine));
    EXPECT_TRUE(created.ok()) << created.status();
    made.engine = *std::move(created);
  }

  MemoryBackend& backend_;
  const int world_;
  SystemClock clock_;
  plan::Plan plan_;
  std::vector<Rank> ranks_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int aborting_ ABSL_GUARDED_BY(mutex_) = 0;  // calls of AbortAll in progress
};

inline absl::StatusOr<Verdict> FinishBlocking(Engine& engine,
                                              const FinishOptions& options = {
                                                  .samples = 1}) {
  auto pending =
      engine.Finish(options, std::numeric_limits<double>::infinity(), nullptr);
  if (!pending.ok()) return pending.status();
  return (*pending)->Wait();
}

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_BACKEND_JOB_H_
