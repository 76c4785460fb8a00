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
TEST(PreReplayBufferTest, HoldAllThatAnHonestRankSays) {
  const size_t count = plan::kNegotiatedParametersMax;
  PreReplayBuffer buffer;
  EXPECT_TRUE(buffer.Add(protocol::PlanAck{}));
  EXPECT_TRUE(buffer.Add(protocol::PublishHandles{}));
  EXPECT_TRUE(buffer.Add(protocol::Connected{}));
  EXPECT_TRUE(buffer.Add(protocol::Held{
      .decisions = std::vector<protocol::Decision>(2 * count + 2)}));
  for (uint64_t pass : {7, 8}) {
    EXPECT_TRUE(buffer.Add(protocol::Announce{pass, Parameters(count)}));
    EXPECT_TRUE(buffer.Add(protocol::Submitted{pass, Parameters(count)}));
  }
  EXPECT_EQ(buffer.all().size(), 8u);
}

TEST(PreReplayBufferTest, RefuseAFloodOfParametersAndOfWords) {
  PreReplayBuffer buffer;
  const protocol::Submitted many{7, Parameters(PreReplayBuffer::kMost - 2)};
  EXPECT_TRUE(buffer.Add(many));
  EXPECT_TRUE(buffer.Add(protocol::Connected{}));
  EXPECT_FALSE(buffer.Add(protocol::Connected{}));
  EXPECT_EQ(buffer.all().size(), 2u);
}

}  // namespace
}  // namespace lockstep::core
