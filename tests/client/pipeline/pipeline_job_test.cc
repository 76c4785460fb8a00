// Whole jobs over the real thing: Session::Join, gRPC, GradientSync and
// Pipeline, on Gloo and on shared memory, with the daemon's parts in this
// process.

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/pipeline.h"
#include "lockstep/session.h"
#include "plan/pipeline/shape.h"
#include "tests/client/pipeline/model.h"
#include "tests/server/in_process_daemon.h"

namespace lockstep::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kMicroBatches = 4;
constexpr int kSteps = 3;

struct Job {
  std::string transport;
  PipelineSchedule schedule;
  int virtual_stages = 1;
};

JobSpec SpecOf(const Job& job) {
  return {.name = "job",
          .mesh = {{{"data", 2}, {"pipe", 2}}},
          .transport = job.transport,
          .pipeline = {.schedule = job.schedule,
                       .micro_batches = kMicroBatches,
                       .virtual_stages = job.virtual_stages,
                       .activations = {{{{DType::kF64, {kSamples, kWidth}}}}}},
          .timeouts = {.join = absl::Seconds(30)}};
}

// What one worker saw.
struct Seen {
  absl::Status status;
  int rank = -1;
  std::vector<int> stages;
  std::vector<double> losses;                  // by step
  std::vector<std::vector<Matrix>> gradients;  // by step: of its stages
};

// The samples of a replica's step: a number of their own.
int SamplesOf(int step, int replica) { return 10 * step + replica; }

class Worker {
 public:
  Worker(const std::string& address, const JobSpec& spec, int number,
         int fails_at = -1)
      : address_(address), spec_(spec), number_(number), fails_at_(fails_at) {}

  Seen Run() {
    Seen seen;
    seen.status = Train(seen);
    return seen;
  }

 private:
  absl::Status Train(Seen& seen) {
    auto session = Session::Join({.addresses = {address_},
                                  .worker = absl::StrCat("worker-", number_),
                                  .spec = spec_});
    if (!session.ok()) return session.status();
    seen.rank = (*session)->rank();
    absl::Status trained = TrainIn(**session, seen);
    if (!trained.ok()) return trained;
    return (*session)->Leave();
  }

  absl::Status TrainIn(Session& session, Seen& seen) {
    auto sync = GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    EXPECT_EQ(Pipeline::Create(session).status().code(),
              absl::StatusCode::kFailedPrecondition);
    const plan::ScheduleShape shape = plan::ShapeOf(spec_.pipeline, spec_.mesh);
    std::vector<ParameterId> ids;
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      const int stage = StageOf(shape, seen.rank % 2, chunk);
      auto id = (*sync)->Register({.name = absl::StrCat("stage", stage),
                                   .shape = {kWidth, kWidth},
                                   .dtype = DType::kF64,
                                   .axes = {"data"}});
      if (!id.ok()) return id.status();
      ids.push_back(*id);
    }
    if (absl::Status sealed = (*sync)->Seal(); !sealed.ok()) return sealed;
    auto pipeline = Pipeline::Create(session);
    if (!pipeline.ok()) return pipeline.status();
    EXPECT_FALSE(Pipeline::Create(session).ok()) << "a second one";
    seen.stages = (*pipeline)->stages();
    EXPECT_GT((*pipeline)->buffer_bytes(), 0u);
    std::vector<TanhStage> stages;
    for (const int stage : seen.stages) stages.emplace_back(WeightOf(stage));
    for (int step = 0; step < kSteps; ++step) {
      absl::Status done = Step(step, **sync, **pipeline, ids, stages, seen);
      if (!done.ok()) return done;
    }
    return absl::OkStatus();
  }

  absl::Status Step(int step, GradientSync& sync, Pipeline& pipeline,
                    const std::vector<ParameterId>& ids,
                    std::vector<TanhStage>& stages, Seen& seen) {
    SquareLoss loss;
    const int samples = SamplesOf(step, seen.rank / 2);
    loss.step = samples;
    PipelineStep work{.loss = &loss,
                      .output = {{{DType::kF64, {kSamples, kWidth}}}}};
    for (size_t i = 0; i < stages.size(); ++i) {
      stages[i].BeginStep(samples, seen.stages[i] == 0);
      work.stages.push_back(&stages[i]);
    }
    if (step == fails_at_) {
      stages[0].fail = [](int m) {
        return m == 2 ? absl::DataLossError("a sample cannot be read")
                      : absl::OkStatus();
      };
    }
    work.on_stage_done = [&](int stage) {
      const size_t i =
          std::find(seen.stages.begin(), seen.stages.end(), stage) -
          seen.stages.begin();
      const Matrix& gradient = stages[i].gradient();
      return sync.Submit(ids[i], gradient.data(),
                         gradient.size() * sizeof(double));
    };
    const absl::StatusOr<double> ran = pipeline.Run(work);
    if (!ran.ok()) return ran.status();
    seen.losses.push_back(*ran);
    const auto verdict = sync.Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    std::vector<Matrix>& gradients = seen.gradients.emplace_back();
    for (const ParameterId id : ids) {
      const auto reduced = sync.Gradient<double>(id);
      gradients.emplace_back(reduced.begin(), reduced.end());
    }
    return absl::OkStatus();
  }

  const std::string address_;
  const JobSpec spec_;
  const int number_;
  const int fails_at_;
};

