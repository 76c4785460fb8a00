// Whole jobs execute exactly the transfers of their plan: sessions over the
// real core, each with a recording transport.

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/executor/trace.h"
#include "tests/client/gradient/negotiated_job.h"
#include "tests/client/pipeline/job_worker.h"
#include "tests/support/recording_communicator.h"

namespace lockstep::executor {
namespace {

// --- Pipelines with gradients -----------------------------------------------

using pipeline::Job;
using pipeline::JobWorker;
using pipeline::Seen;
using pipeline::Tied;

// The job's plan for the registrations of JobWorker.
plan::Plan PlanOf(const JobSpec& spec) {
  plan::PlanInput input{.mesh = spec.mesh,
                        .sync = spec.sync,
                        .policy = spec.buckets,
                        .pipeline = spec.pipeline};
  input.leaves = spec.reproducible.leaves;
  const plan::ScheduleShape shape = plan::ShapeOf(spec.pipeline, spec.mesh);
  const std::vector<int64_t> square = {pipeline::kWidth, pipeline::kWidth};
  for (int rank = 0; rank < spec.mesh.WorldSize(); ++rank) {
    std::vector<Parameter>& mine = input.registrations.emplace_back();
    int tied_stage = -1;
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      const int stage = StageOf(shape, rank % 2, chunk);
      mine.push_back({.name = absl::StrCat("stage", stage),
                      .shape = square,
                      .dtype = DType::kF64,
                      .axes = {"data"},
                      .stage = stage});
      const bool shares = stage == 0 || stage == shape.stages() - 1;
      if (shares && tied_stage < 0) tied_stage = stage;
    }
    if (spec.pipeline.shared.empty() || tied_stage < 0) continue;
    mine.push_back({.name = "tied",
                    .shape = square,
                    .dtype = DType::kF64,
                    .axes = {"data"},
                    .stage = tied_stage});
  }
  return *plan::Compile(input);
}

class PipelineJobTrace : public testing::TestWithParam<Job> {
 protected:
  std::vector<Seen> Run(const JobSpec& spec, const Tied& tied) {
    std::vector<std::future<Seen>> running;
    for (int i = 0; i < 4; ++i) {
      running.push_back(std::async(std::launch::async, [&, i] {
        Seen seen;
        seen.status = Live(spec, tied, i, seen);
        return seen;
      }));
    }
    std::vector<Seen> all;
    for (auto& each : running) all.push_back(each.get());
    return all;
  }
  Recorder& recorder(int worker) { return recorders_[worker]; }

 private:
  absl::Status Live(const JobSpec& spec, const Tied& tied, int number,
                    Seen& seen) {
    auto session = Session::Impl::Join(
        {.addresses = {"core"},
         .job = spec.name,
         .worker = absl::StrCat("worker-", number),
         .spec = spec},
        {.channels = session::MakeFakeChannels(&server_),
         .make_transport = [&](const JobSpec&)
             -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
           return MakeRecordingTransport(transport::MakeInprocTransport(&hub_),
                                         &recorders_[number]);
         },
         .clock = clock_,
         .process = {"host", number + 1, "boot", 1},
         .incarnation = ++incarnations_});
    if (!session.ok()) return session.status();
    JobWorker worker(spec, /*fails_at=*/-1, /*kernel_queue=*/nullptr);
    worker.tied = tied;
    absl::Status trained = worker.Train(**session, seen);
    return trained.ok() ? (*session)->Leave() : trained;
  }

  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  session::CoreServer server_{clock_.get()};
  transport::InprocHub hub_;
  std::deque<Recorder> recorders_ = std::deque<Recorder>(4);
};

TEST_P(PipelineJobTrace, EqualsPlan) {
  JobSpec spec = SpecOf(GetParam());
  spec.timeouts.lease = spec.timeouts.resume = absl::Seconds(20);
  const std::vector<Seen> all = Run(spec, GetParam().tied);
  const plan::Plan plan = PlanOf(spec);
  for (int worker = 0; worker < 4; ++worker) {
    ASSERT_EQ(all[worker].status, absl::OkStatus());
    const Trace trace(plan, all[worker].rank, recorder(worker).calls(),
                      pipeline::kSteps);
    EXPECT_EQ(trace.Difference(), "") << "rank " << all[worker].rank;
  }
}

Job Of(PipelineSchedule schedule, int virtual_stages = 1,
       SyncMode sync = SyncMode::kStatic) {
  return {"shm", schedule, virtual_stages, sync};
}
Job WithTied(PipelineSchedule schedule, int virtual_stages, Overlap overlap) {
  Job job = Of(schedule, virtual_stages);
  job.tied = {.registered = Tied::Stage::kItsOwn};
  job.overlap = overlap;
  return job;
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineJobTrace,
    testing::Values(
        Of(PipelineSchedule::kGPipe), Of(PipelineSchedule::kOneFOneB),
        Of(PipelineSchedule::kInterleaved, 2), Of(PipelineSchedule::kZbH1),
        Of(PipelineSchedule::kZbV, 2),
        Of(PipelineSchedule::kOneFOneB, 1, SyncMode::kReduceScatter),
        WithTied(PipelineSchedule::kOneFOneB, 1, Overlap::kThread),
        WithTied(PipelineSchedule::kInterleaved, 2, Overlap::kInline)),
    [](const testing::TestParamInfo<Job>& info) {
      std::string name(Name(info.param.schedule));
      std::erase(name, '-');
      if (info.param.sync == SyncMode::kReduceScatter) name += "Sharded";
      if (HasTied(info.param)) name += "Tied";
      return name;
    });

// --- Negotiated mode --------------------------------------------------------

class NegotiatedTrace : public gradient::NegotiatedJob {
 protected:
  absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport(
      int worker) override {
    return MakeRecordingTransport(transport::MakeInprocTransport(&hub_),
                                  &recorders_[worker]);
  }
  std::deque<Recorder> recorders_ = std::deque<Recorder>(3);
};

// The coordinator decides the order, so the plan's order is not enforced.
TEST_F(NegotiatedTrace, EqualsPlanInSomeOrder) {
  const std::vector<ParameterOptions> parameters = {
      {.name = "w", .shape = {3}},
      {.name = "b", .shape = {2}, .op = ReduceOp::kSum},
      {.name = "v", .shape = {70}}};
  constexpr int kPasses = 4;
  RunWell(
      3, [&](int) { return parameters; },
      [&](gradient::Device& device) -> absl::Status {
        for (int pass = 0; pass < kPasses; ++pass) {
          LOCKSTEP_TEST_TRY(device.sync.BeginPass(device.ids));
          for (size_t i = 0; i < device.ids.size(); ++i) {
            const size_t p = (i + pass + device.rank()) % device.ids.size();
            LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[p]));
          }
          LOCKSTEP_TEST_TRY(device.sync.Finish().status());
        }
        return absl::OkStatus();
      });
  plan::PlanInput input{.mesh = {{{"data", 3}}}, .sync = SyncMode::kNegotiated};
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<Parameter>& mine = input.registrations.emplace_back();
    for (const ParameterOptions& p : parameters) {
      mine.push_back({.name = p.name, .shape = p.shape, .op = p.op});
    }
  }
  const plan::Plan plan = *plan::Compile(input);
  for (int rank = 0; rank < 3; ++rank) {
    const Trace trace(plan, rank, recorders_[rank].calls(), kPasses);
    EXPECT_EQ(trace.DifferenceInAnyOrder(), "") << "worker " << rank;
  }
}

}  // namespace
}  // namespace lockstep::executor
