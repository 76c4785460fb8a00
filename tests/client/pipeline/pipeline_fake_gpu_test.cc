// Whole jobs on fake GPUs: sessions with the real coordinator's core, gradients
// and activations in device memory, stages that are kernels on a stream.

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/session/session_impl.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/pipeline/job_worker.h"
#include "tests/support/failing_calls.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/fake_gpu.h"
#include "tests/support/sanitizers.h"

namespace lockstep::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Runs stages as kernels on memory that the host cannot access.
class GpuSite final : public Worksite {
 public:
  GpuSite(fake::FakeGpus* gpus, const transport::nccl::Tables& tables)
      : gpus_(*gpus),
        stream_(*transport::nccl::CudaStream::Create(tables.cuda.get())) {}

  Stream& stream() override { return *stream_; }
  absl::Status Enqueue(std::function<void()> work) override {
    const auto ready = stream_->handle();
    gpus_.LaunchKernel(ready, std::move(work));
    return absl::OkStatus();
  }
  void StallUntil(std::function<bool()> open) override {
    gpus_.StallUntil(stream_->handle(), std::move(open));
  }
  void* Reach(void* at) override { return gpus_.Reach(at); }

 private:
  fake::FakeGpus& gpus_;
  const std::unique_ptr<transport::nccl::CudaStream> stream_;
};

class PipelineFakeGpuTest : public testing::Test {
 protected:
  // `forgets`: for worker 0.
  std::vector<Seen> Run(const Job& job, std::vector<int> forgets = {}) {
    JobSpec spec = SpecOf(job);
    spec.timeouts = {.join = absl::Seconds(60),
                     .lease = absl::Seconds(60),
                     .resume = absl::Seconds(60)};  // for slow machines
    std::vector<std::future<Seen>> running;
    for (int i = 0; i < 4; ++i) {
      running.push_back(std::async(std::launch::async, [&, i] {
        Seen seen;
        seen.status =
            Live(spec, i, i == 0 ? forgets : std::vector<int>{}, seen);
        return seen;
      }));
    }
    std::vector<Seen> all(4);
    for (auto& each : running) {
      Seen seen = each.get();
      const int rank = seen.rank;
      if (rank >= 0) all[rank] = std::move(seen);
    }
    return all;
  }

  absl::Status Live(const JobSpec& spec, int number, std::vector<int> forgets,
                    Seen& seen) {
    transport::nccl::Tables tables = gpus_.TablesOf(number);
    if (number == 0 && fails_at_call_ > 0) calls_.Decorate(&tables);
    auto session = Session::Impl::Join(
        {.addresses = {"core"},
         .job = spec.name,
         .worker = absl::StrCat("worker-", number),
         .spec = spec},
        {.channels = session::MakeFakeChannels(server_.get()),
         .make_transport =
             [&](const JobSpec&) {
               return transport::nccl::MakeTransport(tables);
             },
         .clock = clock_,
         .process = {"host", number, "boot"},
         .incarnation = ++incarnations_});
    if (!session.ok()) return session.status();
    GpuSite site(&gpus_, tables);
    JobWorker worker(spec, /*fails_at=*/-1, &site);
    if (number == 0) calls_.FailAt(fails_at_call_, /*captured=*/false);
    worker.tied = tied_;
    worker.waits_at_the_end = waits_at_the_end_;
    worker.forgets = std::move(forgets);
    worker.tries_capture = tries_capture_;
    worker.runs_behind_the_last = runs_behind_the_last_;
    if (number == 0) worker.leaves_behind_run = leaves_behind_run_;
    absl::Status trained = worker.Train(**session, seen);
    return trained.ok() ? (*session)->Leave() : trained;
  }

  Tied tied_;
  bool waits_at_the_end_ = false;
  bool tries_capture_ = false;
  bool runs_behind_the_last_ = false;
  int leaves_behind_run_ = -1;  // worker 0
  int fails_at_call_ = 0;       // worker 0
  fake::FailingCalls calls_;
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  std::unique_ptr<session::CoreServer> server_ =
      std::make_unique<session::CoreServer>(clock_.get());
  fake::FakeGpus gpus_{{.seed = 11, .residents_max = 1}};
};

class EverySchedule : public PipelineFakeGpuTest,
                      public testing::WithParamInterface<Job> {};

TEST_P(EverySchedule, TrainsAsOneProcessWithOneResidentOperation) {
  const std::vector<Seen> all = Run(GetParam());
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  ExpectOneProcess(all, GetParam());
  EXPECT_THAT(gpus_.violations(), IsEmpty());
}

TEST_P(EverySchedule, TrainsAsOneProcessIfNobodyWaitsForVerdicts) {
  waits_at_the_end_ = true;
  const std::vector<Seen> all = Run(GetParam());
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  ExpectOneProcess(all, GetParam());
  EXPECT_THAT(gpus_.violations(), IsEmpty());
}