std::vector<Seen> RunJob(const Job& job, int failing_worker = -1) {
  InProcessDaemon daemon;
  const std::string address = rpc::ToString(daemon.server().address());
  std::vector<std::future<Seen>> running;
  for (int i = 0; i < 4; ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      return Worker(address, SpecOf(job), i, i == failing_worker ? 1 : -1)
          .Run();
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

class PipelineJobTest : public testing::TestWithParam<Job> {};

TEST_P(PipelineJobTest, TwoReplicasOfAPipelineTrainAsOneProcess) {
  const std::vector<Seen> all = RunJob(GetParam());
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  const int stages = 2 * GetParam().virtual_stages;
  const std::vector<double> weights(kMicroBatches, 1.0 / kMicroBatches);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Outcome> alone;
    for (const int replica : {0, 1}) {
      alone.push_back(
          RunAlone(stages, SamplesOf(step, replica), weights, WeightOf));
      EXPECT_NEAR(
          all[2 * replica].losses[step] + all[2 * replica + 1].losses[step],
          alone[replica].loss, 1e-12);
    }
    for (const Seen& seen : all) {
      for (size_t i = 0; i < seen.stages.size(); ++i) {
        const Matrix& a = alone[0].gradients[seen.stages[i]];
        const Matrix& b = alone[1].gradients[seen.stages[i]];
        for (size_t k = 0; k < a.size(); ++k) {
          // Mean is a sum times 1/2, in f64.
          ASSERT_NEAR(seen.gradients[step][i][k], (a[k] + b[k]) / 2, 1e-12);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, PipelineJobTest,
    testing::Values(Job{"gloo", PipelineSchedule::kOneFOneB},
                    Job{"gloo", PipelineSchedule::kInterleaved, 2},
                    Job{"shm", PipelineSchedule::kGPipe},
                    Job{"shm", PipelineSchedule::kZbH1},
                    Job{"shm", PipelineSchedule::kZbV, 2}),
    [](const auto& info) {
      std::string name = absl::StrCat(info.param.transport, "_",
                                      std::string(Name(info.param.schedule)));
      for (char& c : name) {
        if (c == '-') c = '_';
      }
      return name;
    });

TEST(PipelineFailureTest, EveryRankIsToldStageMicroBatchAndMessage) {
  for (const Seen& seen :
       RunJob({"gloo", PipelineSchedule::kOneFOneB}, /*failing_worker=*/1)) {
    EXPECT_FALSE(seen.status.ok());
    EXPECT_THAT(std::string(seen.status.message()),
                AllOf(HasSubstr("micro-batch 2"), HasSubstr("stage"),
                      HasSubstr("a sample cannot be read")));
  }
}

}  // namespace
}  // namespace lockstep::pipeline
