#include "tools/launch/operator_token.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kAddress[] = "127.0.0.1:40123";
constexpr char kOther[] = "127.0.0.1:40124";

class OperatorTokenTest : public testing::Test {
 protected:
  OperatorTokenTest() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  ~OperatorTokenTest() override {
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(folder_);
  }

  // A launcher's file; it ends with the object.
  static std::optional<PublishedToken> Write(const std::string& address,
                                             const std::string& token) {
    auto written = PublishedToken::Write(address, {.token = token});
    EXPECT_TRUE(written.ok()) << written.status();
    if (!written.ok()) return std::nullopt;
    return *std::move(written);
  }
  // The file of a launcher that is killed.
  static void WriteAndDie(const std::string& address) {
    const pid_t pid = fork();
    if (pid == 0) {
      const auto token = Write(address, "old");
      kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_TRUE(Exists(address));
  }
  static bool Exists(const std::string& address) {
    return std::filesystem::exists(*OperatorTokenPath(address));
  }
  static std::string Find(const std::string& address) {
    return FindOperatorToken(address).value();
  }

  std::string folder_ = testing::TempDir() + "tokens-XXXXXX";
};

TEST_F(OperatorTokenTest, NamesTheAddressesOfThisUsersCoordinators) {
  EXPECT_THAT(PublishedAddresses(), IsEmpty()) << "there is no folder yet";
  {
    const auto second = Write(kOther, "b");
    const auto first = Write(kAddress, "a");
    EXPECT_TRUE(first->written());
    std::ofstream(folder_ + "/lockstep/note") << "not a token";
    EXPECT_THAT(PublishedAddresses(), ElementsAre(kAddress, kOther));
    EXPECT_EQ(Find(kAddress), "a");
  }
  EXPECT_THAT(PublishedAddresses(), IsEmpty()) << "each ends with its file";
  EXPECT_FALSE(PublishedToken().written());
}

TEST_F(OperatorTokenTest, TheFileOfAKilledLauncherIsNotFoundButRemoved) {
  const auto other = Write(kOther, "other");
  WriteAndDie(kAddress);
  EXPECT_EQ(Find(kAddress), "");
  EXPECT_FALSE(Exists(kAddress));
  WriteAndDie(kAddress);
  EXPECT_THAT(PublishedAddresses(), ElementsAre(kOther));
  EXPECT_FALSE(Exists(kAddress));
  EXPECT_EQ(Find(kOther), "other");
}

TEST_F(OperatorTokenTest, ALauncherReplacesTheFileOfAKilledOne) {
  WriteAndDie(kAddress);
  auto token = Write(kAddress, "new");
  EXPECT_EQ(Find(kAddress), "new");
  const std::optional<PublishedToken> moved = std::move(token);
  token.reset();
  EXPECT_EQ(Find(kAddress), "new");
}

TEST_F(OperatorTokenTest, ALauncherThatEndsLeavesTheFileOfAnother) {
  auto first = Write(kAddress, "first");
  std::filesystem::remove(*OperatorTokenPath(kAddress));
  const auto second = Write(kAddress, "second");
  first.reset();
  EXPECT_EQ(Find(kAddress), "second");
}

// A launcher without an address needs no token of a coordinator that runs.
TEST_F(OperatorTokenTest, WithoutAnAddressNoFileIsRead) {
  setenv("XDG_RUNTIME_DIR", "/dev/null", 1);
  const absl::StatusOr<std::string> none = FindOperatorToken("");
  EXPECT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(FindOperatorToken(kAddress).ok());
}

TEST_F(OperatorTokenTest, TheFoldersOfCertificatesAreFoundWithTheToken) {
  const auto written =
      PublishedToken::Write(kAddress, {.token = "secret",
                                       .tls_folder = "/a/operator",
                                       .worker_tls_folder = "/a/worker"});
  ASSERT_TRUE(written.ok()) << written.status();
  const auto access = FindOperatorAccess(kAddress).value();
  EXPECT_EQ(access.token, "secret");
  EXPECT_EQ(access.tls_folder, "/a/operator");
  EXPECT_EQ(access.worker_tls_folder, "/a/worker");
  EXPECT_EQ(FindOperatorToken(kAddress).value(), "secret");
  const auto plain = Write(kOther, "secret");
  EXPECT_EQ(FindOperatorAccess(kOther)->tls_folder, "");
}

}  // namespace
}  // namespace lockstep::launch
