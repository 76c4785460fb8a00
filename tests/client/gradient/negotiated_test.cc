// The defects of burn's gradient sync server, one test for each, and this
// library's behaviour; and passes of random graphs compared with a single
// process.

#include <algorithm>
#include <latch>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/gradient/negotiated_job.h"

namespace lockstep::gradient {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

std::vector<ParameterOptions> WeightAndBias(int) {
  return {{.name = "weight", .shape = {3}}, {.name = "bias", .shape = {2}}};
}
constexpr int kWeight = 0;
constexpr int kBias = 1;

// Fills the view, and submits it.
absl::Status Give(Device& device, int parameter, float value) {
  const auto view = *device.sync.Gradient<float>(device.ids[parameter]);
  std::fill(view.begin(), view.end(), value);
  return device.sync.Submit(device.ids[parameter]);
}

absl::Status Begin(Device& device, const std::vector<int>& parameters) {
  std::vector<ParameterId> ids;
  for (const int parameter : parameters) ids.push_back(device.ids[parameter]);
  return device.sync.BeginPass(ids);
}

void ExpectView(Device& device, int parameter, float value) {
  EXPECT_THAT(*device.sync.Gradient<float>(device.ids[parameter]), Each(value))
      << "rank " << device.rank() << ", " << device.sync.names()[parameter];
}

class BurnsDefect : public NegotiatedJob {};

// burn does not check this: NCCL gets each rank's own byte count.
TEST_F(BurnsDefect, ShapesDiffer) {
  const auto ended = Run(
      3,
      [](int rank) -> std::vector<ParameterOptions> {
        return {{.name = "w", .shape = {rank == 2 ? 5 : 4}}};
      },
      [](Device&) { return absl::InternalError("sealed"); });
  for (const absl::Status& status : ended) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("ranks 0-1: [4] f32"), HasSubstr("rank 2: [5] f32")));
  }
}

TEST_F(BurnsDefect, DtypesDiffer) {
  const auto ended = Run(
      2,
      [](int rank) -> std::vector<ParameterOptions> {
        return {{.name = "w",
                 .shape = {4},
                 .dtype = rank == 0 ? DType::kF32 : DType::kBF16}};
      },
      [](Device&) { return absl::InternalError("sealed"); });
  for (const absl::Status& status : ended) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("rank 0: [4] f32"), HasSubstr("rank 1: [4] bf16")));
  }
}

// Impossible in burn: one operation for the whole server.
TEST_F(BurnsDefect, OperationsDiffer) {
  const auto ended = Run(
      2,
      [](int rank) -> std::vector<ParameterOptions> {
        return {{.name = "w",
                 .shape = {4},
                 .op = rank == 0 ? ReduceOp::kSum : ReduceOp::kMean}};
      },
      [](Device&) { return absl::InternalError("sealed"); });
  for (const absl::Status& status : ended) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("sum"), HasSubstr("mean")));
  }
}

// In burn the other ranks get no gradient, and no message names them.
TEST_F(BurnsDefect, AParameterIsInTheGraphOfSomeDevicesOnly) {
  RunWell(3, WeightAndBias, [](Device& device) -> absl::Status {
    const bool gives = device.rank() != 1;
    LOCKSTEP_TEST_TRY(
        Begin(device, gives ? std::vector<int>{kWeight} : std::vector<int>{}));
    if (gives) {
      LOCKSTEP_TEST_TRY(Give(device, kWeight, device.rank() == 0 ? 3 : 4));
    }
    const auto verdict = device.sync.Finish();
    if (!verdict.ok()) return verdict.status();
    ExpectView(device, kWeight, gives ? 3.5f : 0);
    ExpectView(device, kBias, 0);
    EXPECT_EQ(verdict->contributed, (std::vector<bool>{true, false}));
    EXPECT_NEAR(verdict->global_norm, std::sqrt(3 * 3.5 * 3.5), 1e-6)
        << "counted by an owner, whoever announced it";
    return absl::OkStatus();
  });
}

// Values left in the view would update this rank's copy only.
TEST_F(BurnsDefect, AViewThatNobodyAnnouncesIsZero) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    for (const std::vector<int>& announced : {std::vector<int>{kWeight}, {}}) {
      for (const int p : {kWeight, kBias}) {
        const auto view = *device.sync.Gradient<float>(device.ids[p]);
        std::fill(view.begin(), view.end(), 5.0f + device.rank());
      }
      LOCKSTEP_TEST_TRY(Begin(device, announced));
      for (const int p : announced) {
        LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[p]));
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
      ExpectView(device, kWeight, announced.empty() ? 0 : 5.5f);
      ExpectView(device, kBias, 0);
    }
    return absl::OkStatus();
  });
}

