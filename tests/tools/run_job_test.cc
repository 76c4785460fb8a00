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

TEST(RunJobTest, SparesComeBehindTheWorkersOfAllHosts) {
  RunRequest request = FourOf("trainer");
  request.nodes = 2;
  request.node_rank = 1;
  request.spares = 2;
  request.has_address = true;
  const auto job = DecideJob(request, "");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.mesh.WorldSize(), 8);
  EXPECT_EQ(job->spec.limits.spares, 4);
  EXPECT_EQ(job->spec.limits.max_restarts, 4);
  EXPECT_TRUE(job->differs_from_file);
  EXPECT_THAT(job->workers, ElementsAre("worker-4", "worker-5", "worker-6",
                                        "worker-7", "worker-10", "worker-11"));
}

TEST(RunJobTest, TheSpecMayAllowSparesItself) {
  RunRequest request = FourWithSpec();
  request.spares = 2;
  const std::string allows = "limits: {max_restarts: 1, spares: 2}\n";
  const auto job = DecideJob(request, kSpec + allows);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.limits.max_restarts, 1);
  EXPECT_FALSE(job->differs_from_file);
  request.spares = 3;
  EXPECT_THAT(
      std::string(DecideJob(request, kSpec + allows).status().message()),
      AllOf(HasSubstr("--spares 3"), HasSubstr("is 2")));
}

TEST(RunJobTest, SparesOfASpecWithNamesAreNamed) {
  RunRequest request = FourWithSpec();
  request.spares = 1;
  const std::string four = "workers: [a, b, c, d]\n";
  EXPECT_THAT(std::string(DecideJob(request, kSpec + four).status().message()),
              AllOf(HasSubstr("--spares 1"), HasSubstr("names its workers")));
  const auto job =
      DecideJob(request, std::string(kSpec) +
                             "workers: [a, b, c, d, e]\n"
                             "limits: {max_restarts: 1, spares: 1}\n");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->workers, ElementsAre("a", "b", "c", "d", "e"));
}

TEST(RunJobTest, AJobThatGoesOnNeedsFewerWorkers) {
  RunRequest request = FourWithSpec();
  EXPECT_EQ(DecideJob(request, kSpec)->needed, 4);
  const std::string elastic = "elastic: {axis: data, min_workers: 2}\n";
  EXPECT_EQ(DecideJob(request, kSpec + elastic)->needed, 4)
      << "without restarts the first loss ends the job";
  const std::string restarts = "limits: {max_restarts: 9}\n";
  EXPECT_EQ(DecideJob(request, kSpec + elastic + restarts)->needed, 2);
  EXPECT_EQ(DecideJob(request, kSpec + restarts)->needed, 4);
  request.spares = 1;
  EXPECT_EQ(DecideJob(request, kSpec)->needed, 4);
}

// --- A job that exists ------------------------------------------------------

JobSpec Existing(const std::string& mesh) {
  JobSpec spec{.name = "trainer", .mesh = ParseMesh(mesh).value()};
  spec.sync = SyncMode::kNegotiated;
  return spec;
}

TEST(RunJobTest, WithoutAFileTakesTheSpecOfTheJobThatExists) {
  const RunRequest request = FourOf("./trainer");
  JobSpec existing = Existing("data=2,pipe=2");
  existing.workers = {"a", "b", "c", "d"};
  const auto job =
      JoinExisting(request, existing, DecideJob(request, "").value());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec, existing);
  EXPECT_THAT(job->workers, ElementsAre("a", "b", "c", "d"));
  EXPECT_TRUE(job->differs_from_file);
}

TEST(RunJobTest, WorkersAndRestartsMustFitTheJobThatExists) {
  RunRequest request = FourOf("./trainer");
  const RunJob decided = DecideJob(request, "").value();
  EXPECT_THAT(
      std::string(JoinExisting(request, Existing("data=3"), decided)
                      .status()
                      .message()),
      AllOf(HasSubstr("-n 4"), HasSubstr("data=3"), HasSubstr("trainer")));
  request.restarts = 2;
  EXPECT_THAT(std::string(JoinExisting(request, Existing("data=4"), decided)
                              .status()
                              .message()),
              AllOf(HasSubstr("--restarts 2"), HasSubstr("max_restarts")));
  request.restarts = 0;
  request.spares = 1;
  EXPECT_THAT(std::string(JoinExisting(request, Existing("data=4"), decided)
                              .status()
                              .message()),
              AllOf(HasSubstr("--spares 1"), HasSubstr("limits.spares")));
}

TEST(RunJobTest, ATrustedNetworkIsAddedToTheSpec) {
  RunRequest request = FourWithSpec();
  EXPECT_EQ(DecideJob(request, kSpec)->spec.data_plane, DataPlane::kLocal);
  request.trusts_network = true;
  const RunJob job = DecideJob(request, kSpec).value();
  EXPECT_EQ(job.spec.data_plane, DataPlane::kTrusted);
  EXPECT_TRUE(job.differs_from_file);
  request.spec_file.clear();
  EXPECT_THAT(
      std::string(
          JoinExisting(request, Existing("data=4"), job).status().message()),
      AllOf(HasSubstr("--data-plane"), HasSubstr("trainer")));
}

TEST(RunJobTest, AFileMustBeTheSpecOfTheJobThatExists) {
  const RunRequest request = FourWithSpec();
  const RunJob decided = DecideJob(request, kSpec).value();
  EXPECT_TRUE(JoinExisting(request, decided.spec, decided).ok());
  JobSpec other = decided.spec;
  other.seed = 8;
  const auto refused = JoinExisting(request, other, decided);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("seed: 8 in the job, 7 in job.yaml")));
}

}  // namespace
}  // namespace lockstep::ctl
