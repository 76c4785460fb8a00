// Calls of programs in whole jobs: with wrong arguments and too early, on every
// kind of stream, and with gradients that are empty or 16-bit floats.

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cast_scale.h"
#include "tests/client/gradient/negotiated_job.h"

namespace lockstep::gradient {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// --- Wrong calls -------------------------------------------------------------

class WrongCallsTest : public NegotiatedJob {
 protected:
  WrongCallsTest() { spec_.sync = SyncMode::kStatic; }

  static std::vector<ParameterOptions> One(int) {
    return {{.name = "w", .shape = {3}, .op = ReduceOp::kSum}};
  }

  void BeforeSeal(GradientSync& sync) override {
    const ParameterId w{0};
    for (const absl::Status& early :
         {sync.Gradient<float>(w).status(), sync.Value<float>(w).status(),
          sync.Slice(w).status(), sync.Submit(w), sync.AwaitParameter(w),
          sync.GatherParameters(), sync.BeginPass({w}), sync.NoSync().status(),
          sync.Finish().status(), sync.DeviceLossScale().status(),
          sync.GetLossScale().status(), sync.SetLossScale({}),
          // The host decides.
          sync.ScaleLossOnDevice()}) {
      EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition) << early;
    }
    EXPECT_EQ(sync.Register({.name = "w"}).status().code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(sync.overlap(), spec_.overlap);
    EXPECT_EQ(sync.exposed_seconds(), 0);
    EXPECT_EQ(sync.step(), 0u);
    sync.ZeroGradients();
    sync.OnMoved(nullptr);
    sync.SetMicroBatchWeight(0.5);
  }
};

TEST_F(WrongCallsTest, EndAsAStatusThatNamesTheParameter) {
  RunWell(2, One, [](Device& device) -> absl::Status {
    GradientSync& sync = device.sync;
    const absl::Status wrong_type =
        sync.Gradient<double>(device.ids[0]).status();
    EXPECT_EQ(wrong_type.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(wrong_type.message()),
                AllOf(HasSubstr("w is f32"), HasSubstr("8 bytes")));
    for (const int index : {-1, 1, 1 << 30}) {
      for (const absl::Status& unknown :
           {sync.Gradient<float>({index}).status(),
            sync.Slice({index}).status(), sync.Submit({index})}) {
        EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(unknown.message()),
                    HasSubstr(absl::StrCat("no parameter ", index)));
      }
    }
    for (const absl::Status& other_mode :
         {sync.Value<float>(device.ids[0]).status(),
          sync.DeviceLossScale().status(), sync.GetLossScale().status(),
          sync.SetLossScale({})}) {
      EXPECT_EQ(other_mode.code(), absl::StatusCode::kFailedPrecondition);
    }
    // Nothing has changed, and settings from before Seal persist.
    const float gradient[] = {2, 4, 6};
    LOCKSTEP_TEST_TRY(sync.Submit(device.ids[0], gradient, sizeof gradient));
    const absl::StatusOr<Verdict> verdict = sync.Finish();
    LOCKSTEP_TEST_TRY(verdict.status());
    EXPECT_THAT(*sync.Gradient<float>(device.ids[0]),
                testing::ElementsAre(2, 4, 6));
    return absl::OkStatus();
  });
}

// An equal size does not make an equal type; a half is viewed as uint16_t.
TEST_F(WrongCallsTest, SeveralBuffersOfWhichOneIsNone) {
  RunWell(2, One, [](Device& device) -> absl::Status {
    GradientSync& sync = device.sync;
    HostStream stream("ls-test", HostStream::Execution::kInline);
    const float gradient[] = {1, 2, 3};
    const GradientSync::Buffer none[] = {{device.ids[0], nullptr, 12}};
    const GradientSync::Buffer unknown[] = {{{7}, gradient, sizeof gradient}};
    for (const absl::Status& wrong :
         {sync.Submit(none, stream), sync.Submit(unknown, stream)}) {
      EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument) << wrong;
    }
    const GradientSync::Buffer right[] = {
        {device.ids[0], gradient, sizeof gradient}};
    LOCKSTEP_TEST_TRY(sync.Submit(right, stream));
    return sync.Finish({.more_data = false}).status();
  });
}

