#include "tools/ctl/run_job.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::ctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSpec[] = "name: digits\nmesh: data=4\nseed: 7\n";

RunRequest FourOf(const std::string& program) {
  return {.workers = 4, .program = program};
}

RunRequest FourWithSpec() {
  return {.workers = 4, .program = "./trainer", .spec_file = "job.yaml"};
}

TEST(RunJobTest, TakesTheNameOfTheSpec) {
  const auto job = DecideJob(FourWithSpec(), kSpec);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.name, "digits");
  EXPECT_EQ(job->spec.seed, 7u);
  EXPECT_THAT(job->workers,
              ElementsAre("worker-0", "worker-1", "worker-2", "worker-3"));
}

TEST(RunJobTest, WithoutASpecIsNamedAfterTheProgramOrByOption) {
  RunRequest request = FourOf("/opt/bin/trainer");
  EXPECT_EQ(DecideJob(request, "")->spec.name, "trainer");
  EXPECT_EQ(DecideJob(request, "")->spec.mesh.WorldSize(), 4);
  request.job = "night";
  EXPECT_EQ(DecideJob(request, "")->spec.name, "night");
}

TEST(RunJobTest, RefusesTwoNamesAndSaysBoth) {
  RunRequest request = FourWithSpec();
  request.job = "digits";
  EXPECT_TRUE(DecideJob(request, kSpec).ok());
  request.job = "night";
  const auto job = DecideJob(request, kSpec);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(job.status().message()),
      AllOf(HasSubstr("night"), HasSubstr("digits"), HasSubstr("job.yaml")));
}

TEST(RunJobTest, RefusesANameThatNoJobMayHave) {
  const auto job = DecideJob(FourOf("/opt/my trainer"), "");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()),
              AllOf(HasSubstr("my trainer"), HasSubstr("--job")));
}

TEST(RunJobTest, RefusesAMalformedSpecWithItsPlace) {
  const auto job =
      DecideJob(FourWithSpec(), "name: digits\nmesh: data=4\ncolour: red\n");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("job.yaml:3"));
}

TEST(RunJobTest, RefusesWorkersThatAreNotAsManyAsRanks) {
  RunRequest request = FourWithSpec();
  for (const int workers : {1, 3, 5}) {
    request.workers = workers;
    const auto job = DecideJob(request, kSpec);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(job.status().message()),
                AllOf(HasSubstr("-n " + std::to_string(workers)),
                      HasSubstr("4 ranks"), HasSubstr("data=4")));
  }
}

TEST(RunJobTest, GivesWorkersTheNamesThatTheSpecLists) {
  RunRequest request = FourWithSpec();
  request.workers = 2;
  const auto job =
      DecideJob(request, "name: x\nmesh: data=2\nworkers: [left, right]\n");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->workers, ElementsAre("left", "right"));
}

TEST(RunJobTest, NamesTheWorkersOfEachNodeDifferently) {
  RunRequest request = FourWithSpec();
  request.workers = 2;
  request.nodes = 2;
  request.has_address = true;
  EXPECT_THAT(DecideJob(request, kSpec)->workers,
              ElementsAre("worker-0", "worker-1"));
  request.node_rank = 1;
  EXPECT_THAT(DecideJob(request, kSpec)->workers,
              ElementsAre("worker-2", "worker-3"));
  request.spec_file.clear();
  EXPECT_EQ(DecideJob(request, "")->spec.mesh.WorldSize(), 4);
}

TEST(RunJobTest, RefusesNodesThatCannotMeet) {
  RunRequest request = FourOf("trainer");
  request.nodes = 2;
  EXPECT_THAT(std::string(DecideJob(request, "").status().message()),
              HasSubstr("--address"));
  request.has_address = true;
  EXPECT_TRUE(DecideJob(request, "").ok());
  request.node_rank = 2;
  EXPECT_THAT(std::string(DecideJob(request, "").status().message()),
              AllOf(HasSubstr("--node-rank 2"), HasSubstr("--nodes 2")));
  request.node_rank = 1;
  request.spec_file = "job.yaml";
  EXPECT_THAT(
      std::string(DecideJob(request, kSpec).status().message()),
      AllOf(HasSubstr("-n 4"), HasSubstr("8 workers"), HasSubstr("4 ranks")));
}

TEST(RunJobTest, AllowsTheJobTheRestartsOfTheLauncher) {
  RunRequest request = FourWithSpec();
  EXPECT_FALSE(DecideJob(request, kSpec)->differs_from_file);
  request.restarts = 3;
  const auto job = DecideJob(request, kSpec);
  EXPECT_EQ(job->spec.limits.max_restarts, 3);
  EXPECT_TRUE(job->differs_from_file);

  const std::string allows = "limits: {max_restarts: 5}\n";
  EXPECT_EQ(DecideJob(request, kSpec + allows)->spec.limits.max_restarts, 5);
  EXPECT_FALSE(DecideJob(request, kSpec + allows)->differs_from_file);
  request.restarts = 6;
  EXPECT_THAT(
      std::string(DecideJob(request, kSpec + allows).status().message()),
      AllOf(HasSubstr("--restarts 6"), HasSubstr("is 5")));
}

}  // namespace
}  // namespace lockstep::ctl
