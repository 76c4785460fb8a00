#include "server/core/pre_replay_buffer.h"

#include <numeric>

#include "gtest/gtest.h"

namespace lockstep::core {
namespace {

std::vector<uint32_t> Parameters(size_t count) {
  std::vector<uint32_t> parameters(count);
  std::iota(parameters.begin(), parameters.end(), 0);
  return parameters;
}

// The messages of the largest job that negotiated mode allows.
TEST(EarlyWordsTest, HoldAllThatAnHonestRankSays) {
  const size_t count = plan::kNegotiatedParametersMax;
  PreReplayBuffer words;
  EXPECT_TRUE(words.Add(protocol::PlanAck{}));
  EXPECT_TRUE(words.Add(protocol::PublishHandles{}));
  EXPECT_TRUE(words.Add(protocol::Connected{}));
  EXPECT_TRUE(words.Add(protocol::Held{
      .decisions = std::vector<protocol::Decision>(2 * count + 2)}));
  for (uint64_t pass : {7, 8}) {
    EXPECT_TRUE(words.Add(protocol::Announce{pass, Parameters(count)}));
    EXPECT_TRUE(words.Add(protocol::Submitted{pass, Parameters(count)}));
  }
  EXPECT_EQ(words.all().size(), 8u);
}

TEST(EarlyWordsTest, RefuseAFloodOfParametersAndOfWords) {
  PreReplayBuffer words;
  const protocol::Submitted many{7, Parameters(PreReplayBuffer::kMost - 2)};
  EXPECT_TRUE(words.Add(many));
  EXPECT_TRUE(words.Add(protocol::Connected{}));
  EXPECT_FALSE(words.Add(protocol::Connected{}));
  EXPECT_EQ(words.all().size(), 2u);
}

}  // namespace
}  // namespace lockstep::core
