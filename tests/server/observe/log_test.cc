#include "server/observe/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::observe {
namespace {

using testing::MatchesRegex;

TEST(LogTest, WritesLinesToStandardErrorOnly) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const auto log = Log::Make("info");
  ASSERT_TRUE(log.ok());
  (*log)->Note({"digits"}, "epoch 1 begins {}");  // not a format string
  (*log)->Note({}, "going down");
  (*log)->Error("no disk");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("[-0-9]+ [:.0-9]+ info job digits: epoch 1 begins "
                           "\\{\\}\n"
                           "[-0-9]+ [:.0-9]+ info going down\n"
                           "[-0-9]+ [:.0-9]+ error no disk\n"));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(LogTest, TheLevelDecidesWhatIsWritten) {
  testing::internal::CaptureStderr();
  for (const char* level : {"error", "off"}) {
    const auto log = Log::Make(level);
    ASSERT_TRUE(log.ok());
    (*log)->Note({"digits"}, "something");
    (*log)->Error(level);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("[-0-9]+ [:.0-9]+ error error\n"));
}

TEST(LogTest, NobodyForgesALineOrATerminalsColour) {
  testing::internal::CaptureStderr();
  const auto log = Log::Make("info");
  ASSERT_TRUE(log.ok());
  (*log)->Note({"a\njob b"}, "w\x1b[2J\n2026-01-01 info job c: all is well");
  (*log)->Info("\u202egnp");
  (*log)->Error("\r");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("[-0-9]+ [:.0-9]+ info job a\\\\njob b: "
                           "w\\\\x1b\\[2J\\\\n[^\n]*\n"
                           "[-0-9]+ [:.0-9]+ info \\\\u202egnp\n"
                           "[-0-9]+ [:.0-9]+ error \\\\r\n"));
}

TEST(LogTest, AnUnknownLevelIsNamed) {
  const absl::Status status = Log::Make("loud").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("loud"));
}

}  // namespace
}  // namespace lockstep::observe
