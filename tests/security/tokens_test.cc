// The tokens of a real coordinator: which calls they open, and their rotation
// under a job that trains.

#include <signal.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/join_token.h"
#include "base/secret_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/session.h"
#include "tests/security/certificates.h"
#include "tests/security/eventually.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::security {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TokensTest : public testing::Test {
 protected:
  TokensTest() {
    Put("operators", operators_);
    Put("workers", secret_);
    daemon_.emplace(std::vector<std::string>{
        ProgramPath("lockstepd"), "--listen", "127.0.0.1:0", "--token_file",
        folder_.File("operators"), "--worker_token_file",
        folder_.File("workers")});
    address_ = daemon_->ReadLine();
    address_ =
        std::string(absl::StripPrefix(address_, "lockstepd listening on "));
  }

  // Replaces a file in one step.
  void Put(const std::string& name, const std::string& text) {
    const std::string fresh = folder_.File("fresh");
    ASSERT_TRUE(WriteSecretFile(fresh, text).ok());
    std::filesystem::rename(fresh, folder_.File(name));
  }

  // The job's token, as lockstepctl prints it.
  std::string JoinTokenOf(const std::string& job) const {
    const ToolOutcome printed =
        RunProgram({"lockstepctl", "token", job, "--worker-token-file",
                    folder_.File("workers")});
    EXPECT_EQ(printed.code, 0) << printed.output;
    return std::string(absl::StripSuffix(printed.output, "\n"));
  }

  absl::Status Hello(const std::string& job, const std::string& token) const {
    rpc::StreamLine line(rpc::ChannelTo(address_));
    ScriptedWorker worker(&line, SpecOf(job, 2), "worker-0");
    protocol::Hello hello = worker.Hello();
    hello.token = token;
    worker.Post(hello);
    const auto answer = line.Read();
    if (answer && std::holds_alternative<protocol::Welcome>(answer->body)) {
      return absl::OkStatus();
    }
    return line.Finish();
  }
  absl::Status FetchPlan(const std::string& job,
                         const std::string& token) const {
    return rpc::Fetch(rpc::ChannelTo(address_), job, "0", token).status();
  }
  ctl::AdminClient Admin(const std::string& token) const {
    return ctl::AdminClient(
        {.addresses = address_, .token = token, .deadline = absl::Seconds(30)});
  }
  StatusCode Report(const std::string& job, const std::string& token) const {
    return Admin(token)
        .ReportEvidence({job}, {.subject = {"worker-9"},
                                .kind = protocol::EvidenceKind::kExited})
        .code();
  }

  const std::string operators_ = DrawSecret();
  const std::string secret_ = DrawSecret();
  const TestFolder folder_;
  std::optional<Program> daemon_;
  std::string address_;
};

TEST_F(TokensTest, AJoinTokenOpensOneJobToItsWorkers) {
  const std::string join = JoinTokenOf("digits");
  EXPECT_EQ(join, JoinToken(secret_, "digits").value());
  EXPECT_TRUE(Hello("digits", join).ok());
  EXPECT_EQ(FetchPlan("digits", join).code(), StatusCode::kNotFound);
  EXPECT_EQ(Report("digits", join), StatusCode::kOk);
  EXPECT_TRUE(Admin(operators_).CreateJob(SpecOf("others", 2)).ok());
  for (const std::string& token :
       {std::string(), std::string("wrong"), join.substr(0, 63), join,
        JoinToken(DrawSecret(), "others").value()}) {
    const absl::Status refused = Hello("others", token);
    EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated) << refused;
    EXPECT_EQ(FetchPlan("others", token).code(), StatusCode::kUnauthenticated);
    EXPECT_EQ(Report("others", token), StatusCode::kUnauthenticated);
  }
  EXPECT_THAT(std::string(Hello("others", join).message()),
              HasSubstr("another job's"));
  EXPECT_THAT(std::string(Hello("others", "").message()),
              HasSubstr("needs a token"));
  // The files' tokens open every job.
  EXPECT_TRUE(Hello("others", secret_).ok());
  EXPECT_EQ(FetchPlan("others", operators_).code(), StatusCode::kNotFound);
}

