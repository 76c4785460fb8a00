// Every mode executes exactly the transfers of its plan: recording
// communicators log the calls of each rank, and the log of each lane equals the
// plan's list.

#include "tests/client/executor/trace.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"
#include "tests/client/gradient/capture_rank.h"
#include "tests/client/gradient/negotiated_job.h"
#include "tests/client/pipeline/pipeline_world.h"
#include "tests/support/recording_communicator.h"

namespace lockstep::executor {
namespace {

using gradient::BackendJob;
using gradient::Engine;
using gradient::FakeGpuBackend;
using gradient::FinishBlocking;
using gradient::HostMemoryBackend;
using gradient::MemoryBackend;
using testing::HasSubstr;

constexpr int kSteps = 3;
constexpr BucketPolicy kTwoBuckets{.first_bytes_max = 600, .bytes_max = 4096};

// Two buckets; one of them has two parameters.
const std::vector<Parameter> kParameters = {
    {.name = "w", .shape = {70}, .op = ReduceOp::kSum},
    {.name = "b", .shape = {3}, .op = ReduceOp::kSum},
    {.name = "v", .shape = {129}, .op = ReduceOp::kSum}};

// A BackendJob whose ranks' calls are recorded.
class RecordedJob {
 public:
  RecordedJob(MemoryBackend* backend, BackendJob::Options options)
      : recorders_(options.world) {
    options.wrap = [this](int rank, const std::string& name,
                          std::unique_ptr<Communicator> inner) {
      return std::make_unique<RecordingCommunicator>(name, std::move(inner),
                                                     &recorders_[rank]);
    };
    job_ = std::make_unique<BackendJob>(backend, options);
  }

  BackendJob& job() { return *job_; }
  std::deque<Recorder>& recorders() { return recorders_; }

  void ExpectThatPlanWasRun(int steps = kSteps) {
    for (size_t rank = 0; rank < recorders_.size(); ++rank) {
      const Trace trace(job_->plan(), static_cast<int>(rank),
                        recorders_[rank].calls(), steps);
      EXPECT_EQ(trace.Difference(), "") << "rank " << rank;
    }
  }

 private:
  std::deque<Recorder> recorders_;
  std::unique_ptr<BackendJob> job_;
};

void Submit(Engine& engine, int times = 1) {
  for (int p = static_cast<int>(kParameters.size()) - 1; p >= 0; --p) {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(engine.Submit(p, nullptr, 0, nullptr), absl::OkStatus());
    }
  }
}

BackendJob::Options Options(int world = 2) {
  return {.world = world, .parameters = kParameters, .policy = kTwoBuckets};
}

TEST(TraceEqualsPlan, Static) {
  HostMemoryBackend backend;
  RecordedJob recorded(&backend, Options(3));
  recorded.job().Run([](int, Engine& engine) {
    for (int step = 0; step < kSteps; ++step) {
      Submit(engine);
      ASSERT_TRUE(FinishBlocking(engine).ok());
    }
  });
  recorded.ExpectThatPlanWasRun();
}

TEST(TraceEqualsPlan, WhatIsNotSubmitted) {
  HostMemoryBackend backend;
  RecordedJob recorded(&backend, Options());
  recorded.job().Run([](int rank, Engine& engine) {
    for (int step = 0; step < kSteps; ++step) {
      if (rank == 0) Submit(engine);
      ASSERT_TRUE(FinishBlocking(engine).ok());
    }
  });
  recorded.ExpectThatPlanWasRun();
}

TEST(TraceEqualsPlan, Accumulation) {
  HostMemoryBackend backend;
  RecordedJob recorded(&backend, Options());
  recorded.job().Run([](int, Engine& engine) {
    const std::vector<float> gradient(129, 1);
    for (int step = 0; step < kSteps; ++step) {
      const auto submit = [&] {
        for (int p = 2; p >= 0; --p) {
          ASSERT_TRUE(engine
                          .Submit(p, gradient.data(),
                                  ElementsOf(kParameters[p]) * sizeof(float),
                                  nullptr)
                          .ok());
        }
      };
      ASSERT_TRUE(engine.BeginNoSync().ok());
      submit();
      engine.EndNoSync();
      submit();
      ASSERT_TRUE(FinishBlocking(engine).ok());
    }
  });
  recorded.ExpectThatPlanWasRun();
}

TEST(TraceEqualsPlan, WireDtype) {
  for (const bool feeds_back : {false, true}) {
    HostMemoryBackend backend;
    BackendJob::Options options = Options();
    options.policy.wire_dtype = DType::kBF16;
    options.policy.error_feedback = feeds_back;
    RecordedJob recorded(&backend, options);
    recorded.job().Run([](int, Engine& engine) {
      for (int step = 0; step < kSteps; ++step) {
        Submit(engine);
        ASSERT_TRUE(FinishBlocking(engine).ok());
      }
    });
    recorded.ExpectThatPlanWasRun();
  }
}

// With reduction in pairs; and without it where the plan has none, though the
// communicators support it.
TEST(TraceEqualsPlan, Leaves) {
  for (const bool in_pairs : {true, false}) {
    HostMemoryBackend backend;
    BackendJob::Options options = Options();
    options.leaves = 4;
    options.transports_tell = in_pairs;
    RecordedJob recorded(&backend, options);
    recorded.job().Run([](int, Engine& engine) {
      for (int step = 0; step < kSteps; ++step) {
        Submit(engine, 2);
        ASSERT_TRUE(FinishBlocking(engine).ok());
      }
    });
    recorded.ExpectThatPlanWasRun();
    const auto calls = recorded.recorders()[0].calls();
    const bool any =
        std::any_of(calls.begin(), calls.end(), [](const RecordedCall& call) {
          return call.kind == plan::TransferKind::kAllReducePairs;
        });
    EXPECT_EQ(any, in_pairs);
  }
}

TEST(TraceEqualsPlan, Sharded) {
  for (const std::optional<DType> wire :
       {std::optional<DType>(), {DType::kF16}}) {
    HostMemoryBackend backend;
    BackendJob::Options options = Options(3);
    options.sync = SyncMode::kReduceScatter;
    options.policy.wire_dtype = wire;
    RecordedJob recorded(&backend, options);
    recorded.job().Run([](int, Engine& engine) {
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_TRUE(engine.GatherParameters(nullptr).ok());
        for (int p = 0; p < 3; ++p) {
          ASSERT_TRUE(engine.AwaitParameter(p, nullptr).ok());
        }
        Submit(engine);
        ASSERT_TRUE(FinishBlocking(engine).ok());
      }
    });
    recorded.ExpectThatPlanWasRun();
  }
}

