// Which tokens admit to which calls, how they are read from files, and what
// happens when the files change.

#include "server/rpc/token_gate.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/join_token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/live_tokens.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string& OldSecret() {
  static const std::string secret(64, 'a');
  return secret;
}
const std::string& NewSecret() {
  static const std::string secret(64, 'b');
  return secret;
}

StatusCode Worker(const TokenGate& gate, const std::string& job,
                  const std::string& token) {
  return gate.AdmitWorker(job, token).status().code();
}
StatusCode Operator(const TokenGate& gate, const std::string& job,
                    const std::string& token) {
  return gate.AdmitOperator({}, job, token).status().code();
}

TEST(TokenGateTest, AJoinTokenAdmitsWorkersToItsJobOnly) {
  const TokenGate gate({.operators = {"o"}, .workers = {OldSecret()}});
  const std::string join = JoinToken(OldSecret(), "digits").value();
  EXPECT_EQ(gate.AdmitWorker("digits", join).value(), "")
      << "the core needs none";
  for (const char* job : {"digits2", "digit", "", "digits#1"}) {
    EXPECT_EQ(Worker(gate, job, join), StatusCode::kUnauthenticated) << job;
  }
  EXPECT_EQ(Worker(gate, "digits", join.substr(1)),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(Worker(gate, "digits", join + "0"), StatusCode::kUnauthenticated);
  EXPECT_EQ(Worker(gate, "digits", JoinToken(NewSecret(), "digits").value()),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(Worker(gate, "digits", ""), StatusCode::kUnauthenticated);
}

TEST(TokenGateTest, AJoinTokenOperatesNothing) {
  const TokenGate gate({.operators = {"o"}, .workers = {OldSecret()}});
  const std::string join = JoinToken(OldSecret(), "digits").value();
  const absl::Status refused = gate.AdmitOperator({}, "digits", join).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("join token of job digits"), HasSubstr("operator's")));
  EXPECT_EQ(Operator(gate, "digits", OldSecret()),
            StatusCode::kPermissionDenied);
  // Calls without a job, such as the list of jobs, and about another one: the
  // gate does not know the names of jobs.
  for (const char* job : {"", "others"}) {
    const absl::Status unknown = gate.AdmitOperator({}, job, join).status();
    EXPECT_EQ(unknown.code(), StatusCode::kUnauthenticated);
    EXPECT_THAT(
        std::string(unknown.message()),
        AllOf(HasSubstr("operators"), HasSubstr("join token of a job")));
  }
  EXPECT_EQ(Operator(gate, "digits", "o"), StatusCode::kOk);
}

TEST(TokenGateTest, AShortWorkersTokenHasNoJoinTokens) {
  const TokenGate gate({.operators = {"o"}, .workers = {"short", OldSecret()}});
  EXPECT_EQ(Worker(gate, "digits", "short"), StatusCode::kOk);
  EXPECT_EQ(Worker(gate, "digits", JoinToken(OldSecret(), "digits").value()),
            StatusCode::kOk);
  EXPECT_FALSE(JoinToken("short", "digits").ok());
}

TEST(TokenGateTest, ShortTokensAreWarnedOfWithoutBeingSaid) {
  const std::string safe(16, 'x');
  EXPECT_EQ(WarningOfShortTokens({}), "");
  const std::string secret(32, 'x');
  EXPECT_EQ(WarningOfShortTokens({.operators = {safe}, .workers = {secret}}),
            "");
  for (const std::string& token : {safe, std::string(31, 'x')}) {
    EXPECT_FALSE(JoinToken(token, "digits").ok());
    EXPECT_THAT(WarningOfShortTokens({.operators = {safe}, .workers = {token}}),
                testing::HasSubstr(absl::StrCat(token.size(), " bytes")));
  }
  EXPECT_THAT(
      WarningOfShortTokens({.operators = {safe}, .workers = {safe, "sesame"}}),
      testing::AllOf(testing::HasSubstr("workers has 6 bytes"),
                     testing::Not(testing::HasSubstr("sesame"))));
  EXPECT_THAT(WarningOfShortTokens({.operators = {"o"}}),
              testing::HasSubstr("operators has 1 bytes"));
}

// The operator's token is not the secret of join tokens: a holder of one could
// guess at it.
TEST(TokenGateTest, OperatorsTokensHaveNoJoinTokens) {
  const TokenGate gate({.operators = {OldSecret()}});
  EXPECT_EQ(Worker(gate, "digits", OldSecret()), StatusCode::kOk);
  EXPECT_EQ(Worker(gate, "digits", JoinToken(OldSecret(), "digits").value()),
            StatusCode::kUnauthenticated);
}

