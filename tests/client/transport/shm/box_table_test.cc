// How a rank handles a table of boxes that its peer, or anything that writes to
// shared memory, has overwritten.

#include "client/transport/shm/box_table.h"

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <random>

#include "client/transport/failed_peer.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/task.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/box_tensors.h"
#include "tests/client/transport/shm/shm_groups.h"

namespace lockstep::transport {
namespace {

constexpr int64_t kTableRows = 40;
constexpr int64_t kTableRun = 100;

// The words of the table of BoxTensors.
enum Word {
  kSegmentsAt,
  kBoxesAt,
  kIdAt,
  kSegmentOffsetAt,
  kBytesAt,
  kTypeAt,
  kOffsetAt,
  kRowCountAt,
  kColumnCountAt,
  kRowStrideAt,
  kColumnStrideAt,
  kWordsOfTable
};

class BoxTableTest : public testing::Test {
 protected:
  BoxTableTest() {
    tensors_.Place(arena_.get(), arena_.get(), nullptr);
    send_ = tensors_.Send();
    receive_ = tensors_.Receive();
    sender_ = MakeTask(send_, groups_.at(0));
    EXPECT_TRUE(sender_->Advance().ok());
    EXPECT_EQ(slot().published.copy_mode, CopyMode::kBoxes);
    EXPECT_EQ(BoxTableWords(tensors_.sent()), size_t{kWordsOfTable});
  }

  SendSlot& slot() { return groups_.at(0).mine().send_slot(1, 1); }
  uint64_t Get(size_t word) {
    uint64_t value = 0;
    std::memcpy(&value, slot().small + word * sizeof value, sizeof value);
    return value;
  }
  void Set(size_t word, uint64_t value) {
    std::memcpy(slot().small + word * sizeof value, &value, sizeof value);
  }
  absl::Status Received() {
    return MakeTask(receive_, groups_.at(1))->Advance().status();
  }
  void ExpectBlamed() {
    const absl::Status status = Received();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(FailedPeer(status), 0) << status;
  }

  ShmGroups groups_{2};
  const std::unique_ptr<Arena> arena_ = MakeSharedArena(groups_.registry(0));
  BoxTensors tensors_{kTableRows, kTableRun};
  CollectiveOp send_, receive_;
  std::unique_ptr<CollectiveTask> sender_;
};

TEST_F(BoxTableTest, IsReadAsItIsWritten) {
  EXPECT_EQ(Get(kBoxesAt), 1u);
  EXPECT_EQ(Get(kRowStrideAt), uint64_t{BoxTensors::kSenderRow});
  EXPECT_TRUE(Received().ok());
  EXPECT_TRUE(tensors_.IsReceived());
}

TEST_F(BoxTableTest, ABoxBehindTheLastSegmentByteIsRefused) {
  // One byte more, and one byte before the first: both are in the mapped
  // segment, but not in the part of it that was published.
  Set(kOffsetAt, Get(kOffsetAt) + 1);
  ExpectBlamed();
  Set(kOffsetAt, std::numeric_limits<uint64_t>::max());
  ExpectBlamed();
}

struct WrongWord {
  const char* name;
  Word word;
  uint64_t value;

  friend void PrintTo(const WrongWord& wrong, std::ostream* os) {
    *os << wrong.name;
  }
};

class WrongBoxTableTest : public BoxTableTest,
                          public testing::WithParamInterface<WrongWord> {};

TEST_P(WrongBoxTableTest, IsBlamedOnItsRank) {
  Set(GetParam().word, GetParam().value);
  ExpectBlamed();
  EXPECT_EQ(tensors_.IsReceived(), false);
}

constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
constexpr uint64_t kU8Type = uint64_t{static_cast<uint8_t>(DType::kU8)} << 8;

INSTANTIATE_TEST_SUITE_P(
    Words, WrongBoxTableTest,
    testing::Values(
        WrongWord{"NoSegments", kSegmentsAt, 0},
        WrongWord{"MoreSegments", kSegmentsAt, 2},
        WrongWord{"ManySegments", kSegmentsAt, uint64_t{1} << 63},
        WrongWord{"NoBoxes", kBoxesAt, 0}, WrongWord{"MoreBoxes", kBoxesAt, 2},
        WrongWord{"UnknownSegment", kIdAt, 4711},
        WrongWord{"OffsetOfNone", kSegmentOffsetAt, uint64_t{1} << 40},
        WrongWord{"LargeSegment", kBytesAt, uint64_t{1} << 40},
        WrongWord{"SmallSegment", kBytesAt, 100},
        WrongWord{"NegativeSegment", kBytesAt, ~uint64_t{0}},
        WrongWord{"OtherSegment", kTypeAt, 1 | kU8Type | 2 << 16},
        WrongWord{"FewerDimensions", kTypeAt, kU8Type | 1 << 16},
        WrongWord{"ManyDimensions", kTypeAt, kU8Type | 9 << 16},
        WrongWord{"OtherType", kTypeAt, (kU8Type ^ 1 << 8) | 2 << 16},
        WrongWord{"OtherBits", kTypeAt, kU8Type | 2 << 16 | uint64_t{1} << 40},
        WrongWord{"LargeOffset", kOffsetAt, kMost},
        WrongWord{"MoreRows", kRowCountAt, kTableRows + 1},
        WrongWord{"FewerRows", kRowCountAt, kTableRows - 1},
        WrongWord{"NoColumns", kColumnCountAt, 0},
        WrongWord{"ManyColumns", kColumnCountAt, kMost},
        WrongWord{"LongStride", kRowStrideAt, BoxTensors::kSenderRow + 1},
        WrongWord{"NegativeStride", kRowStrideAt, ~uint64_t{0}},
        WrongWord{"HugeStride", kRowStrideAt, kMost},
        WrongWord{"LeastStride", kColumnStrideAt, uint64_t{1} << 63}),
    [](const auto& info) { return info.param.name; });

// Any other words are refused too, or name memory that the peer has published.
TEST_F(BoxTableTest, NoBitsReachOtherMemory) {
  for (uint64_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const size_t word = random() % kWordsOfTable;
    const uint64_t before = Get(word);
    Set(word, before ^ uint64_t{1} << random() % 64);
    const auto read = ReadBoxTable(slot().small, tensors_.received(), 0,
                                   groups_.at(1).importer(0));
    if (read.ok()) {
      for (const kernels::StridedBox& box : read->copies) {
        EXPECT_GE(box.in_offset, 0);
        EXPECT_LE(box.in_offset + (box.counts[0] - 1) * box.in_strides[0] +
                      (box.counts[1] - 1) * box.in_strides[1],
                  static_cast<int64_t>(Get(kBytesAt)));
      }
    } else {
      EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
    }
    Set(word, before);
  }
}

}  // namespace
}  // namespace lockstep::transport