// burn counts it twice, under a wrong communicator key.
TEST_F(BurnsDefect, TheSameParameterTwice) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    const ParameterId weight = device.ids[kWeight];
    EXPECT_TRUE(
        absl::IsInvalidArgument(device.sync.BeginPass({weight, weight})));
    LOCKSTEP_TEST_TRY(device.sync.BeginPass({weight}));
    EXPECT_TRUE(absl::IsFailedPrecondition(device.sync.BeginPass({weight})));
    LOCKSTEP_TEST_TRY(Give(device, kWeight, 2));
    EXPECT_TRUE(absl::IsInvalidArgument(device.sync.Submit(weight)));
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    ExpectView(device, kWeight, 2);
    return absl::OkStatus();
  });
}

// In burn all devices block for ever.
TEST_F(BurnsDefect, AnnouncedButNeverSubmitted) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    LOCKSTEP_TEST_TRY(Begin(device, {kWeight, kBias}));
    LOCKSTEP_TEST_TRY(Give(device, kBias, 4));
    if (device.rank() == 0) LOCKSTEP_TEST_TRY(Give(device, kWeight, 6));
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    ExpectView(device, kWeight, 3);
    ExpectView(device, kBias, 4);
    return absl::OkStatus();
  });
}

// In burn the others wait for ever.
TEST_F(BurnsDefect, ADeviceWithoutParameters) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    for (int pass = 0; pass < 3; ++pass) {
      if (device.rank() == 0) {
        LOCKSTEP_TEST_TRY(Begin(device, {kBias}));
        LOCKSTEP_TEST_TRY(Give(device, kBias, 1));
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
      ExpectView(device, kBias, device.rank() == 0 ? 1 : 0);
    }
    return absl::OkStatus();
  });
}

// In burn a deadlock from the second iteration on.
TEST_F(BurnsDefect, IterationsOverlap) {
  RunWell(3, WeightAndBias, [](Device& device) -> absl::Status {
    for (int pass = 0; pass < 200; ++pass) {
      // One rank is always early, and another one late.
      if ((pass + device.rank()) % 3 == 0) std::this_thread::yield();
      LOCKSTEP_TEST_TRY(Begin(device, {kWeight, kBias}));
      LOCKSTEP_TEST_TRY(Give(device, kWeight, static_cast<float>(pass)));
      LOCKSTEP_TEST_TRY(Give(device, kBias, static_cast<float>(2 * pass)));
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
      ExpectView(device, kWeight, static_cast<float>(pass));
      ExpectView(device, kBias, static_cast<float>(2 * pass));
    }
    return absl::OkStatus();
  });
}

// In burn two of them reset the counters in the middle of a pass.
TEST_F(BurnsDefect, ExtraSyncs) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    for (int pass = 0; pass < 20; ++pass) {
      const bool extra = pass % 2 == device.rank();
      if (!extra) {
        LOCKSTEP_TEST_TRY(Begin(device, {kWeight}));
        LOCKSTEP_TEST_TRY(Give(device, kWeight, 5));
      }
      const auto verdict = device.sync.Finish();
      if (!verdict.ok()) return verdict.status();
      EXPECT_EQ(verdict->step, static_cast<uint64_t>(pass));
      ExpectView(device, kWeight, extra ? 0 : 5);
    }
    return absl::OkStatus();
  });
}

// In burn the others block for ever.
TEST_F(BurnsDefect, ADeviceDies) {
  const auto ended = Run(3, WeightAndBias, [&](Device& device) {
    absl::Status begun = Begin(device, {kWeight});
    if (!begun.ok()) return begun;
    if (device.rank() == 1) {
      EXPECT_TRUE(ReportDeath(1).ok());
      return absl::CancelledError("dead");
    }
    absl::Status given = Give(device, kWeight, 1);
    // The death may already be known.
    return given.ok() ? device.sync.Finish().status() : given;
  });
  for (const int survivor : {0, 2}) {
    EXPECT_THAT(ended[survivor].ToString(),
                AllOf(HasSubstr("worker-1"), HasSubstr("killed by signal 9")));
  }
}

// burn copies it by adding zero before the reduction in place.
TEST_F(BurnsDefect, ABufferIsNotTheBuckets) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    const std::vector<float> shared = {1, 2, 3};
    LOCKSTEP_TEST_TRY(Begin(device, {kWeight, kBias}));
    LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[kWeight], shared.data(),
                                         3 * sizeof(float)));
    LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[kBias], shared.data() + 1,
                                         2 * sizeof(float)));
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    EXPECT_THAT(*device.sync.Gradient<float>(device.ids[kWeight]),
                testing::ElementsAre(1, 2, 3));
    EXPECT_THAT(*device.sync.Gradient<float>(device.ids[kBias]),
                testing::ElementsAre(2, 3));
    EXPECT_THAT(shared, testing::ElementsAre(1, 2, 3));
    return absl::OkStatus();
  });
}

