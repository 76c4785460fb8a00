// Whole jobs over real transports: Session::Join, gRPC, GradientSync and
// Pipeline, on Gloo and on shared memory, with the daemon's parts in this
// process.

#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/pipeline/job_worker.h"
#include "tests/server/in_process_daemon.h"

namespace lockstep::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class Trouble {
  kFails,
  kLeaves,
  kRests,
  kCallsOutOfTurn,
  kRunsBeforeTheVerdict
};

absl::Status Live(const std::string& address, const Job& job, int number,
                  int fails_at, Trouble trouble, Seen& seen) {
  JobSpec spec = SpecOf(job);
  if (trouble == Trouble::kRests) {
    spec.timeouts.progress = absl::Milliseconds(500);
    spec.on_stuck = OnStuck::kEvict;
  }
  auto session = Session::Join({.addresses = {address},
                                .worker = absl::StrCat("worker-", number),
                                .spec = spec});
  if (!session.ok()) return session.status();
  HostSite site(absl::Microseconds(200));
  JobWorker worker(spec, fails_at, job.on_stream ? &site : nullptr);
  worker.tied = job.tied;
  worker.runs_before_the_verdict = trouble == Trouble::kRunsBeforeTheVerdict;
  if (trouble == Trouble::kLeaves) {
    worker.fails_with = [&session] {
      (*session)->Leave().IgnoreError();
      return absl::CancelledError("has left");
    };
  }
  // The worker's program hangs for ever.
  if (trouble == Trouble::kRests) {
    worker.fails_before = [&session] {
      while ((*session)->status().ok()) absl::SleepFor(absl::Milliseconds(5));
      return (*session)->status();
    };
  }
  if (trouble == Trouble::kCallsOutOfTurn) worker.calls_out_of_turn = true;
  absl::Status trained = worker.Train(**session, seen);
  return trained.ok() ? (*session)->Leave() : trained;
}

