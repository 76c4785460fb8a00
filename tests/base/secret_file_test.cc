// Secrets that only their owner can read.

#include "base/secret_file.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Not;

class SecretFileTest : public testing::Test {
 protected:
  SecretFileTest() {
    std::string pattern = testing::TempDir() + "secrets-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~SecretFileTest() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) { return folder_ + "/" + name; }
  std::string Put(const std::string& name, const std::string& text,
                  mode_t mode) {
    std::ofstream(At(name)) << text;
    EXPECT_EQ(chmod(At(name).c_str(), mode), 0);
    return At(name);
  }
  mode_t ModeOf(const std::string& path) {
    struct stat file {};
    EXPECT_EQ(lstat(path.c_str(), &file), 0);
    return file.st_mode & 07777;
  }

  std::string folder_;
};

TEST_F(SecretFileTest, SecretsAreLongAndNeverTheSame) {
  std::set<std::string> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(DrawSecret());
  EXPECT_EQ(drawn.size(), 100u);
  EXPECT_EQ(drawn.begin()->size(), 64u);
  EXPECT_EQ(drawn.begin()->find_first_not_of("0123456789abcdef"),
            std::string::npos);
}

TEST_F(SecretFileTest, WhatIsWrittenIsReadAndNobodyElsesToRead) {
  umask(0);
  ASSERT_TRUE(WriteSecretFile(At("a"), "secret").ok());
  EXPECT_EQ(ModeOf(At("a")), 0600u);
  EXPECT_EQ(ReadSecretFile(At("a")).value(), "secret");
  ASSERT_TRUE(WriteSecretFile(At("a"), "another").ok());
  EXPECT_EQ(ReadSecretFile(At("a")).value(), "another");
}

TEST_F(SecretFileTest, ALinkWhereASecretIsWrittenIsNotFollowed) {
  Put("victim", "precious", 0644);
  ASSERT_EQ(symlink(At("victim").c_str(), At("a").c_str()), 0);
  ASSERT_TRUE(WriteSecretFile(At("a"), "secret").ok());
  std::ifstream victim(At("victim"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(victim), {}),
            "precious");
  EXPECT_EQ(ReadSecretFile(At("a")).value(), "secret");
}

TEST_F(SecretFileTest, WhatOthersCanReadOrChangeIsRefused) {
  for (const mode_t mode : {0604, 0644, 0602, 0620, 0666, 0601}) {
    const absl::Status refused =
        ReadSecretFile(Put("a", "secret\n", mode)).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(HasSubstr(At("a")), HasSubstr("chmod 600"),
                               Not(HasSubstr("secret\n"))));
  }
  for (const mode_t mode : {0600, 0400}) {
    EXPECT_EQ(ReadSecretFile(Put("b", "secret\n", mode)).value(), "secret");
    std::filesystem::remove(At("b"));
  }
  // Root's files may be readable by a group: orchestrators mount them so.
  EXPECT_EQ(ReadSecretFile(Put("c", "secret\n", 0640)).ok(), geteuid() == 0);
}

TEST_F(SecretFileTest, AFileOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  Put("a", "secret\n", 0600);
  ASSERT_EQ(chown(At("a").c_str(), 65534, 65534), 0);
  EXPECT_EQ(ReadSecretFile(At("a")).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(SecretFileTest, WhatIsNoFileOrHasNoTokenIsRefused) {
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(At("fifo")).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadSecretFile(folder_).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadSecretFile(At("none")).status().code(), StatusCode::kNotFound);
  for (const std::string& text :
       {std::string(), std::string("\n\r\n\n"), std::string(5000, 'x'),
        "\n" + std::string(5000, 'x')}) {
    EXPECT_EQ(ReadSecretFile(Put("a", text, 0600)).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(ReadSecretLines(At("a")).status().code(),
              StatusCode::kInvalidArgument);
  }
  Put("crlf", "secret\r\nmore\n", 0600);
  EXPECT_EQ(ReadSecretFile(At("crlf")).value(), "secret");
}

TEST_F(SecretFileTest, EmptyLinesAreNoTokens) {
  Put("a", "\n\r\nfirst\n\nsecond\n", 0600);
  EXPECT_EQ(ReadSecretFile(At("a")).value(), "first");
  EXPECT_EQ(ReadSecretLines(At("a")).value(),
            (std::vector<std::string>{"first", "second"}));
}

TEST_F(SecretFileTest, AFolderThatOthersCanChangeIsRefused) {
  umask(0);
  ASSERT_TRUE(MakePrivateDirectory(At("d")).ok());
  EXPECT_EQ(ModeOf(At("d")), 0700u);
  EXPECT_TRUE(MakePrivateDirectory(At("d")).ok()) << "it may be there";
  ASSERT_EQ(chmod(At("d").c_str(), 0777), 0);
  EXPECT_EQ(MakePrivateDirectory(At("d")).code(),
            StatusCode::kFailedPrecondition);
  ASSERT_EQ(symlink(folder_.c_str(), At("link").c_str()), 0);
  EXPECT_EQ(MakePrivateDirectory(At("link")).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(MakePrivateDirectory(At("no/such")).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
