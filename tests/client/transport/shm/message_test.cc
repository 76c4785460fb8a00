// Messages of private buffers, step by step: both ranks' tasks are advanced by
// hand.

#include <memory>
#include <vector>

#include "client/transport/shm/task.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/shm_groups.h"

namespace lockstep::transport {
namespace {

using testing::Each;

constexpr size_t kBytes = 2 * kSmallMessageBytes;

// A sender destroys a failed message, and continues with another one until it
// learns that the group has failed.
TEST(MessageTest, ABlockOfAFailedMessageIsNotFilledAgain) {
  ShmGroups shm_groups(2);
  const std::vector<std::byte> ones(kBytes, std::byte{1});
  const std::vector<std::byte> twos(kBytes, std::byte{2});
  std::vector<std::byte> out(kBytes), other(kBytes);
  const auto call = [](CollectiveKind kind, int peer, uint64_t number) {
    return CollectiveOp{.kind = kind,
                        .count = kBytes,
                        .dtype = DType::kU8,
                        .peer = peer,
                        .tag = FirstTag(/*point_to_point=*/true, number)};
  };
  CollectiveOp send[] = {call(CollectiveKind::kSend, 1, 1),
                         call(CollectiveKind::kSend, 1, 2)};
  CollectiveOp receive[] = {call(CollectiveKind::kRecv, 0, 1),
                            call(CollectiveKind::kRecv, 0, 2)};
  send[0].in = ones.data();
  send[1].in = twos.data();
  receive[0].out = out.data();
  receive[1].out = other.data();
  std::unique_ptr<CollectiveTask> sends[2], receives[2];
  for (int i = 0; i < 2; ++i) {
    sends[i] = MakeTask(send[i], shm_groups.at(0));
    receives[i] = MakeTask(receive[i], shm_groups.at(1));
    ASSERT_TRUE(receives[i]->Advance().ok());  // publishes `wanted`
    ASSERT_TRUE(sends[i]->Advance().ok());     // publishes `arrived`
  }
  ASSERT_TRUE(sends[0]->Advance().ok());  // puts a block
  sends[0] = nullptr;
  while (*sends[1]->Advance() == AdvanceResult::kMoved) {
  }
  ASSERT_TRUE(receives[0]->Advance().ok());  // takes the block
  const size_t block = shm_groups.at(0).mine().shape().block_bytes;
  out.resize(block);
  EXPECT_THAT(out, Each(std::byte{1}));
}

}  // namespace
}  // namespace lockstep::transport
