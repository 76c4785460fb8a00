// Messages of boxes, step by step: which way they are sent. Both ranks' tasks
// are advanced by hand.

#include <memory>

#include "client/transport/shm/box_table.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/task.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/box_tensors.h"
#include "tests/client/transport/shm/shm_groups.h"

namespace lockstep::transport {
namespace {

class BoxMessageTest : public testing::Test {
 protected:
  // Runs both tasks to their ends; the copy mode of the message.
  CopyMode Run(const CollectiveOp& send, const CollectiveOp& receive) {
    const auto sender = MakeTask(send, groups_.at(0));
    const auto receiver = MakeTask(receive, groups_.at(1));
    bool sent = false, received = false;
    for (int i = 0; i < 100000 && !(sent && received); ++i) {
      if (!sent) sent = Advance(*sender);
      if (!received) received = Advance(*receiver);
    }
    EXPECT_TRUE(sent && received);
    const uint64_t number = (send.tag & ~(uint64_t{1} << 63)) >> 24;
    return groups_.at(0).mine().send_slot(1, number).published.copy_mode;
  }

  static bool Advance(CollectiveTask& task) {
    const auto advanced = task.Advance();
    EXPECT_TRUE(advanced.ok()) << advanced.status();
    return !advanced.ok() || *advanced == AdvanceResult::kDone;
  }