TEST_F(WrongCallsTest, AViewOfIntegersIsNoViewOfFloats) {
  const auto two = [](int) -> std::vector<ParameterOptions> {
    return {{.name = "w", .shape = {3}},
            {.name = "h", .shape = {3}, .dtype = DType::kBF16}};
  };
  RunWell(2, two, [](Device& device) -> absl::Status {
    GradientSync& sync = device.sync;
    for (const absl::Status& wrong :
         {sync.Gradient<int32_t>(device.ids[0]).status(),
          sync.Gradient<uint32_t>(device.ids[0]).status()}) {
      EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument) << wrong;
    }
    LOCKSTEP_TEST_TRY(sync.Gradient<float>(device.ids[0]).status());
    LOCKSTEP_TEST_TRY(sync.Gradient<uint16_t>(device.ids[1]).status());
    return sync.Finish().status();
  });
}

TEST_F(WrongCallsTest, AViewOfAValueHasItsTypeToo) {
  spec_.sync = SyncMode::kReduceScatter;
  RunWell(2, One, [](Device& device) -> absl::Status {
    const absl::Status wrong =
        device.sync.Value<double>(device.ids[0]).status();
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("w is f32"));
    EXPECT_EQ(device.sync.Value<float>({5}).status().code(),
              absl::StatusCode::kInvalidArgument);
    return device.sync.Value<float>(device.ids[0]).status();
  });
}

// --- Streams -----------------------------------------------------------------

struct StreamCase {
  HostStream::Execution execution;
  Overlap overlap;
};

std::string NameOfCase(const StreamCase& c) {
  const char* const executions[] = {"thread", "inline", "on_wait"};
  return absl::StrCat(
      executions[static_cast<int>(c.execution)],
      c.overlap == Overlap::kInline ? "_closing" : "_overlapping");
}

class StreamKindsTest : public NegotiatedJob,
                        public testing::WithParamInterface<StreamCase> {
 protected:
  StreamKindsTest() {
    spec_.sync = SyncMode::kStatic;
    spec_.overlap = GetParam().overlap;
  }

  static std::vector<ParameterOptions> Two(int) {
    return {{.name = "w", .shape = {3}, .op = ReduceOp::kSum},
            {.name = "v", .shape = {2}, .op = ReduceOp::kSum}};
  }
  // Enqueues kernels that fill both views, then submits both.
  static absl::Status Submit(Device& device, float value, HostStream& stream) {
    stream.Enqueue([&device, value] {
      std::fill_n(device.view(0), 3, value);
      std::fill_n(device.view(1), 2, value);
      return absl::OkStatus();
    });
    LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[0], stream));
    return device.sync.Submit(device.ids[1], stream);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Each, StreamKindsTest,
    testing::Values(
        StreamCase{HostStream::Execution::kThread, Overlap::kThread},
        StreamCase{HostStream::Execution::kInline, Overlap::kThread},
        StreamCase{HostStream::Execution::kInline, Overlap::kInline},
        StreamCase{HostStream::Execution::kOnWait, Overlap::kThread},
        StreamCase{HostStream::Execution::kOnWait, Overlap::kInline}),
    [](const auto& info) { return NameOfCase(info.param); });

TEST_P(StreamKindsTest, AVerdictCanBeWaitedFor) {
  RunWell(2, Two, [](Device& device) -> absl::Status {
    HostStream stream("ls-test", GetParam().execution);
    for (int step = 0; step < 3; ++step) {
      const float mine = static_cast<float>(step + device.rank());
      LOCKSTEP_TEST_TRY(Submit(device, mine, stream));
      auto pending = device.sync.FinishAsync({.samples = 2}, 1, stream);
      LOCKSTEP_TEST_TRY(pending.status());
      double samples = 0;
      stream.Enqueue([&samples, scalars = pending->scalars()] {
        samples = scalars->samples;
        return absl::OkStatus();
      });
      const absl::StatusOr<Verdict> verdict = pending->Wait();
      LOCKSTEP_TEST_TRY(verdict.status());
      EXPECT_EQ(verdict->step, static_cast<uint64_t>(step));
      LOCKSTEP_TEST_TRY(stream.Synchronize());
      EXPECT_EQ(samples, 4) << "the stream went on behind the verdict";
      EXPECT_THAT(*device.sync.Gradient<float>(device.ids[0]),
                  Each(static_cast<float>(2 * step + 1)));
    }
    return absl::OkStatus();
  });
}