TEST(TokenGateTest, EachOfSeveralTokensIsAccepted) {
  const TokenGate gate({.operators = {"new-operator", "operator"},
                        .workers = {NewSecret(), OldSecret()}});
  for (const std::string& secret : {NewSecret(), OldSecret()}) {
    EXPECT_EQ(Worker(gate, "digits", secret), StatusCode::kOk);
    EXPECT_EQ(Worker(gate, "digits", JoinToken(secret, "digits").value()),
              StatusCode::kOk);
  }
  for (const char* token : {"new-operator", "operator"}) {
    EXPECT_EQ(Operator(gate, "digits", token), StatusCode::kOk);
    EXPECT_EQ(Worker(gate, "digits", token), StatusCode::kOk);
  }
}

TEST(TokenGateTest, AnOperatorsTokenIsNamedByItsPlace) {
  const TokenGate gate({.operators = {"new-operator", "operator"}});
  for (const auto& [token, name] :
       {std::pair("new-operator", "operator token 1"),
        std::pair("operator", "operator token 2")}) {
    const auto admission = gate.AdmitOperator({}, "digits", token);
    ASSERT_TRUE(admission.ok()) << admission.status();
    EXPECT_EQ(admission->credential, name);
    EXPECT_EQ(admission->token, "") << "the core needs none";
  }
}

TEST(TokenGateTest, ARevokedTokenIsRefusedInWords) {
  const TokenGate gate({.operators = {"o"}, .workers = {NewSecret()}});
  for (const std::string& token :
       {OldSecret(), JoinToken(OldSecret(), "digits").value()}) {
    const absl::Status refused = gate.AdmitWorker("digits", token).status();
    EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("revoked"), Not(HasSubstr(token))));
  }
}

TEST(TokenGateTest, WithoutTokensThoseOfJobsArePassedOn) {
  EXPECT_EQ(TokenGate().AdmitWorker("digits", "its own").value(), "its own");
  const auto admission = TokenGate().AdmitOperator({}, "digits", "its own");
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_EQ(admission->token, "its own");
  EXPECT_EQ(admission->credential, "");
}

// --- Files ------------------------------------------------------------------

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() {
    std::string pattern = testing::TempDir() + "tokens-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~TokenFileTest() override { std::filesystem::remove_all(folder_); }
  // Replaces the file in one step.
  std::string Put(const std::string& name, const std::string& text,
                  mode_t mode = 0600) {
    const std::string path = folder_ + "/" + name, fresh = path + ".new";
    std::ofstream(fresh) << text;
    chmod(fresh.c_str(), mode);
    std::filesystem::rename(fresh, path);
    return path;
  }

  std::string folder_;
};

TEST_F(TokenFileTest, EachLineIsAToken) {
  const std::string operators = Put("operators", "\no2\r\n\no1");
  const auto tokens = ReadTokens({operators, Put("workers", "w2\nw1\n")});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(tokens->operators, ElementsAre("o2", "o1"));
  EXPECT_THAT(tokens->workers, ElementsAre("w2", "w1"));
  EXPECT_EQ(ReadTokens({}).value(), Tokens());
}

