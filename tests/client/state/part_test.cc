#include "client/state/part.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "client/checkpoint/manifest_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::state {
namespace {

// A part with this text in place of the rank, sealed again.
absl::StatusOr<RankPart> PartOfRank(const std::string& rank) {
  const std::string text =
      FormatPart({.rank = 3, .attempt = {.step = 20, .epoch = 3}}).text;
  const std::string other = checkpoint::WithDigest(absl::StrReplaceAll(
      text.substr(0, text.rfind(",\n\"xxh3\"")), {{"\"rank\":3", rank}}));
  return ParsePart(other, *checkpoint::CheckDigest(other, "part"));
}

TEST(PartTest, IsReadAsItWasWritten) {
  const auto part = PartOfRank("\"rank\":7");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->rank, 7);
  EXPECT_EQ(part->attempt.step, 20);
}

// A fuzzer found that the rank lost its upper bits.
TEST(PartTest, ARankThatIsNoneIsNamed) {
  const auto part = PartOfRank("\"rank\":888888888881");
  EXPECT_TRUE(absl::IsInvalidArgument(part.status())) << part.status();
  EXPECT_THAT(std::string(part.status().message()),
              testing::HasSubstr("888888888881"));
}

}  // namespace
}  // namespace lockstep::state
