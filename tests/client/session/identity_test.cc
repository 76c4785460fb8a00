#include "client/session/identity.h"

#include <cstdio>
#include <fstream>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_path.h"

namespace lockstep::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const protocol::ProcessInfo kProcess{"node-1", 42, "boot"};

absl::StatusOr<JoinOptions> CompleteWith(
    const std::map<std::string, std::string>& environment,
    JoinOptions options = {}) {
  return Complete(
      std::move(options),
      [&](const std::string& name) {
        const auto found = environment.find(name);
        return found == environment.end() ? "" : found->second;
      },
      kProcess);
}

TEST(IdentityTest, ANameOfTheJobIsAllThatIsNeeded) {
  const auto options = CompleteWith({{"LOCKSTEP_JOB", "digits"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job, "digits");
  EXPECT_EQ(options->worker, "node-1-42");
  EXPECT_EQ(options->host_address, "127.0.0.1");
  EXPECT_THAT(options->addresses, ElementsAre("127.0.0.1:7070"));
  EXPECT_FALSE(options->spec.has_value());
}

TEST(IdentityTest, TakesFromTheEnvironmentWhatTheOptionsLeaveEmpty) {
  const auto options = CompleteWith({{"LOCKSTEP_ADDRESS", "a:1, b:2"},
                                     {"LOCKSTEP_JOB", "digits"},
                                     {"LOCKSTEP_WORKER_NAME", "worker-3"},
                                     {"LOCKSTEP_TOKEN", "secret"},
                                     {"LOCKSTEP_HOST_ADDRESS", "10.0.0.3"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->addresses, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(options->worker, "worker-3");
  EXPECT_EQ(options->token, "secret");
  EXPECT_EQ(options->host_address, "10.0.0.3");
}

TEST(IdentityTest, ALauncherSaysWhichLaunchItIs) {
  const auto launch_of = [](const std::string& text) {
    return LaunchOf([&](const std::string& name) {
      return name == "LOCKSTEP_LAUNCH" ? text : "";
    });
  };
  EXPECT_EQ(*launch_of(""), std::nullopt);
  EXPECT_EQ(*launch_of("node-1-42-feed"),
            (protocol::Launch{"node-1-42-feed", 1, 0}));
  EXPECT_EQ(*launch_of("node-1-42-feed 1/2"),
            (protocol::Launch{"node-1-42-feed", 2, 1}));
  for (const char* wrong : {"a 2/2", "a -1/2", "a 1", "a 0/1 b", " 0/1"}) {
    EXPECT_THAT(std::string(launch_of(wrong).status().message()),
                HasSubstr(wrong));
  }
}

TEST(IdentityTest, TheProgramsOptionsGoBeforeTheEnvironment) {
  const auto options =
      CompleteWith({{"LOCKSTEP_ADDRESS", "a:1"},
                    {"LOCKSTEP_JOB", "digits"},
                    {"LOCKSTEP_WORKER_NAME", "worker-3"}},
                   {.addresses = {"c:3"}, .job = "letters", .worker = "me"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->addresses, ElementsAre("c:3"));
  EXPECT_EQ(options->job, "letters");
  EXPECT_EQ(options->worker, "me");
}

TEST(IdentityTest, AWorldSizeMakesTheSpec) {
  const auto options =
      CompleteWith({{"LOCKSTEP_JOB", "digits"}, {"LOCKSTEP_WORLD_SIZE", "4"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(*options->spec,
            (JobSpec{.name = "digits", .mesh = {{{"data", 4}}}}));
}

TEST(IdentityTest, ASpecOfTheProgramGoesBeforeAWorldSize) {
  const JobSpec spec{.name = "digits", .mesh = {{{"pipe", 2}}}};
  const auto options =
      CompleteWith({{"LOCKSTEP_WORLD_SIZE", "4"}}, {.spec = spec});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(*options->spec, spec);
  EXPECT_EQ(options->job, "digits");
}

TEST(IdentityTest, ASpecFileIsRead) {
  const std::string path = TempPath("spec.yaml");
  std::ofstream(path) << "name: digits\nmesh: data=3\n";
  const auto options = CompleteWith({{"LOCKSTEP_SPEC", path}});
  std::remove(path.c_str());
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->spec->mesh.WorldSize(), 3);
  EXPECT_EQ(options->job, "digits");
}

struct Wrong {
  std::map<std::string, std::string> environment;
  JoinOptions options;
  std::string part_of_message;
};

TEST(IdentityTest, SaysWhichVariableIsWrong) {
  const JobSpec digits{.name = "digits", .mesh = {{{"data", 2}}}};
  const Wrong cases[] = {
      {{}, {}, "LOCKSTEP_JOB"},
      {{{"LOCKSTEP_WORLD_SIZE", "2"}}, {}, "LOCKSTEP_JOB"},
      {{{"LOCKSTEP_JOB", "x"}, {"LOCKSTEP_WORLD_SIZE", "two"}}, {}, "'two'"},
      {{{"LOCKSTEP_JOB", "x"}, {"LOCKSTEP_WORLD_SIZE", "0"}}, {}, "'0'"},
      {{{"LOCKSTEP_JOB", "x"}, {"LOCKSTEP_ADDRESS", "a:1,,b:2"}},
       {},
       "a:1,,b:2"},
      {{{"LOCKSTEP_SPEC", "/does/not/exist"}}, {}, "/does/not/exist"},
      {{{"LOCKSTEP_JOB", "letters"}}, {.spec = digits}, "letters"},
      {{}, {.spec = JobSpec{.name = "digits", .mesh = {{{"", 2}}}}}, "mesh"},
      {{{"LOCKSTEP_JOB", "x"}, {"LOCKSTEP_TOKEN", "a\xff"}},
       {},
       "LOCKSTEP_TOKEN: the token holds bytes that are not UTF-8"},
      {{{"LOCKSTEP_JOB", "x"}},
       {.token = "a\xff"},
       "JoinOptions::token: the token holds bytes that are not UTF-8"},
      {{{"LOCKSTEP_SPEC", "/tmp"}}, {}, "LOCKSTEP_SPEC: /tmp is a directory"},
  };
  for (const Wrong& wrong : cases) {
    const absl::Status status =
        CompleteWith(wrong.environment, wrong.options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(wrong.part_of_message));
  }
}

TEST(IdentityTest, ThisProcessSaysWhereItRuns) {
  const protocol::ProcessInfo here = ThisProcess();
  EXPECT_FALSE(here.host.empty());
  EXPECT_GT(here.pid, 0);
  EXPECT_EQ(here.boot_id.size(), 36u);
  EXPECT_TRUE(here.identifies());
  EXPECT_EQ(ThisProcess(), here);
}

}  // namespace
}  // namespace lockstep::session
