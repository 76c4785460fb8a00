// Who did what to a job: in its history, which operators see, and in the log of
// the coordinator.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/secret_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/caller.h"
#include "tests/security/certificates.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::security {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(CallerNameTest, HasTheCertificateTheTokenAndTheAddress) {
  const rpc::CallerIdentity alice = {.has_certificate = true, .name = "alice"};
  EXPECT_EQ(rpc::NameOf(alice, "operator token 1", "ipv4:10.0.0.7:4000"),
            "alice with operator token 1 at 10.0.0.7:4000");
  EXPECT_EQ(rpc::NameOf(alice, "", "ipv6:%5Bfe80::1%25eth0%5D:4000"),
            "alice at [fe80::1%eth0]:4000");
  EXPECT_EQ(rpc::NameOf({}, "operator token 2", "ipv4:10.0.0.7:4000"),
            "operator token 2 at 10.0.0.7:4000");
  EXPECT_EQ(rpc::NameOf({}, "", "ipv6:[::1]:4000"),
            "an operator at [::1]:4000");
  EXPECT_EQ(rpc::NameOf({}, "", "odd\nname"), "an operator at odd\\nname");
}

class AuditTest : public testing::Test {
 protected:
  void Start(const std::string& tls_folder) {
    ASSERT_TRUE(WriteSecretFile(folder_.File("operators"),
                                absl::StrCat(first_, "\n", second_))
                    .ok());
    std::vector<std::string> command = {ProgramPath("lockstepd"), "--listen",
                                        "127.0.0.1:0", "--token_file",
                                        folder_.File("operators")};
    if (!tls_folder.empty()) {
      command.insert(command.end(), {"--tls", tls_folder});
    }
    daemon_.emplace(command);
    address_ = std::string(
        absl::StripPrefix(daemon_->ReadLine(), "lockstepd listening on "));
  }
  ctl::AdminClient Admin(const std::string& token,
                         const std::string& tls_folder = "") const {
    return ctl::AdminClient({.addresses = address_,
                             .token = token,
                             .tls_folder = tls_folder,
                             .deadline = absl::Seconds(30)});
  }
  // The history, one line for each event.
  std::string HistoryOf(ctl::AdminClient& admin, const std::string& job) {
    std::string lines;
    const auto view = admin.DescribeJob({job});
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return "";
    for (const EventView& event : view->events) {
      absl::StrAppend(&lines, event.text, "\n");
    }
    return lines;
  }

  const std::string first_ = DrawSecret(), second_ = DrawSecret();
  const TestFolder folder_;
  std::optional<Program> daemon_;
  std::string address_;
};

TEST_F(AuditTest, TokensAreNamedByTheirPlaceInTheFile) {
  Start("");
  ctl::AdminClient one = Admin(first_), two = Admin(second_);
  ASSERT_TRUE(one.CreateJob(SpecOf("digits", 2)).ok());
  ASSERT_TRUE(two.CommandJob({"digits"}, JobCommand::kPause, "lunch").ok());
  ASSERT_TRUE(one.CommandJob({"digits"}, JobCommand::kResume, "").ok());
  ASSERT_TRUE(two.CommandJob({"digits"}, JobCommand::kDrain, "").ok());
  ASSERT_TRUE(one.StopJob({"digits"}, "enough").ok());
  const std::string history = HistoryOf(one, "digits");
  ASSERT_TRUE(two.DeleteJob({"digits"}, /*keep=*/false).ok());
  const std::string log = daemon_->Errors();
  for (const char* line :
       {"created for data=2 by operator token 1 at 127.0.0.1:[0-9]+",
        "pause is asked for by operator token 2 at 127.0.0.1:[0-9]+: lunch",
        "resume is asked for by operator token 1 at 127.0.0.1:[0-9]+",
        "drain is asked for by operator token 2 at 127.0.0.1:[0-9]+",
        "stop at once is asked for by operator token 1 at "
        "127.0.0.1:[0-9]+: enough"}) {
    EXPECT_THAT(history, ContainsRegex(line));
    EXPECT_THAT(log, ContainsRegex(absl::StrCat("job digits: .*", line)));
  }
  EXPECT_THAT(log, ContainsRegex("job digits is forgotten by operator token 2 "
                                 "at 127.0.0.1:[0-9]+"));
  EXPECT_THAT(log, Not(HasSubstr(first_)));
  EXPECT_THAT(log, Not(HasSubstr(second_)));
}

TEST_F(AuditTest, CertificatesAreNamedByTheirCommonName) {
  const Certificates& made = TheCertificates();
  Start(made.coordinator.folder);
  ctl::AdminClient alice = Admin(second_, made.operator_.folder);
  ASSERT_TRUE(alice.CreateJob(SpecOf("digits", 2)).ok());
  ASSERT_TRUE(alice.CommandJob({"digits"}, JobCommand::kPause, "").ok());
  EXPECT_THAT(HistoryOf(alice, "digits"),
              ContainsRegex("pause is asked for by alice with operator token 2 "
                            "at 127.0.0.1:[0-9]+"));
  // One who is refused has done nothing.
  ctl::AdminClient worker = Admin(second_, made.worker.folder);
  EXPECT_FALSE(worker.CommandJob({"digits"}, JobCommand::kResume, "").ok());
  EXPECT_THAT(HistoryOf(alice, "digits"), Not(HasSubstr("resume")));
  // As lockstepctl shows it.
  ASSERT_TRUE(WriteSecretFile(folder_.File("token"), first_).ok());
  const ToolOutcome shown = RunProgram(
      {"lockstepctl", "--address", address_, "--tls", made.operator_.folder,
       "--token-file", folder_.File("token"), "describe", "digits"});
  EXPECT_THAT(shown.output, HasSubstr("pause is asked for by alice with"));
}

}  // namespace
}  // namespace lockstep::security