TEST_F(TokensTest, AJoinTokenOperatesNotEvenItsOwnJob) {
  const std::string join = JoinTokenOf("digits");
  ASSERT_TRUE(Admin(operators_).CreateJob(SpecOf("digits", 2)).ok());
  ctl::AdminClient admin = Admin(join);
  const JobName job{"digits"};
  for (const absl::Status& refused :
       {admin.DescribeJob(job).status(),
        admin.WatchJob(job, [](const JobView&) { return true; }),
        admin.CommandJob(job, JobCommand::kPause, ""), admin.StopJob(job, ""),
        admin.DeleteJob(job, false), admin.CreateJob(SpecOf("digits", 2))}) {
    EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied) << refused;
  }
  const absl::Status listed = admin.ListJobs().status();
  EXPECT_EQ(listed.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(listed.message()),
              AllOf(HasSubstr("join token"), HasSubstr("operators")));
  EXPECT_EQ(admin.DescribeJob({"others"}).status().code(),
            StatusCode::kUnauthenticated);
  EXPECT_TRUE(Admin(operators_).DescribeJob(job).ok());
}

TEST_F(TokensTest, TellsThoseItKnowsWhatItIs) {
  const std::string join = JoinTokenOf("digits");
  for (const std::string& token : {operators_, secret_}) {
    const auto met = Admin(token).Meet({"digits"});
    ASSERT_TRUE(met.ok()) << met.status();
    EXPECT_EQ(met->version, LOCKSTEP_VERSION);
    EXPECT_EQ(met->protocol, protocol::kVersion);
    EXPECT_TRUE(met->as_worker.ok()) << met->as_worker;
    ASSERT_TRUE(met->time.has_value());
    EXPECT_LE(absl::AbsDuration(*met->time - absl::Now()), absl::Minutes(1));
  }
  const auto worker = Admin(join).Meet({"digits"});
  ASSERT_TRUE(worker.ok());
  EXPECT_EQ(worker->as_operator.code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(worker->as_worker, absl::OkStatus());
  for (const std::string& token : {std::string(), std::string("wrong"),
                                   JoinToken(secret_, "others").value()}) {
    const auto met = Admin(token).Meet({"digits"});
    ASSERT_TRUE(met.ok()) << met.status();
    EXPECT_EQ(met->as_operator.code(), StatusCode::kUnauthenticated);
    EXPECT_EQ(met->as_worker.code(), StatusCode::kUnauthenticated);
    EXPECT_EQ(met->version, "");
    EXPECT_FALSE(met->protocol.has_value());
    EXPECT_FALSE(met->time.has_value());
  }
  EXPECT_TRUE(absl::IsUnavailable(
      ctl::AdminClient({.addresses = "127.0.0.1:1"}).Meet({"j"}).status()));
}

TEST_F(TokensTest, NoJoinTokenIsMadeForANameThatNoJobCanHave) {
  for (const std::string& name :
       {std::string("a b"), std::string("digits#1"), std::string("../x"),
        std::string("-x"), std::string(), std::string(64, 'x')}) {
    const ToolOutcome refused =
        RunProgram({"lockstepctl", "token", "--worker-token-file",
                    folder_.File("workers"), "--", name});
    EXPECT_EQ(refused.code, 1) << name;
    EXPECT_THAT(refused.output, HasSubstr("no job can have this name"));
  }
  EXPECT_EQ(JoinTokenOf(std::string(63, 'x')).size(), 64u);
}

TEST_F(TokensTest, AShortSecretMakesNoJoinToken) {
  Put("short", "for-workers");
  const ToolOutcome refused =
      RunProgram({"lockstepctl", "token", "digits", "--worker-token-file",
                  folder_.File("short")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr(folder_.File("short")), HasSubstr("11 bytes"),
                    HasSubstr("openssl rand")));
}

// `run` with an operator's token keeps it from its workers.
TEST_F(TokensTest, ALauncherGivesItsWorkersTheTokenOfTheirJobOnly) {
  const auto run = [&](std::vector<std::string> options) {
    std::vector<std::string> command = {"lockstepctl", "run",   "-n",
                                        "1",           "--job", "digits"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(),
                   {"--", "/usr/bin/printenv", "LOCKSTEP_TOKEN"});
    return RunProgram(command);
  };
  const ToolOutcome given =
      run({"--address", address_, "--token-file", folder_.File("operators"),
           "--worker-token-file", folder_.File("workers")});
  EXPECT_EQ(given.code, 0) << given.output;
  EXPECT_THAT(given.output, HasSubstr(JoinTokenOf("digits")));
  EXPECT_THAT(given.output, Not(HasSubstr(operators_)));
  EXPECT_THAT(given.output, Not(HasSubstr(secret_)));

  const ToolOutcome refused =
      run({"--worker-token-file", folder_.File("workers")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--address"));
}

// lockstepd looks at them every 2 s.
TEST_F(TokensTest, APrivateCoordinatorDoesNotMissItsTokenFiles) {
  const ToolOutcome ran =
      RunProgram({"lockstepctl", "run", "-n", "1", "--", "/bin/sleep", "2.5"});
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("has a private coordinator"));
  EXPECT_THAT(ran.output, Not(HasSubstr("tokens cannot be used")));
}

TEST_F(TokensTest, OperatorsTokensRotate) {
  const std::string fresh = DrawSecret();
  const auto code_of = [&](const std::string& token) {
    return Admin(token).ListJobs().status().code();
  };
  EXPECT_EQ(code_of(fresh), StatusCode::kUnauthenticated);
  Put("operators", absl::StrCat(fresh, "\n", operators_));
  EXPECT_TRUE(Eventually([&] { return code_of(fresh) == StatusCode::kOk; }));
  EXPECT_EQ(code_of(operators_), StatusCode::kOk);
  Put("operators", fresh);
  EXPECT_TRUE(Eventually(
      [&] { return code_of(operators_) == StatusCode::kUnauthenticated; }));
  EXPECT_EQ(code_of(fresh), StatusCode::kOk);
  EXPECT_THAT(daemon_->Errors(), HasSubstr("the files of tokens have changed"));
}

// --- Under a job that trains ------------------------------------------------

// A worker process of the job "digits"; it trains until it is told to stop.
std::vector<std::string> WorkerCommand(const std::string& address,
                                       const std::string& name,
                                       const std::string& token) {
  return {"/usr/bin/env",
          absl::StrCat("LOCKSTEP_ADDRESS=", address),
          "LOCKSTEP_JOB=digits",
          "LOCKSTEP_WORLD_SIZE=2",
          absl::StrCat("LOCKSTEP_WORKER_NAME=", name),
          absl::StrCat("LOCKSTEP_TOKEN=", token),
          ProgramPath("trouble_worker"),
          "100000000",
          "quiet=20"};
}

TEST_F(TokensTest, AJobTrainsOnWhileItsTokenIsReplacedAndRevoked) {
  const std::string old_join = JoinTokenOf("digits");
  std::vector<std::unique_ptr<Program>> workers;
  for (const char* name : {"worker-0", "worker-1"}) {
    workers.push_back(
        std::make_unique<Program>(WorkerCommand(address_, name, old_join)));
  }
  std::string line;
  do {
    line = workers[0]->ReadLine();
    ASSERT_NE(line, "") << workers[0]->Errors() << daemon_->Errors();
  } while (line != "at 19");
  const std::string fresh = DrawSecret();
  Put("workers", absl::StrCat(fresh, "\n", secret_));
  const std::string new_join = JoinTokenOf("digits");
  EXPECT_NE(new_join, old_join);
  const auto code_of = [&](const std::string& token) {
    return FetchPlan("digits", token).code();
  };
  EXPECT_TRUE(
      Eventually([&] { return code_of(new_join) == StatusCode::kNotFound; }));
  EXPECT_EQ(code_of(old_join), StatusCode::kNotFound) << "both are accepted";
  Put("workers", fresh);
  EXPECT_TRUE(Eventually(
      [&] { return code_of(old_join) == StatusCode::kUnauthenticated; }));

  // No new worker joins with it, and those that joined before train on.
  Program late(WorkerCommand(address_, "worker-0", old_join));
  EXPECT_THAT(late.ReadLine(),
              AllOf(HasSubstr("UNAUTHENTICATED"), HasSubstr("revoked")));
  late.Wait();
  ctl::AdminClient admin = Admin(operators_);
  const auto steps = [&]() -> uint64_t {
    const auto view = admin.DescribeJob({"digits"});
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok() || view->workers.empty()) return 0;
    EXPECT_EQ(view->epoch.value, 1u) << "nobody was lost";
    return view->workers[0].position.step;
  };
  const uint64_t before = steps();
  EXPECT_GE(before, 19u);
  EXPECT_TRUE(Eventually([&] { return steps() > before; }));
  ASSERT_TRUE(admin.CommandJob({"digits"}, JobCommand::kStop, "").ok());
  for (const auto& worker : workers) {
    EXPECT_THAT(worker->ReadAll(), HasSubstr("done"));
    EXPECT_EQ(worker->Wait(), 0) << worker->Errors();
  }
}

}  // namespace
}  // namespace lockstep::security