// A captured step is recorded once, however often it is launched.
TEST(TraceEqualsPlan, Captured) {
  FakeGpuBackend backend(/*seed=*/3);
  BackendJob::Options options{
      .world = 2,
      .parameters = {{.name = "w", .shape = {3}, .op = ReduceOp::kSum},
                     {.name = "b", .shape = {2}, .op = ReduceOp::kSum},
                     {.name = "v", .shape = {4}, .op = ReduceOp::kSum}}};
  RecordedJob recorded(&backend, options);
  recorded.job().Run([&](int rank, Engine&) {
    gradient::CaptureRank mine(&recorded.job(), rank);
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    for (int step = 0; step < kSteps; ++step) {
      mine.Load(static_cast<float>(step + rank));
      ASSERT_TRUE(mine.Launch().ok());
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
  });
  recorded.ExpectThatPlanWasRun(/*steps=*/1);
}

// --- Pipelines --------------------------------------------------------------

class PipelineTrace : public testing::TestWithParam<PipelineSchedule> {};

TEST_P(PipelineTrace, EqualsPlan) {
  const plan::ScheduleShape shape{
      GetParam(), 3, 6,
      GetParam() == PipelineSchedule::kInterleaved ||
              GetParam() == PipelineSchedule::kZbV
          ? 2
          : 1};
  for (const bool shared : {false, true}) {
    // With ZB-V the first and the last stage are on one rank: nothing to
    // reduce.
    if (shared && GetParam() == PipelineSchedule::kZbV) continue;
    std::deque<Recorder> recorders(shape.ranks);
    pipeline::PipelineWorld world(
        {.shape = shape,
         .shared = shared,
         .wrap = [&](int rank, const std::string& name,
                     std::unique_ptr<Communicator> inner) {
           return std::make_unique<RecordingCommunicator>(
               name, std::move(inner), &recorders[rank]);
         }});
    for (int step = 0; step < kSteps; ++step) {
      world.ExpectEqualToOneProcess(step);
    }
    // This world runs neither gradients nor a verdict.
    plan::Plan plan = world.plan();
    for (plan::RankPlan& rank : plan.ranks) {
      for (plan::Lane& lane : rank.lanes) {
        if (lane.kind != plan::LaneKind::kPipeline) lane.transfers.clear();
      }
    }
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const Trace trace(plan, rank, recorders[rank].calls(), kSteps);
      EXPECT_EQ(trace.Difference(), "") << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineTrace,
    testing::Values(PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB,
                    PipelineSchedule::kInterleaved, PipelineSchedule::kZbH1,
                    PipelineSchedule::kZbV),
    [](const testing::TestParamInfo<PipelineSchedule>& info) {
      std::string name(Name(info.param));
      std::erase(name, '-');
      return name;
    });

// --- Wrong traces are detected ----------------------------------------------

// Operations that are not in the plan, one that differs from it, and one
// missing.
TEST(TraceEqualsPlan, FailsForWhatIsNotPlanned) {
  HostMemoryBackend backend;
  RecordedJob recorded(&backend, Options());
  recorded.job().Run([](int, Engine& engine) {
    Submit(engine);
    ASSERT_TRUE(FinishBlocking(engine).ok());
  });
  const plan::Plan& plan = recorded.job().plan();
  const std::vector<RecordedCall> done = recorded.recorders()[0].calls();
  const auto difference = [&](auto change) {
    std::vector<RecordedCall> calls = done;
    change(calls);
    return Trace(plan, 0, calls, 1).Difference();
  };
  ASSERT_EQ(difference([](auto&) {}), "");
  EXPECT_THAT(difference([](auto& calls) { calls.push_back(calls[0]); }),
              HasSubstr("not planned: all-reduce"));
  EXPECT_THAT(difference([](auto& calls) {
                calls[1].kind = plan::TransferKind::kReduceScatter;
              }),
              HasSubstr("done was reduce-scatter"));
  EXPECT_THAT(difference([](auto& calls) { calls[0].dtype = DType::kF64; }),
              HasSubstr("done was all-reduce of"));
  EXPECT_THAT(difference([](auto& calls) { calls.erase(calls.begin()); }),
              HasSubstr("planned is"));
  EXPECT_THAT(difference([](auto& calls) { std::swap(calls[0], calls[1]); }),
              HasSubstr("planned is"));
  EXPECT_THAT(difference([](auto& calls) {
                calls.push_back({.communicator = "elsewhere@0"});
              }),
              HasSubstr("is in no lane of the plan"));
  EXPECT_THAT(difference([](auto& calls) {
                RecordedCall barrier = calls.back();
                barrier.kind = plan::TransferKind::kBarrier;
                calls.push_back(barrier);
              }),
              HasSubstr("not planned: barrier"));
}

}  // namespace
}  // namespace lockstep::executor