std::vector<Seen> RunJob(const Job& job, int failing_worker = -1,
                         Trouble trouble = Trouble::kFails) {
  InProcessDaemon daemon;
  const std::string address = rpc::ToString(daemon.server().address());
  std::vector<std::future<Seen>> running;
  for (int i = 0; i < 4; ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      Seen seen;
      seen.status =
          Live(address, job, i, i == failing_worker ? 1 : -1, trouble, seen);
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

class PipelineJobTest : public testing::TestWithParam<Job> {};

TEST_P(PipelineJobTest, TwoReplicasOfAPipelineTrainAsOneProcess) {
  const std::vector<Seen> all = RunJob(GetParam());
  for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
  ExpectOneProcess(all, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Each, PipelineJobTest,
    testing::Values(
        Job{"gloo", PipelineSchedule::kOneFOneB},
        Job{"gloo", PipelineSchedule::kInterleaved, 2},
        Job{"shm", PipelineSchedule::kGPipe},
        Job{"shm", PipelineSchedule::kZbH1},
        Job{"shm", PipelineSchedule::kZbV, 2},
        // Slices are gathered before the first stage computes, and reduced
        // among its last transfers; so are micro-shards, one for each replica.
        Job{"gloo", PipelineSchedule::kZbH1, 1, SyncMode::kReduceScatter},
        Job{"shm", PipelineSchedule::kInterleaved, 2, SyncMode::kReduceScatter},
        Job{"gloo", PipelineSchedule::kZbV, 2, SyncMode::kStatic,
            /*leaves=*/2},
        Job{"shm", PipelineSchedule::kOneFOneB, 1, SyncMode::kStatic,
            /*leaves=*/2}),
    [](const auto& info) {
      const Job& job = info.param;
      std::string name =
          absl::StrCat(job.transport, "_", std::string(Name(job.schedule)));
      if (job.sync == SyncMode::kReduceScatter)
        absl::StrAppend(&name, "_slices");
      if (job.leaves > 0) absl::StrAppend(&name, "_leaves");
      for (char& c : name) {
        if (c == '-') c = '_';
      }
      return name;
    });

TEST(PipelineStreamTest, StagesOnAStreamOfTheHostTrainAsOneProcess) {
  for (const Trouble trouble :
       {Trouble::kFails, Trouble::kRunsBeforeTheVerdict}) {
    Job job{"shm", PipelineSchedule::kOneFOneB};
    job.on_stream = true;
    const std::vector<Seen> all = RunJob(job, /*failing_worker=*/-1, trouble);
    for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
    ExpectOneProcess(all, job);
  }
}

// --- A parameter of the first and the last stage ----------------------------

struct TiedCase {
  PipelineSchedule schedule;
  Tied::Stage registered;
};

class TiedWeightTest : public testing::TestWithParam<TiedCase> {};

// On either thread that runs the transfers, from a view or a buffer.
TEST_P(TiedWeightTest, HasTheGradientOfOneProcess) {
  const auto [schedule, registered] = GetParam();
  const bool two = schedule == PipelineSchedule::kInterleaved ||
                   schedule == PipelineSchedule::kZbV;
  for (const Overlap overlap :
       {Overlap::kThread, Overlap::kAuto, Overlap::kInline}) {
    for (const bool in_view : {true, false}) {
      SCOPED_TRACE(absl::StrCat("overlap ", std::string(Name(overlap)),
                                in_view ? ", in its view" : ", from a buffer"));
      const Job job{.transport = "shm",
                    .schedule = schedule,
                    .virtual_stages = two ? 2 : 1,
                    .tied = {.registered = registered, .in_view = in_view},
                    .overlap = overlap};
      const std::vector<Seen> all = RunJob(job);
      for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
      // In replica 0 these ranks have the first and the last stage.
      ASSERT_FALSE(all[0].tied.empty());
      ASSERT_EQ(all[1].tied.empty(), schedule == PipelineSchedule::kZbV);
      ExpectOneProcess(all, job);
    }
  }
}

std::vector<TiedCase> TiedCases() {
  std::vector<TiedCase> cases;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kOneFOneB,
        PipelineSchedule::kInterleaved, PipelineSchedule::kZbH1,
        PipelineSchedule::kZbV}) {
    cases.push_back({schedule, Tied::Stage::kItsOwn});
    cases.push_back({schedule, Tied::Stage::kNone});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(
    Each, TiedWeightTest, testing::ValuesIn(TiedCases()), [](const auto& info) {
      std::string name(Name(info.param.schedule));
      std::erase(name, '-');
      return absl::StrCat(name, info.param.registered == Tied::Stage::kItsOwn
                                    ? "_of_its_stage"
                                    : "_of_no_stage");
    });

// Submits before the run, or in its third micro-batch: both before the two
// ranks have reduced their gradients.
Job SubmitsBeforeTheSum(bool in_view, bool in_run) {
  return {.transport = "shm",
          .schedule = PipelineSchedule::kInterleaved,
          .virtual_stages = 2,
          .tied = {.registered = Tied::Stage::kNone,
                   .in_view = in_view,
                   .in_run = in_run,
                   .before_run = !in_run},
          .overlap = Overlap::kThread};
}

TEST(TiedWeightOrderTest, ThatIsSubmittedBeforeTheSumIsReducedBehindIt) {
  for (const bool in_run : {false, true}) {
    const Job job = SubmitsBeforeTheSum(/*in_view=*/true, in_run);
    const std::vector<Seen> all = RunJob(job);
    for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
    ExpectOneProcess(all, job);
  }
}

// The stream reaches the Submit when the host has called more.
TEST(TiedWeightOrderTest, ThatIsSubmittedOnAStreamIsReducedBehindTheSum) {
  for (const Overlap overlap : {Overlap::kThread, Overlap::kInline}) {
    Job job = SubmitsBeforeTheSum(/*in_view=*/true, /*in_run=*/false);
    job.schedule = PipelineSchedule::kOneFOneB;
    job.virtual_stages = 1;
    job.on_stream = true;
    job.overlap = overlap;
    const std::vector<Seen> all = RunJob(job);
    for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
    ExpectOneProcess(all, job);
  }
}

TEST(TiedWeightOrderTest, ThatIsCopiedBeforeTheSumIsRefused) {
  const std::string sentence =
      "tied is submitted before its gradients of the first and the last stage "
      "were added up";
  for (const Seen& seen : RunJob(SubmitsBeforeTheSum(false, /*in_run=*/true))) {
    EXPECT_THAT(std::string(seen.status.message()), HasSubstr(sentence));
  }
  // Before the run it is a wrong call, so only its caller gets the error; then
  // the test's worker leaves.
  int told = 0;
  for (const Seen& seen :
       RunJob(SubmitsBeforeTheSum(false, /*in_run=*/false))) {
    EXPECT_FALSE(seen.status.ok());
    told += absl::StrContains(seen.status.message(), sentence) ? 1 : 0;
  }
  EXPECT_GT(told, 0);
}

TEST(PipelineFailureTest, EveryRankIsToldStageMicroBatchAndMessage) {
  for (const Seen& seen :
       RunJob({"gloo", PipelineSchedule::kOneFOneB}, /*failing_worker=*/1)) {
    EXPECT_FALSE(seen.status.ok());
    EXPECT_THAT(std::string(seen.status.message()),
                AllOf(HasSubstr("micro-batch 2"), HasSubstr("stage"),
                      HasSubstr("a sample cannot be read")));
  }
}

TEST(PipelineFailureTest, ARankThatLeavesInTheMiddleEndsTheStepOfAll) {
  for (const char* transport : {"gloo", "shm"}) {
    const std::vector<Seen> all =
        RunJob({transport, PipelineSchedule::kOneFOneB}, /*failing_worker=*/1,
               Trouble::kLeaves);
    for (const Seen& seen : all) {
      EXPECT_FALSE(seen.status.ok()) << "rank " << seen.rank;
      // The rank that left gets only its own error.
      const bool left = seen.rank == 1;
      EXPECT_THAT(std::string(seen.status.message()),
                  HasSubstr(left ? "has left" : "worker-1"));
    }
  }
}

// Ranks that wait for its messages are not stuck, though they have submitted
// nothing.
TEST(PipelineFailureTest, WhoDoesNotRunIsStuckAndNotWhoWaitsForItsMessages) {
  for (const int resting : {0, 1}) {
    for (const Seen& seen : RunJob({"shm", PipelineSchedule::kOneFOneB},
                                   resting, Trouble::kRests)) {
      const std::string message(seen.status.message());
      EXPECT_THAT(message,
                  HasSubstr(absl::StrCat("worker-", resting, " (rank")));
      EXPECT_THAT(message, HasSubstr("was evicted: step 1:"));
      EXPECT_THAT(message, HasSubstr("has been between steps"));
      for (int other = 0; other < 4; ++other) {
        EXPECT_EQ(other == resting,
                  absl::StrContains(message,
                                    absl::StrCat("worker-", other, " (rank")))
            << message;
      }
    }
  }
}

TEST(PipelineOrderTest, CallsOutOfTurnAreRefusedAndChangeNothing) {
  for (const char* transport : {"gloo", "shm"}) {
    const Job job{transport, PipelineSchedule::kInterleaved, 2};
    const std::vector<Seen> all = RunJob(job, -1, Trouble::kCallsOutOfTurn);
    for (const Seen& seen : all) ASSERT_EQ(seen.status, absl::OkStatus());
    ExpectOneProcess(all, job);
  }
}

}  // namespace
}  // namespace lockstep::pipeline