// Two steps are in flight (except on a stream that its caller runs), and the
// second is awaited first.
TEST_P(StreamKindsTest, StepsInFlightAreRunInOrder) {
  RunWell(2, Two, [](Device& device) -> absl::Status {
    HostStream stream("ls-test", GetParam().execution);
    std::vector<PendingVerdict> pending;
    for (int step = 0; step < 2; ++step) {
      LOCKSTEP_TEST_TRY(Submit(device, 1, stream));
      auto finished = device.sync.FinishAsync({}, 1, stream);
      LOCKSTEP_TEST_TRY(finished.status());
      pending.push_back(*std::move(finished));
    }
    LOCKSTEP_TEST_TRY(pending[1].Wait().status());
    LOCKSTEP_TEST_TRY(pending[0].Wait().status());
    return stream.Synchronize();
  });
}

TEST_P(StreamKindsTest, FinishWaitsForWhatWasSubmittedOnThem) {
  RunWell(2, Two, [](Device& device) -> absl::Status {
    HostStream stream("ls-test", GetParam().execution);
    for (int step = 0; step < 2; ++step) {
      LOCKSTEP_TEST_TRY(Submit(device, 3, stream));
      const absl::StatusOr<Verdict> verdict = device.sync.Finish();
      LOCKSTEP_TEST_TRY(verdict.status());
      EXPECT_THAT(verdict->contributed, Each(true));
      EXPECT_THAT(*device.sync.Gradient<float>(device.ids[1]), Each(6.0f));
    }
    return stream.Synchronize();
  });
}

TEST_P(StreamKindsTest, AGatherOnThemCanBeWaitedFor) {
  spec_.sync = SyncMode::kReduceScatter;
  RunWell(2, Two, [](Device& device) -> absl::Status {
    HostStream stream("ls-test", GetParam().execution);
    const auto value = *device.sync.Value<float>(device.ids[0]);
    std::fill(value.begin(), value.end(), 7.0f);
    LOCKSTEP_TEST_TRY(device.sync.GatherParameters(stream));
    LOCKSTEP_TEST_TRY(device.sync.AwaitParameter(device.ids[0]));
    EXPECT_THAT(value, Each(7.0f));
    LOCKSTEP_TEST_TRY(device.sync.AwaitParameter(device.ids[1]));
    LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    return stream.Synchronize();
  });
}

// --- Empty gradients ---------------------------------------------------------

struct EmptyCase {
  const char* name;
  SyncMode sync = SyncMode::kStatic;
  DType dtype = DType::kF32;
  std::optional<DType> wire = std::nullopt;
  bool error_feedback = false;
  int leaves = 0;
};

class EmptyParametersTest : public NegotiatedJob,
                            public testing::WithParamInterface<EmptyCase> {
 protected:
  // One step of one rank; `ids` are all its parameters.
  static absl::Status Step(Device& device) {
    GradientSync& sync = device.sync;
    const EmptyCase& c = GetParam();
    if (c.sync == SyncMode::kReduceScatter) {
      LOCKSTEP_TEST_TRY(sync.GatherParameters());
      for (const ParameterId id : device.ids) {
        LOCKSTEP_TEST_TRY(sync.AwaitParameter(id));
      }
    }
    if (c.sync == SyncMode::kNegotiated) {
      LOCKSTEP_TEST_TRY(sync.BeginPass(device.ids));
    }
    for (const ParameterId id : device.ids) {
      LOCKSTEP_TEST_TRY(sync.Submit(id));
    }
    const absl::StatusOr<Verdict> verdict = sync.Finish();
    LOCKSTEP_TEST_TRY(verdict.status());
    EXPECT_THAT(verdict->contributed, Each(true));
    return absl::OkStatus();
  }

  void RunWith(const NegotiatedJob::Registration& registration) {
    const EmptyCase& c = GetParam();
    spec_.sync = c.sync;
    spec_.buckets.wire_dtype = c.wire;
    spec_.buckets.error_feedback = c.error_feedback;
    spec_.reproducible.leaves = c.leaves;
    RunWell(2, registration, [](Device& device) -> absl::Status {
      for (int step = 0; step < 2; ++step) LOCKSTEP_TEST_TRY(Step(device));
      return absl::OkStatus();
    });
  }
};