// burn does not support it, and fails only at the reduction.
TEST_F(BurnsDefect, AQuantizedGradient) {
  std::latch both_are_there(2);  // else one might see that the other has left
  const auto ended = Run(
      2,
      [&](int) -> std::vector<ParameterOptions> {
        both_are_there.arrive_and_wait();
        return {{.name = "w", .shape = {4}, .dtype = DType::kI8}};
      },
      [](Device&) { return absl::InternalError("sealed"); });
  for (const absl::Status& status : ended) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("i8"));
  }
}

// In burn: unimplemented!().
TEST_F(BurnsDefect, ACpuIsNoDevice) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    LOCKSTEP_TEST_TRY(Begin(device, {kWeight}));
    LOCKSTEP_TEST_TRY(Give(device, kWeight, static_cast<float>(device.rank())));
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    ExpectView(device, kWeight, 0.5);
    return absl::OkStatus();
  });
}

// --- Wrong calls ------------------------------------------------------------

TEST_F(NegotiatedJob, WrongCallsAreRefusedAndChangeNothing) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    EXPECT_TRUE(absl::IsInvalidArgument(device.sync.BeginPass({{.index = 7}})));
    EXPECT_TRUE(
        absl::IsInvalidArgument(device.sync.Submit(device.ids[kWeight])))
        << "no pass was begun";
    LOCKSTEP_TEST_TRY(Begin(device, {kBias}));
    EXPECT_TRUE(
        absl::IsInvalidArgument(device.sync.Submit(device.ids[kWeight])));
    LOCKSTEP_TEST_TRY(Give(device, kBias, 1));
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    ExpectView(device, kBias, 1);
    return absl::OkStatus();
  });
}

TEST_F(NegotiatedJob, ZeroGradientsInAPassIsOfWhatItAnnouncedOnly) {
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    LOCKSTEP_TEST_TRY(Begin(device, {kWeight}));
    for (const int p : {kWeight, kBias}) *device.view(p) = 7;
    device.sync.ZeroGradients();
    EXPECT_EQ(*device.view(kWeight), 0);
    EXPECT_EQ(*device.view(kBias), 7) << "it is others' to write";
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    device.sync.ZeroGradients();
    ExpectView(device, kBias, 0);
    return absl::OkStatus();
  });
}

TEST_F(NegotiatedJob, AStaticJobHasNoPasses) {
  spec_.sync = SyncMode::kStatic;
  RunWell(2, WeightAndBias, [](Device& device) -> absl::Status {
    EXPECT_TRUE(absl::IsFailedPrecondition(Begin(device, {kWeight})));
    LOCKSTEP_TEST_TRY(Give(device, kWeight, 1));
    return device.sync.Finish().status();
  });
}

// --- Compared with a single process -----------------------------------------

constexpr int kWorld = 3;

std::vector<ParameterOptions> ManyKinds(int) {
  return {
      {.name = "mean", .shape = {5}},
      {.name = "sum", .shape = {3}, .op = ReduceOp::kSum},
      {.name = "scalar", .shape = {}},
      {.name = "empty", .shape = {0}},
      {.name = "big", .shape = {70, 3}},
  };
}

// The actions of all ranks in one pass, derived from the seed.
struct Graph {
  // By rank: the parameters it announces, in the order in which it submits
  // them; the ones it announces and does not submit.
  std::vector<std::vector<int>> submitted;
  std::vector<std::vector<int>> withheld;

  explicit Graph(uint64_t seed) : submitted(kWorld), withheld(kWorld) {
    std::mt19937_64 random(seed);
    for (int rank = 0; rank < kWorld; ++rank) {
      for (size_t p = 0; p < ManyKinds(0).size(); ++p) {
        const uint64_t draw = random() % 8;
        if (draw < 5) submitted[rank].push_back(static_cast<int>(p));
        if (draw == 5) withheld[rank].push_back(static_cast<int>(p));
      }
      std::shuffle(submitted[rank].begin(), submitted[rank].end(), random);
    }
  }

  static bool Has(const std::vector<int>& list, int p) {
    return std::find(list.begin(), list.end(), p) != list.end();
  }
  bool Announces(int rank, int p) const {
    return Has(submitted[rank], p) || Has(withheld[rank], p);
  }
  static float Value(uint64_t pass, int rank, int p) {
    return static_cast<float>((pass * 7 + rank * 3 + p) % 16);
  }

