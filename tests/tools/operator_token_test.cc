#include "tools/launch/operator_token.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OperatorTokenTest, NamesTheAddressesOfThisUsersCoordinators) {
  std::string folder = testing::TempDir() + "tokens-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  EXPECT_THAT(PublishedAddresses(), IsEmpty()) << "there is no folder yet";
  {
    const auto second = PublishedToken::Write("127.0.0.1:40124", "b");
    const auto first = PublishedToken::Write("127.0.0.1:40123", "a");
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_TRUE(first->written());
    std::ofstream(folder + "/lockstep/note") << "not a token";
    EXPECT_THAT(PublishedAddresses(),
                ElementsAre("127.0.0.1:40123", "127.0.0.1:40124"));
  }
  EXPECT_THAT(PublishedAddresses(), IsEmpty()) << "each ends with its file";
  EXPECT_FALSE(PublishedToken().written());
  unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove_all(folder);
}

// A launcher without an address needs no token of a coordinator that runs.
TEST(OperatorTokenTest, WithoutAnAddressNoFileIsRead) {
  setenv("XDG_RUNTIME_DIR", "/dev/null", 1);
  const absl::StatusOr<std::string> none = FindOperatorToken("");
  EXPECT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(FindOperatorToken("127.0.0.1:40123").ok());
  unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace lockstep::launch
