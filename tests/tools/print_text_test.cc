// The output of describe, watch and jobs for people.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/ctl/print.h"

namespace lockstep::ctl {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

WorkerView Worker(int rank, absl::Duration silent_for = absl::ZeroDuration()) {
  return {.name = {absl::StrCat("worker-", rank)},
          .generation = {1},
          .state = WorkerState::kReady,
          .rank = rank,
          .coordinates = {rank},
          .process = {.host = "h", .pid = 100 + rank},
          .position = {412, protocol::Phase::kCompute},
          .silent_for = silent_for};
}

JobView Running(std::vector<WorkerView> workers) {
  const int size = static_cast<int>(workers.size());
  return {.spec = {.name = "digits",
                   .mesh = {{{"data", size}}},
                   .timeouts = {.lease = absl::Seconds(10)}},
          .name = {"digits"},
          .state = JobState::kRunning,
          .epoch = {2},
          .workers = std::move(workers),
          .step = 412};
}

// With this lease, heartbeats are 2.5 s apart.
TEST(PrintTextTest, ShowsAWorkerThatIsSilentBeforeItsLeaseExpires) {
  const std::string text = JobAsText(Running(
      {Worker(0, absl::Seconds(2)), Worker(1, absl::Milliseconds(4260))}));
  EXPECT_THAT(text, HasSubstr("2 of 2 ready  worker-1 is silent for 4.2s\n"));
  EXPECT_THAT(text, HasSubstr("h:101  silent for 4.2s\n"));
  EXPECT_THAT(text, HasSubstr("h:100\n")) << "worker-0 is not late";
}

TEST(PrintTextTest, SaysWhenAJobIsDrained) {
  JobView view = Running({Worker(0)});
  view.wanted = {.commands = {Command::kDrain}, .reason = "lunch"};
  EXPECT_THAT(JobAsLine(view), EndsWith("  drain is wanted (lunch)\n"));
  view.state = JobState::kForming;
  EXPECT_THAT(JobAsLine(view), EndsWith("  drained (lunch)\n"));
}

TEST(PrintTextTest, OneOfEachIsNoPlural) {
  JobView view = Running({Worker(0)});
  view.missing = 1;
  view.parameters = {{.name = "w", .shape = {1}}};
  view.buckets = {{}};
  EXPECT_THAT(JobAsText(view), HasSubstr("1 rank is still missing\n"));
  EXPECT_THAT(JobAsText(view), HasSubstr("\n1 parameter in 1 bucket\n"));
  view.missing = 2;
  view.buckets = {{}, {}};
  EXPECT_THAT(JobAsText(view), HasSubstr("2 ranks are still missing\n"));
  EXPECT_THAT(JobAsText(view), HasSubstr("\n1 parameter in 2 buckets\n"));
}

TEST(PrintTextTest, CountsFurtherSilentWorkers) {
  EXPECT_THAT(JobAsLine(Running({Worker(0, absl::Seconds(5)),
                                 Worker(1, absl::Seconds(6)),
                                 Worker(2, absl::Seconds(7))})),
              HasSubstr("worker-0 is silent for 5s, and 2 more"));
}

TEST(PrintTextTest, NobodyIsExpectedToSpeakOnceItHasLeftOrTheJobIsOver) {
  WorkerView gone = Worker(1, absl::Hours(1));
  gone.state = WorkerState::kLeft;
  EXPECT_THAT(JobAsText(Running({Worker(0), gone})), Not(HasSubstr("silent")));
  JobView over = Running({Worker(0, absl::Hours(1))});
  over.state = JobState::kCompleted;
  EXPECT_THAT(JobAsText(over), Not(HasSubstr("silent")));
}

TEST(PrintTextTest, SaysWhenAllArePaused) {
  JobView view = Running({Worker(0), Worker(1)});
  view.wanted = {.commands = {Command::kPause}, .reason = "lunch"};
  view.workers[0].paused = true;
  EXPECT_THAT(JobAsLine(view), EndsWith("  pause is wanted (lunch)\n"));
  view.workers[1].paused = true;
  EXPECT_THAT(JobAsLine(view), EndsWith("  paused (lunch)\n"));
}

TEST(PrintTextTest, TheEndOfAnEarlierEpochIsNoNewsWhileTheNextOneRuns) {
  const std::string cause =
      "epoch 1 ended: drained by an operator: maintenance";
  JobView view = Running({Worker(0)});
  view.cause.message = cause;
  EXPECT_THAT(JobAsLine(view), Not(HasSubstr("drained")));
  EXPECT_THAT(JobAsText(view), HasSubstr("ready\n" + cause + "\n"));
  view.state = JobState::kForming;
  EXPECT_THAT(JobAsLine(view), HasSubstr(cause));
}

TEST(PrintTextTest, AWorkerOutsideOfAnEpochHasNoPosition) {
  JobView view = Running({{.name = {"worker-0"},
                           .generation = {1},
                           .state = WorkerState::kLeft,
                           .process = {.host = "h", .pid = 100}}});
  view.state = JobState::kCompleted;
  EXPECT_THAT(JobAsText(view),
              ContainsRegex("\n- +worker-0 +left +1 +- +- +- +- +- +h:100\n"));
}

TEST(PrintTextTest, LimitsHaveTheirUseAndWhatWasRefused) {
  const std::string text =
      LimitsAsText({{.name = "jobs", .value = 9, .used = 2, .highest = 3},
                    {.name = "message_bytes", .value = 7, .refused = 4}});
  EXPECT_THAT(text, ContainsRegex("\njobs +9 +2 +3 +0\n"));
  EXPECT_THAT(text, ContainsRegex("\nmessage_bytes +7 +- +0 +4\n"));
}

TEST(PrintTextTest, ColumnsAreAsWideAsTheirLongestCell) {
  const std::string long_name(60, 'x');
  const std::string text = JobsAsText(
      {{.name = {"a"}, .state = JobState::kForming, .world_size = 2},
       {.name = {long_name}, .state = JobState::kRunning, .world_size = 2}});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].find("state"), long_name.size() + 2);
  EXPECT_EQ(lines[1].find("forming"), long_name.size() + 2);
  EXPECT_EQ(lines[2].find("running"), long_name.size() + 2);

  JobView view = Running({Worker(0), Worker(1)});
  view.workers[1].name = {long_name};
  const std::string table = JobAsText(view);
  const size_t state = table.find("state") - table.find("rank ");
  for (const std::string& name : {std::string("worker-0"), long_name}) {
    const size_t row = table.rfind('\n', table.find("  " + name)) + 1;
    EXPECT_EQ(table.find("ready", row) - row, state) << table;
  }
}