TEST_F(TokenFileTest, AFileWithoutATokenIsRefused) {
  for (const char* text : {"", "\n", "\r\n\n"}) {
    EXPECT_EQ(ReadTokens({Put("empty", text), ""}).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(ReadTokens({folder_ + "/none", ""}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(ReadTokens({Put("open", "secret\n", 0644), ""}).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(TokenFileTest, AFileThatIsTooLongIsNotReadInPart) {
  const std::string line = std::string(63, 'x') + "\n";
  std::string text;
  for (int i = 0; i < 63; ++i) text += line;
  EXPECT_EQ(ReadTokens({Put("full", text), ""})->operators.size(), 63u);
  const absl::Status refused =
      ReadTokens({Put("long", text + line), ""}).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("4096 bytes"));
}

TEST_F(TokenFileTest, ATokenThatNoMessageCanCarryIsRefused) {
  const std::string own = Put("operators", "o\n");
  const std::string bad = Put("bad", "fine\n\xff\n");
  for (const TokenFiles& files : {TokenFiles{bad, ""}, TokenFiles{own, bad}}) {
    const absl::Status status = ReadTokens(files).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(bad), HasSubstr("UTF-8")));
  }
  EXPECT_TRUE(ReadTokens({Put("word", "gr\u00fc\u00df\n"), ""}).ok());
}

TEST_F(TokenFileTest, NoTokenIsBothAnOperatorsAndAWorkers) {
  const std::string own = Put("operators", "o2\no1\n");
  EXPECT_TRUE(ReadTokens({own, Put("workers", "w\n")}).ok());
  EXPECT_EQ(ReadTokens({own, Put("workers", "w\no1\n")}).status().code(),
            StatusCode::kInvalidArgument);
}

// --- Changes ----------------------------------------------------------------

class LiveTokensTest : public TokenFileTest {
 protected:
  LiveTokensTest() {
    Put("operators", "o1\n");
    Put("workers", OldSecret() + "\n");
    tokens_ = std::make_unique<LiveTokens>(
        LiveTokens::Options{.gate = TokenGate(ReadTokens(files()).value()),
                            .files = files(),
                            .interval = absl::Milliseconds(1),
                            .log = [this](const std::string& line) {
                              MutexLock lock(&mutex_);
                              lines_.push_back(line);
                            }});
  }
  TokenFiles files() const {
    return {folder_ + "/operators", folder_ + "/workers"};
  }
  // The lines of the log once there are so many.
  std::vector<std::string> Lines(size_t count) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (absl::Now() < deadline) {
      {
        MutexLock lock(&mutex_);
        if (lines_.size() >= count) return lines_;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
    ADD_FAILURE() << "fewer than " << count << " lines";
    return std::vector<std::string>(count);
  }
  bool Eventually(StatusCode code, const std::string& token) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (Worker(*tokens_->gate(), "digits", token) != code) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }

  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LiveTokens> tokens_;
};

TEST_F(LiveTokensTest, ANewLineIsAcceptedBesideTheOldAndThenAlone) {
  const std::string old_join = JoinToken(OldSecret(), "digits").value();
  const std::string new_join = JoinToken(NewSecret(), "digits").value();
  EXPECT_EQ(Worker(*tokens_->gate(), "digits", new_join),
            StatusCode::kUnauthenticated);
  Put("workers", NewSecret() + "\n" + OldSecret() + "\n");
  EXPECT_TRUE(Eventually(StatusCode::kOk, new_join));
  EXPECT_EQ(Worker(*tokens_->gate(), "digits", old_join), StatusCode::kOk);
  EXPECT_THAT(Lines(1)[0], HasSubstr("2 of workers"));
  Put("workers", NewSecret() + "\n");
  EXPECT_TRUE(Eventually(StatusCode::kUnauthenticated, old_join));
  EXPECT_EQ(Worker(*tokens_->gate(), "digits", new_join), StatusCode::kOk);
  EXPECT_THAT(Lines(2)[1], HasSubstr("1 of workers"));
}

TEST_F(LiveTokensTest, OperatorsTokensAreReadAgainToo) {
  Put("operators", "o2\n");
  EXPECT_TRUE(Eventually(StatusCode::kOk, "o2"));
  EXPECT_EQ(Operator(*tokens_->gate(), "", "o2"), StatusCode::kOk);
  EXPECT_EQ(Operator(*tokens_->gate(), "", "o1"), StatusCode::kUnauthenticated);
}

TEST_F(LiveTokensTest, FilesThatCannotBeUsedChangeNothingAndAreLoggedOnce) {
  Put("workers", NewSecret() + "\n", 0644);
  const std::string line = Lines(1)[0];
  EXPECT_THAT(line, AllOf(HasSubstr("0644"), HasSubstr("stay accepted")));
  EXPECT_EQ(Worker(*tokens_->gate(), "digits", OldSecret()), StatusCode::kOk);
  EXPECT_EQ(Worker(*tokens_->gate(), "digits", NewSecret()),
            StatusCode::kUnauthenticated);
  Put("workers", "");
  EXPECT_THAT(Lines(2)[1], HasSubstr("it is empty"));
  EXPECT_EQ(Worker(*tokens_->gate(), "digits", OldSecret()), StatusCode::kOk);
  Put("workers", NewSecret() + "\n");
  EXPECT_TRUE(Eventually(StatusCode::kUnauthenticated, OldSecret()));
  EXPECT_EQ(Lines(3).size(), 3u) << "each was logged once";
}

// As of a coordinator that has waited until it leads.
TEST_F(LiveTokensTest, FilesThatHaveChangedBeforeItBeginsAreRead) {
  Put("operators", "o1\n");
  const TokenGate before(ReadTokens(files()).value());
  Put("operators", "o2\n");
  const LiveTokens late(
      {.gate = before, .files = files(), .interval = absl::Hours(1)});
  EXPECT_EQ(Operator(*late.gate(), "", "o2"), StatusCode::kOk);
  EXPECT_EQ(Operator(*late.gate(), "", "o1"), StatusCode::kUnauthenticated);
}

TEST_F(LiveTokensTest, AGateThatWasTakenStaysAsItIs) {
  const std::shared_ptr<const TokenGate> before = tokens_->gate();
  Put("workers", NewSecret() + "\n");
  EXPECT_TRUE(Eventually(StatusCode::kOk, NewSecret()));
  EXPECT_EQ(Worker(*before, "digits", OldSecret()), StatusCode::kOk);
}

}  // namespace
}  // namespace lockstep::rpc