// The messages of its run are on the device, and peers may wait for them.
TEST_P(EverySchedule, WhoLeavesBehindItsRunEndsTheStepOfAll) {
  leaves_behind_run_ = 1;
  const std::vector<Seen> all = Run(GetParam());
  for (const Seen& seen : all) {
    EXPECT_FALSE(seen.status.ok());
    EXPECT_EQ(seen.gradients.size(), 1u);
  }
  ExpectOneProcess(all, GetParam(), /*steps=*/1);
  EXPECT_THAT(gpus_.violations(), IsEmpty());
}

// A call of CUDA that fails once, as without memory, leaves something out of a
// step, or out of its order: no step may commit without it.
TEST_P(EverySchedule, NoStepCommitsWithoutACallThatFailed) {
  int failed = 0;
  bool was_hit = true;
  for (int call = 1; was_hit;
       call += 1 + (kUnderThreadSanitizer ? 2 * call : call / 3)) {
    ASSERT_LT(call, 10000);
    fails_at_call_ = call;
    server_ = std::make_unique<session::CoreServer>(clock_.get());
    const std::vector<Seen> all = Run(GetParam());
    was_hit = calls_.End();
    for (const Seen& seen : all) {
      EXPECT_TRUE(was_hit || seen.status.ok()) << seen.status;
      failed += seen.status.ok() ? 0 : 1;
    }
    ExpectOneProcess(all, GetParam(), kSeenSteps);
    if (HasFailure()) FAIL() << "call " << call;
  }
  EXPECT_GT(failed, 4);
  EXPECT_THAT(gpus_.violations(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Each, EverySchedule,
    testing::Values(Job{"nccl", PipelineSchedule::kGPipe},
                    Job{"nccl", PipelineSchedule::kOneFOneB},
                    Job{"nccl", PipelineSchedule::kInterleaved, 2},
                    Job{"nccl", PipelineSchedule::kZbH1},
                    Job{"nccl", PipelineSchedule::kZbV, 2},
                    Job{"nccl", PipelineSchedule::kInterleaved, 2,
                        SyncMode::kReduceScatter},
                    Job{"nccl", PipelineSchedule::kZbH1, 1, SyncMode::kStatic,
                        /*leaves=*/2}),
    [](const auto& info) {
      std::string name(Name(info.param.schedule));
      std::erase(name, '-');
      if (info.param.sync == SyncMode::kReduceScatter) name += "_slices";
      if (info.param.leaves > 0) name += "_leaves";
      return name;
    });

// In the one order of launches the sums of the shared gradient are behind other
// gradients of the stages that share it.
class TiedOnGpus : public PipelineFakeGpuTest,
                   public testing::WithParamInterface<
                       std::tuple<PipelineSchedule, Tied::Stage, bool>> {};

TEST_P(TiedOnGpus, HasTheGradientOfOneProcess) {
  const auto [schedule, registered, early] = GetParam();
  tied_ = {.registered = registered, .in_view = true, .before_run = early};
  Job job{"nccl", schedule};
  job.virtual_stages = schedule == PipelineSchedule::kInterleaved ? 2 : 1;
  job.tied = tied_;
  job.small_buckets = true;
  const std::vector<Seen> all = Run(job);
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  ExpectOneProcess(all, job);
  EXPECT_THAT(gpus_.violations(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Each, TiedOnGpus,
    testing::Combine(testing::Values(PipelineSchedule::kOneFOneB,
                                     PipelineSchedule::kInterleaved,
                                     PipelineSchedule::kZbH1),
                     testing::Values(Tied::Stage::kItsOwn, Tied::Stage::kNone),
                     testing::Bool()));

TEST_F(PipelineFakeGpuTest, AGraphCannotHoldAStep) {
  tries_capture_ = true;
  const Job job{"nccl", PipelineSchedule::kOneFOneB};
  const std::vector<Seen> all = Run(job);
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  ExpectOneProcess(all, job);
}

TEST_F(PipelineFakeGpuTest, NoRunBeginsBehindTheLastStep) {
  runs_behind_the_last_ = true;
  const Job job{"nccl", PipelineSchedule::kOneFOneB};
  const std::vector<Seen> all = Run(job);
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  ExpectOneProcess(all, job);
}

TEST_F(PipelineFakeGpuTest, AStageThatIsDoneFirstIsReducedFirst) {
  const std::vector<Seen> all =
      Run({"nccl", PipelineSchedule::kInterleaved, 2});
  EXPECT_THAT(all[0].stages_done, ElementsAre(2, 0));
  EXPECT_THAT(all[1].stages_done, ElementsAre(3, 1));
}

// The launch order on the device would differ between the replicas.
TEST_F(PipelineFakeGpuTest, GradientsThatAreNotThereInTheirTurnAreNamed) {
  for (const Seen& seen :
       Run({"nccl", PipelineSchedule::kInterleaved, 2}, /*forgets=*/{2})) {
    EXPECT_THAT(std::string(seen.status.message()),
                HasSubstr("in lane gradient, which is not ready"));
  }
}

}  // namespace
}  // namespace lockstep::pipeline