  ShmGroups groups_{2};
  const std::unique_ptr<Arena> arena_ = MakeSharedArena(groups_.registry(0));
};

TEST_F(BoxMessageTest, LongRunsInTheArenaAreReadInPlace) {
  uint64_t number = 0;
  for (const int64_t run : {64, 100}) {
    BoxTensors tensors(40, run);
    tensors.Place(arena_.get(), arena_.get(), nullptr);
    ++number;
    EXPECT_EQ(Run(tensors.Send(number), tensors.Receive(number)),
              CopyMode::kBoxes);
    EXPECT_TRUE(tensors.IsReceived());
    EXPECT_FALSE(tensors.IsPacked());
    EXPECT_FALSE(tensors.IsUnpacked());
  }
}

TEST_F(BoxMessageTest, ShortRunsArePackedAndReadFromTheBuffer) {
  BoxTensors tensors(100, 63);
  tensors.Place(arena_.get(), arena_.get(), nullptr);
  EXPECT_EQ(Run(tensors.Send(), tensors.Receive()), CopyMode::kDirect);
  EXPECT_TRUE(tensors.IsReceived());
  EXPECT_TRUE(tensors.IsPacked());
  EXPECT_FALSE(tensors.IsUnpacked());
}

TEST_F(BoxMessageTest, BoxesInPrivateMemoryArePackedIntoTheArena) {
  BoxTensors tensors(40, 100);
  tensors.Place(nullptr, arena_.get(), nullptr);
  EXPECT_EQ(Run(tensors.Send(), tensors.Receive()), CopyMode::kDirect);
  EXPECT_TRUE(tensors.IsReceived());
  EXPECT_FALSE(tensors.IsUnpacked());
}

TEST_F(BoxMessageTest, PrivateBuffersAreStaged) {
  BoxTensors tensors(40, 100);
  EXPECT_EQ(Run(tensors.Send(), tensors.Receive()), CopyMode::kStaged);
  EXPECT_TRUE(tensors.IsReceived());
  EXPECT_TRUE(tensors.IsUnpacked());
}

TEST_F(BoxMessageTest, SmallMessagesAreInTheSlot) {
  BoxTensors tensors(10, 100);
  tensors.Place(arena_.get(), arena_.get(), nullptr);
  EXPECT_EQ(Run(tensors.Send(), tensors.Receive()), CopyMode::kInline);
  EXPECT_TRUE(tensors.IsReceived());
  EXPECT_FALSE(tensors.IsUnpacked());
}

TEST_F(BoxMessageTest, MoreBoxesThanATableHasArePacked) {
  const int64_t most = (kBoxTableWords - 5) / 6;
  for (const int64_t boxes : {most, most + 1}) {
    BoxTensors tensors(40, 100, boxes);
    tensors.Place(arena_.get(), arena_.get(), nullptr);
    const uint64_t number = boxes == most ? 1 : 2;
    EXPECT_EQ(Run(tensors.Send(number), tensors.Receive(number)),
              boxes == most ? CopyMode::kBoxes : CopyMode::kDirect);
    EXPECT_TRUE(tensors.IsReceived());
  }
}

TEST_F(BoxMessageTest, APlainMessageIsUnpacked) {
  for (const bool in_arena : {false, true}) {
    BoxTensors tensors(40, 100);
    tensors.Place(nullptr, in_arena ? arena_.get() : nullptr, nullptr);
    const uint64_t number = in_arena ? 2 : 1;
    CollectiveOp send = tensors.Send(number);
    void* const packed[] = {send.out};
    const void* const tensor[] = {send.boxes.memory[0]};
    kernels::CopyBoxes(tensors.sent().copies, tensor, packed);
    send.boxes = {};
    EXPECT_EQ(Run(send, tensors.Receive(number)),
              in_arena ? CopyMode::kDirect : CopyMode::kStaged);
    EXPECT_TRUE(tensors.IsReceived());
  }
}

TEST_F(BoxMessageTest, BoxesAreReceivedIntoOneRun) {
  BoxTensors tensors(40, 100);
  tensors.Place(arena_.get(), arena_.get(), nullptr);
  CollectiveOp receive = tensors.Receive();
  void* const memory[] = {receive.out};
  const BoxMessage run = MakeBoxMessage({{.dtype = DType::kU8,
                                          .dims = 2,
                                          .counts = {40, 100},
                                          .strides = {100, 1}}},
                                        {}, tensors.bytes());
  receive.boxes = {&run, memory};
  EXPECT_EQ(Run(tensors.Send(), receive), CopyMode::kBoxes);
  const auto* const row = static_cast<const std::byte*>(receive.out) + 3900;
  const auto* const sent =
      static_cast<const std::byte*>(tensors.Send().boxes.memory[0]) +
      39 * BoxTensors::kSenderRow + BoxTensors::kSenderColumn;
  EXPECT_EQ(std::memcmp(row, sent, 100), 0);
}

TEST_F(BoxMessageTest, LargeMessagesAreCopiedInSteps) {
  for (const bool in_place : {false, true}) {
    const int64_t rows = 3 * kStepBytes / 100;
    BoxTensors tensors(rows, 100);
    tensors.Place(in_place ? arena_.get() : nullptr, arena_.get(), nullptr);
    const uint64_t number = in_place ? 2 : 1;
    const CollectiveOp send = tensors.Send(number);
    const CollectiveOp receive = tensors.Receive(number);
    const auto sender = MakeTask(send, groups_.at(0));
    const auto receiver = MakeTask(receive, groups_.at(1));
    int sends = 0, receives = 0;
    while (groups_.at(0).mine().send_slot(1, number).arrived.load() <
           Reached(number, 0)) {
      ASSERT_EQ(*sender->Advance(), AdvanceResult::kMoved);
      ++sends;
    }
    while (*receiver->Advance() == AdvanceResult::kMoved) ++receives;
    EXPECT_EQ(*sender->Advance(), AdvanceResult::kDone);
    EXPECT_EQ(sends, in_place ? 1 : 3);
    EXPECT_EQ(receives, 2);
    EXPECT_TRUE(tensors.IsReceived());
  }
}

TEST(MakeBoxMessageTest, SumsUpRunsAndReaches) {
  const BoxMessage message = MakeBoxMessage({{.dtype = DType::kF32,
                                              .memory = 2,
                                              .dims = 3,
                                              .offset = 400,
                                              .counts = {2, 3, 8},
                                              .strides = {-100, 8, 1}},
                                             {.dtype = DType::kF64,
                                              .memory = 2,
                                              .dims = 1,
                                              .offset = 800,
                                              .counts = {4},
                                              .strides = {2}}},
                                            {}, 0);
  ASSERT_EQ(message.reaches.size(), 1u);
  EXPECT_EQ(message.memories, 3u);
  EXPECT_EQ(message.reaches[0].begin, 0);
  EXPECT_EQ(message.reaches[0].end, 800 + 3 * 16 + 8);
  EXPECT_EQ(message.run_bytes, (48 * 4 + 4 * 8) / (2 + 4));
}

}  // namespace
}  // namespace lockstep::transport