TEST(PrintTextTest, SaysWhatFollowsOnEachCommand) {
  EXPECT_EQ(CommandAsText({"J"}, JobCommand::kPause),
            "job J: all ranks will pause after the same step\n");
  for (const JobCommand command :
       {JobCommand::kResume, JobCommand::kDrain, JobCommand::kStop,
        JobCommand::kRebuild, JobCommand::kSave}) {
    EXPECT_THAT(CommandAsText({"J"}, command),
                AllOf(ContainsRegex("^job J: .{10}"), Not(HasSubstr("asked"))));
  }
}

TEST(PrintTextTest, ShowsTheSaveInProgressAndTheLastOnes) {
  JobView view = Running({Worker(0)});
  EXPECT_THAT(JobAsText(view), Not(HasSubstr("checkpoints")));
  view.checkpoint = {.committed = CheckpointName{20, 1, 3},
                     .committed_ago = absl::Seconds(12),
                     .saving = true,
                     .saving_step = 30,
                     .bytes_done = 3u << 20,
                     .bytes_total = 6u << 20,
                     .saving_for = absl::Seconds(2),
                     .failure = "rank 1: no space",
                     .failed_step = 25,
                     .failed_ago = absl::Seconds(5)};
  const std::string saving = "saves step 30: 3.0 MiB of 6.0 MiB, 1.5 MiB/s";
  EXPECT_THAT(JobAsLine(view), HasSubstr(saving));
  EXPECT_THAT(
      JobAsText(view),
      HasSubstr("\ncheckpoints\n"
                "  step 20 is committed (attempt 3), 12.0 s ago\n  " +
                saving + "\n  step 25 failed 5.0 s ago: rank 1: no space\n"));
  EXPECT_THAT(
      JobAsJson(view, -1),
      HasSubstr(R"("saving":{"step":30,"bytes_done":3145728,)"
                R"("bytes_total":6291456,"bytes_per_second":1572864.0,)"));
  view.checkpoint.committed_ago = absl::InfiniteDuration();
  EXPECT_THAT(JobAsText(view), HasSubstr("before the coordinator began"));
  EXPECT_THAT(JobAsJson(view, -1), HasSubstr(R"("seconds_ago":null)"));
}

}  // namespace
}  // namespace lockstep::ctl