INSTANTIATE_TEST_SUITE_P(
    Each, EmptyParametersTest,
    testing::Values(
        EmptyCase{"static"}, EmptyCase{"bf16", SyncMode::kStatic, DType::kBF16},
        EmptyCase{"wire", SyncMode::kStatic, DType::kF32, DType::kBF16},
        EmptyCase{"error_feedback", SyncMode::kStatic, DType::kF32, DType::kF16,
                  true},
        EmptyCase{"slices", SyncMode::kReduceScatter},
        EmptyCase{"slices_bf16", SyncMode::kReduceScatter, DType::kBF16},
        EmptyCase{"slices_error_feedback", SyncMode::kReduceScatter,
                  DType::kF32, DType::kBF16, true},
        EmptyCase{"leaves", SyncMode::kStatic, DType::kF32, std::nullopt, false,
                  2},
        EmptyCase{"leaves_bf16", SyncMode::kStatic, DType::kBF16, std::nullopt,
                  false, 2},
        EmptyCase{"negotiated", SyncMode::kNegotiated},
        EmptyCase{"negotiated_f16", SyncMode::kNegotiated, DType::kF16}),
    [](const auto& info) { return info.param.name; });

TEST_P(EmptyParametersTest, AreReducedAloneInTheirBucket) {
  RunWith([](int) {
    return std::vector<ParameterOptions>{
        {.name = "none", .shape = {0}, .dtype = GetParam().dtype}};
  });
}

TEST_P(EmptyParametersTest, AreReducedBesideOthers) {
  RunWith([](int) {
    return std::vector<ParameterOptions>{
        {.name = "none", .shape = {4, 0}, .dtype = GetParam().dtype},
        {.name = "some", .shape = {5}, .dtype = GetParam().dtype}};
  });
}

// --- Means of 16-bit floats --------------------------------------------------

class HalfMeansTest : public NegotiatedJob,
                      public testing::WithParamInterface<DType> {};

INSTANTIATE_TEST_SUITE_P(Each, HalfMeansTest,
                         testing::Values(DType::kF16, DType::kBF16),
                         [](const auto& info) {
                           return std::string(Name(info.param));
                         });

constexpr int kHalves = 500;

// One rank's values, as halves.
std::vector<uint16_t> HalvesOf(int rank, DType dtype) {
  std::mt19937 random(17 + rank);
  std::uniform_real_distribution<float> some(-3, 3);
  std::vector<float> values(kHalves);
  for (float& value : values) value = some(random);
  std::vector<uint16_t> halves(kHalves);
  kernels::CastScale(values.data(), DType::kF32, 1, halves.data(), dtype,
                     kHalves);
  return halves;
}

// The mean over the first `ranks` ranks, summed in f32 and rounded once.
std::vector<uint16_t> MeanOf(int ranks, DType dtype) {
  std::vector<float> sum(kHalves, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<uint16_t> halves = HalvesOf(rank, dtype);
    std::vector<float> values(kHalves);
    kernels::CastScale(halves.data(), dtype, 1, values.data(), DType::kF32,
                       kHalves);
    for (int i = 0; i < kHalves; ++i) sum[i] += values[i];
  }
  std::vector<uint16_t> mean(kHalves);
  kernels::CastScale(sum.data(), DType::kF32, 1.0 / ranks, mean.data(), dtype,
                     kHalves);
  return mean;
}

TEST_P(HalfMeansTest, OverSomeAnnouncersAreRoundedOnce) {
  constexpr int kWorld = 4;
  const DType dtype = GetParam();
  RunWell(
      kWorld,
      [&](int) {
        return std::vector<ParameterOptions>{
            {.name = "w", .shape = {kHalves}, .dtype = dtype}};
      },
      [&](Device& device) -> absl::Status {
        for (const int announcers : {3, 1, 2, 4}) {
          const bool gives = device.rank() < announcers;
          LOCKSTEP_TEST_TRY(device.sync.BeginPass(
              gives ? device.ids : std::vector<ParameterId>()));
          if (gives) {
            const std::vector<uint16_t> mine = HalvesOf(device.rank(), dtype);
            LOCKSTEP_TEST_TRY(device.sync.Submit(
                device.ids[0], mine.data(), mine.size() * sizeof(uint16_t)));
          }
          const absl::StatusOr<Verdict> verdict = device.sync.Finish();
          LOCKSTEP_TEST_TRY(verdict.status());
          EXPECT_THAT(verdict->contributed, Each(true));
          const auto reduced = *device.sync.Gradient<uint16_t>(device.ids[0]);
          const std::vector<uint16_t> got(reduced.begin(), reduced.end());
          EXPECT_EQ(got, gives ? MeanOf(announcers, dtype)
                               : std::vector<uint16_t>(kHalves, 0))
              << announcers << " of " << kWorld;
        }
        return absl::OkStatus();
      });
}