  // This rank's result if one process computed everything.
  float Expected(uint64_t pass, int rank, int p) const {
    if (!Announces(rank, p)) return 0;
    float sum = 0;
    int announcers = 0;
    for (int other = 0; other < kWorld; ++other) {
      if (Announces(other, p)) ++announcers;
      if (Has(submitted[other], p)) sum += Value(pass, other, p);
    }
    if (ManyKinds(0)[p].op == ReduceOp::kSum) return sum;
    return sum * (1.0f / static_cast<float>(announcers));
  }
};

absl::Status RunPass(Device& device, uint64_t seed, uint64_t pass) {
  const Graph graph(seed * 1000 + pass);
  const int rank = device.rank();
  std::vector<int> announced = graph.submitted[rank];
  announced.insert(announced.end(), graph.withheld[rank].begin(),
                   graph.withheld[rank].end());
  LOCKSTEP_TEST_TRY(Begin(device, announced));
  for (const int p : graph.submitted[rank]) {
    LOCKSTEP_TEST_TRY(Give(device, p, Graph::Value(pass, rank, p)));
  }
  const auto verdict = device.sync.Finish();
  if (!verdict.ok()) return verdict.status();
  for (size_t p = 0; p < device.ids.size(); ++p) {
    const int index = static_cast<int>(p);
    const float expected = graph.Expected(pass, rank, index);
    const auto view = *device.sync.Gradient<float>(device.ids[p]);
    for (const float value : view) {
      EXPECT_FLOAT_EQ(value, expected)
          << device.sync.names()[p] << " on rank " << rank << " in pass "
          << pass << " of seed " << seed;
    }
    bool any = false;
    for (const auto& list : graph.submitted) any |= Graph::Has(list, index);
    EXPECT_EQ(verdict->contributed[p], any);
  }
  return absl::OkStatus();
}

class RandomGraphs : public NegotiatedJob,
                     public testing::WithParamInterface<int> {};

TEST_P(RandomGraphs, EqualASingleProcess) {
  RunWell(kWorld, ManyKinds, [](Device& device) -> absl::Status {
    for (uint64_t pass = 0; pass < 50; ++pass) {
      LOCKSTEP_TEST_TRY(RunPass(device, GetParam(), pass));
    }
    return absl::OkStatus();
  });
}

// The coordinator crashes and restarts, and streams break, at any point of a
// pass.
TEST_P(RandomGraphs, EqualASingleProcessWhileTheCoordinatorRestarts) {
  std::mt19937_64 random(GetParam());
  std::atomic<uint64_t> furthest = 0;
  std::atomic<bool> over = false;
  std::thread trouble([&] {
    for (int i = 0; i < 6; ++i) {
      const uint64_t at = 10 * i + random() % 10;
      while (furthest < at && !over) std::this_thread::yield();
      if (over) return;
      if (i % 2 == 0) {
        server_.Crash();
        server_.Restart();
      } else {
        server_.CutStreams();
      }
    }
  });
  RunWell(kWorld, ManyKinds, [&](Device& device) -> absl::Status {
    for (uint64_t pass = 0; pass < 70; ++pass) {
      LOCKSTEP_TEST_TRY(RunPass(device, GetParam(), pass));
      furthest = std::max(furthest.load(), pass);
    }
    return absl::OkStatus();
  });
  over = true;
  trouble.join();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, testing::Range(0, 8));

// Steps much shorter than the interval of Progress, for longer than a rank may
// go without progress.
TEST_F(NegotiatedJob, NobodyIsEvictedWhileStepsAreShort) {
  spec_.on_stuck = OnStuck::kEvict;
  spec_.timeouts.progress = absl::Seconds(1);
  const absl::Time begin = clock_->Now();
  RunWell(
      2,
      [](int) {
        return std::vector<ParameterOptions>{{.name = "w", .shape = {8}}};
      },
      [this, begin](Device& device) -> absl::Status {
        bool goes_on = true;
        while (goes_on) {
          LOCKSTEP_TEST_TRY(device.sync.BeginPass({device.ids[0]}));
          LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[0]));
          // Both ranks stop after the same step.
          const bool more = clock_->Now() - begin < absl::Milliseconds(2500);
          const auto verdict = device.sync.Finish(
              {.samples = device.rank() == 0 && !more ? 0.0 : 1.0});
          if (!verdict.ok()) return verdict.status();
          goes_on = verdict->samples == 2;
        }
        return absl::OkStatus();
      });
}

}  // namespace
}  // namespace lockstep::gradient