// --- Warnings ----------------------------------------------------------------

class WarningsTest : public NegotiatedJob {
 protected:
  WarningsTest() { spec_.sync = SyncMode::kStatic; }

  static std::vector<ParameterOptions> Three(int) {
    return {{.name = "w", .shape = {2}},
            {.name = "b", .shape = {2}},
            {.name = "c", .shape = {2}}};
  }
  std::vector<std::string> Warnings() {
    return server_.Describe("job")->warnings;
  }
  // Runs steps in which each rank submits the parameters that `gives` selects.
  using Gives = std::function<bool(int rank, int parameter, int step)>;
  absl::Status Train(Device& device, int steps, const Gives& gives) {
    for (int step = 0; step < steps; ++step) {
      for (int p = 0; p < 3; ++p) {
        if (!gives(device.rank(), p, step)) continue;
        LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[p]));
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    }
    return absl::OkStatus();
  }
  static absl::Status TrainSlices(Device& device) {
    for (int step = 0; step < 3; ++step) {
      LOCKSTEP_TEST_TRY(device.sync.GatherParameters());
      for (const ParameterId id : device.ids) {
        LOCKSTEP_TEST_TRY(device.sync.AwaitParameter(id));
        LOCKSTEP_TEST_TRY(device.sync.Submit(id));
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    }
    return absl::OkStatus();
  }
  // As Train, until the job has `warnings` warnings: the verdict sends what one
  // rank has observed to all.
  absl::Status TrainUntil(Device& device, size_t warnings, const Gives& gives) {
    for (int step = 0;; ++step) {
      for (int p = 0; p < 3; ++p) {
        if (!gives(device.rank(), p, step)) continue;
        LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[p]));
      }
      const bool more = Warnings().size() < warnings;
      const auto verdict = device.sync.Finish({.samples = more ? 1.0 : 0.0});
      LOCKSTEP_TEST_TRY(verdict.status());
      if (verdict->samples < verdict->world_size) return absl::OkStatus();
    }
  }
};

TEST_F(WarningsTest, NameWhatNobodySubmitsAndWhatSomeDoNot) {
  RunWell(3, Three, [this](Device& device) -> absl::Status {
    // No rank submits b, and rank 1 does not submit c.
    const Gives gives = [](int rank, int p, int) {
      return p == 0 || (p == 2 && rank != 1);
    };
    LOCKSTEP_TEST_TRY(TrainUntil(device, 1, gives));
    // More steps add no warnings.
    return Train(device, 20, gives);
  });
  const std::vector<std::string> warnings = Warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0],
              AllOf(HasSubstr("no rank submits b: the gradient stays zero"),
                    HasSubstr("rank 1 does not submit c")));
  EXPECT_THAT(server_.Describe("job")->events,
              testing::Contains(testing::Field(
                  &EventView::text, HasSubstr("warning: no rank submits b"))));
}

TEST_F(WarningsTest, ComeAlsoFromAJobThatEndsAtOnce) {
  RunWell(2, Three, [this](Device& device) {
    return Train(device, 3, [](int, int, int) { return false; });
  });
  ASSERT_EQ(Warnings().size(), 1u);
  EXPECT_THAT(Warnings()[0], HasSubstr("no rank submits c, b, w"));
}

TEST_F(WarningsTest, ComeOnceMoreWhenItChanges) {
  RunWell(2, Three, [this](Device& device) -> absl::Status {
    const auto without = [](int parameter) {
      return [parameter](int, int p, int) { return p != parameter; };
    };
    LOCKSTEP_TEST_TRY(TrainUntil(device, 1, without(1)));
    LOCKSTEP_TEST_TRY(TrainUntil(device, 2, without(2)));
    return Train(device, 5, without(1));  // already warned
  });
  ASSERT_EQ(Warnings().size(), 2u);
  EXPECT_THAT(Warnings()[0], HasSubstr("no rank submits b:"));
  EXPECT_THAT(Warnings()[1], HasSubstr("no rank submits c:"));
}

TEST_F(WarningsTest, AreNotGivenForBranchesThatComeAndGo) {
  RunWell(2, Three, [this](Device& device) {
    return Train(device, 30, [](int rank, int p, int step) {
      return p != 1 || step % 3 == rank;
    });
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

TEST_F(WarningsTest, AreNotGivenToWhoMeansIt) {
  spec_.on_unsubmitted = OnUnsubmitted::kIgnore;
  RunWell(2, Three, [this](Device& device) {
    return Train(device, 10, [](int, int p, int) { return p == 0; });
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

// It submits nothing because it has no data.
TEST_F(WarningsTest, AreNotGivenForARankWithoutData) {
  spec_.uneven = Uneven::kJoin;
  RunWell(2, Three, [](Device& device) -> absl::Status {
    for (int step = 0; step < 10; ++step) {
      const int steps = device.rank() == 0 ? 10 : 2;
      for (const ParameterId id : device.ids) {
        if (step >= steps) break;
        LOCKSTEP_TEST_TRY(device.sync.Submit(id));
      }
      LOCKSTEP_TEST_TRY(
          device.sync.Finish({.more_data = step + 1 < steps}).status());
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

TEST_F(WarningsTest, NameWhatNobodyEverAnnounced) {
  spec_.sync = SyncMode::kNegotiated;
  RunWell(2, Three, [](Device& device) -> absl::Status {
    for (int pass = 0; pass < 25; ++pass) {
      // Sometimes one rank submits c; none submits b.
      const bool both = pass % 7 == device.rank();
      std::vector<ParameterId> ids = {device.ids[0]};
      if (both) ids.push_back(device.ids[2]);
      LOCKSTEP_TEST_TRY(device.sync.BeginPass(ids));
      for (const ParameterId id : ids) {
        LOCKSTEP_TEST_TRY(device.sync.Submit(id));
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
    }
    return absl::OkStatus();
  });
  ASSERT_EQ(Warnings().size(), 1u);
  EXPECT_THAT(Warnings()[0], HasSubstr("no rank submits b:"));
}

// Where a rank has several leaves, one Submit a step is not enough.
TEST_F(WarningsTest, NameLeavesThatARankDoesNotSubmit) {
  spec_.reproducible.leaves = 4;
  RunWell(2, Three, [this](Device& device) -> absl::Status {
    const auto once = [](int, int, int) { return true; };
    LOCKSTEP_TEST_TRY(TrainUntil(device, 1, once));
    return Train(device, 5, once);
  });
  ASSERT_EQ(Warnings().size(), 1u);
  EXPECT_THAT(Warnings()[0],
              AllOf(HasSubstr("ranks 0-1"), HasSubstr("1 of 2 leaves of w")));
}

TEST_F(WarningsTest, AreNotGivenWhereAllLeavesAreSubmitted) {
  spec_.reproducible.leaves = 4;
  RunWell(2, Three, [](Device& device) -> absl::Status {
    for (int step = 0; step < 10; ++step) {
      // A batch may be short in some steps, and is in the last.
      const int leaves = step % 3 == 0 || step == 9 ? 1 : 2;
      for (int leaf = 0; leaf < leaves; ++leaf) {
        for (const ParameterId id : device.ids) {
          LOCKSTEP_TEST_TRY(device.sync.Submit(id));
        }
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish({.more_data = step < 9}).status());
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

TEST_F(WarningsTest, AreNotGivenOfLeavesToWhoMeansIt) {
  spec_.reproducible.leaves = 4;
  spec_.on_unsubmitted = OnUnsubmitted::kIgnore;
  RunWell(2, Three, [this](Device& device) {
    return Train(device, 10, [](int, int, int) { return true; });
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

// --- Initial values ----------------------------------------------------------

TEST_F(WarningsTest, NameParametersThatRanksBeginWithOtherValuesOf) {
  RunWell(4, Three, [this](Device& device) -> absl::Status {
    // w is equal everywhere, b differs on rank 2, c differs from half to half.
    const float first = device.rank() == 2 ? 5.0f : 1.0f;
    const float values[3][2] = {
        {1, 2}, {first, 2}, {device.rank() < 2 ? 0.5f : 0.25f, 0}};
    for (int p = 0; p < 3; ++p) {
      LOCKSTEP_TEST_TRY(
          device.sync.CompareValue(device.ids[p], values[p], sizeof values[p]));
    }
    LOCKSTEP_TEST_TRY(Train(device, 3, [](int, int, int) { return true; }));
    const absl::Status late =
        device.sync.CompareValue(device.ids[0], values[0], sizeof values[0]);
    EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
    return absl::OkStatus();
  });
  ASSERT_EQ(Warnings().size(), 1u);
  // "c, b: ranks 0-1 and rank 2" if it is given before rank 3 has reported.
  EXPECT_THAT(Warnings()[0],
              AllOf(HasSubstr("b: "), HasSubstr("rank 2"),
                    testing::ContainsRegex("c[,:] "), HasSubstr("begin"),
                    testing::Not(testing::ContainsRegex("w[,:] "))));
}

TEST_F(WarningsTest, AreNotGivenForEqualValues) {
  RunWell(2, Three, [this](Device& device) -> absl::Status {
    const float value[] = {1, 2};
    for (const ParameterId id : device.ids) {
      LOCKSTEP_TEST_TRY(device.sync.CompareValue(id, value, sizeof value));
    }
    EXPECT_EQ(device.sync.CompareValue({9}, value, sizeof value).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(device.sync.CompareValue(device.ids[0], nullptr, 4).code(),
              absl::StatusCode::kInvalidArgument);
    for (const size_t wrong : {size_t{0}, size_t{4}, size_t{12}}) {
      EXPECT_EQ(device.sync.CompareValue(device.ids[0], value, wrong).code(),
                absl::StatusCode::kInvalidArgument);
    }
    return Train(device, 3, [](int, int, int) { return true; });
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

// The first gather makes them equal, from one rank's slice of each.
TEST_F(WarningsTest, CompareWhatRanksHadBeforeTheFirstGather) {
  spec_.sync = SyncMode::kReduceScatter;
  RunWell(4, Three, [](Device& device) -> absl::Status {
    for (int p = 0; p < 3; ++p) {
      const auto value = *device.sync.Value<float>(device.ids[p]);
      const bool other = p == 1 && device.rank() == 3;
      std::fill(value.begin(), value.end(), other ? 2.0f : 1.0f);
    }
    return TrainSlices(device);
  });
  ASSERT_EQ(Warnings().size(), 1u);
  EXPECT_THAT(Warnings()[0], HasSubstr("b: ranks 0-2 and rank 3 begin"));
}

// As a rank does that loads its part of a checkpoint.
TEST_F(WarningsTest, AreNotGivenToRanksThatSetTheirSlicesAlone) {
  spec_.sync = SyncMode::kReduceScatter;
  RunWell(2, Three, [](Device& device) -> absl::Status {
    for (const ParameterId id : device.ids) {
      const auto value = *device.sync.Value<float>(id);
      const ParameterSlice slice = *device.sync.Slice(id);
      std::fill_n(value.begin() + slice.offset, slice.count, 1.0f);
    }
    return TrainSlices(device);
  });
  EXPECT_THAT(Warnings(), testing::IsEmpty());
}

// Values in the library's memory are compared without a gather by the program:
// each replica's values are gathered, and those of another replica differ.
TEST_F(WarningsTest, CompareWhatWasGathered) {
  spec_.sync = SyncMode::kReduceScatter;
  mesh_ = {{{"data", 2}, {"model", 2}}};
  RunWell(
      4,
      [](int) {
        return std::vector<ParameterOptions>{{.name = "norm",
                                              .shape = {8},
                                              .axes = {"data"},
                                              .replicated_over = {"model"}}};
      },
      [](Device& device) -> absl::Status {
        const auto value = *device.sync.Value<float>(device.ids[0]);
        const float mine = device.rank() % 2 == 0 ? 1.0f : 2.0f;  // by model
        std::fill(value.begin(), value.end(), mine);
        for (int step = 0; step < 3; ++step) {
          LOCKSTEP_TEST_TRY(device.sync.GatherParameters());
          LOCKSTEP_TEST_TRY(device.sync.AwaitParameter(device.ids[0]));
          LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[0]));
          LOCKSTEP_TEST_TRY(device.sync.Finish().status());
        }
        return absl::OkStatus();
      });
  ASSERT_EQ(Warnings().size(), 1u);
  EXPECT_THAT(Warnings()[0],
              AllOf(HasSubstr("norm: "), HasSubstr("with different values")));
}

}  // namespace
}  // namespace lockstep::gradient
