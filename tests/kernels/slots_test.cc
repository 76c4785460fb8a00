#include "kernels/slots.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::kernels {
namespace {

using Range = std::pair<size_t, size_t>;  // offset, count

std::vector<TensorSlot> SlotsAt(const std::vector<Range>& ranges) {
  std::vector<TensorSlot> slots;
  for (const auto& [offset, count] : ranges) {
    slots.push_back({.tensor = nullptr, .offset = offset, .count = count});
  }
  return slots;
}

// Each element (slot, element of the tensor) in the order in which the chunks
// visit them, as in a launch: chunks share no state.
std::vector<Range> Visited(const std::vector<TensorSlot>& slots) {
  std::vector<Range> visited;
  const size_t n = slots.size();
  const ChunkRange chunks = ChunksOf(slots.data(), n);
  for (size_t chunk = chunks.first; chunk < chunks.end; ++chunk) {
    const size_t begin = ChunkBegin(chunk);
    const size_t end = ChunkBegin(chunk + 1);
    for (size_t s = FirstSlot(slots.data(), n, begin);
         s < n && slots[s].offset < end; ++s) {
      const Piece piece = PieceOf(slots[s], begin, end);
      for (size_t i = 0; i < piece.count; ++i) {
        EXPECT_EQ(piece.in_bucket, slots[s].offset + piece.in_tensor);
        EXPECT_GE(piece.in_bucket, begin);
        EXPECT_LE(piece.in_bucket + piece.count, end);
        visited.push_back({s, piece.in_tensor + i});
      }
    }
  }
  return visited;
}

std::vector<Range> EveryElement(const std::vector<TensorSlot>& slots) {
  std::vector<Range> elements;
  for (size_t s = 0; s < slots.size(); ++s) {
    for (size_t i = 0; i < slots[s].count; ++i) elements.push_back({s, i});
  }
  return elements;
}

void ExpectEachElementOnce(const std::vector<TensorSlot>& slots) {
  ASSERT_TRUE(InOrder(slots.data(), slots.size()));
  EXPECT_EQ(Visited(slots), EveryElement(slots));
}

constexpr size_t kC = kChunkElements;

TEST(SlotsTest, NoSlotsHaveNoChunks) {
  ExpectEachElementOnce({});
  ExpectEachElementOnce(SlotsAt({{0, 0}}));
  ExpectEachElementOnce(SlotsAt({{5, 0}, {5, 0}}));
}

TEST(SlotsTest, ASlotMayEndAtBeforeOrBehindTheEdgeOfAChunk) {
  for (size_t count : {kC - 1, kC, kC + 1, 2 * kC, 3 * kC + 7}) {
    ExpectEachElementOnce(SlotsAt({{0, count}}));
    ExpectEachElementOnce(SlotsAt({{0, count}, {count, 3}}));
    ExpectEachElementOnce(SlotsAt({{kC - 1, count}}));
  }
}

TEST(SlotsTest, AChunkMayHoldManySlotsAndGaps) {
  ExpectEachElementOnce(SlotsAt({{0, 1}, {1, 1}, {4, 0}, {4, 2}, {9, 3}}));
  ExpectEachElementOnce(SlotsAt({{3, 2}, {3 * kC, 2}, {9 * kC - 1, 2}}));
}

TEST(SlotsTest, ASingleFarSlotTouchesOnlyItsOwnChunks) {
  const std::vector<TensorSlot> slots = SlotsAt({{100 * kC + 5, kC}});
  const ChunkRange chunks = ChunksOf(slots.data(), slots.size());
  EXPECT_EQ(chunks.first, 100u);
  EXPECT_EQ(chunks.end, 102u);
  ExpectEachElementOnce(slots);
}

TEST(SlotsTest, OverlapAndDisorderAreNoticed) {
  EXPECT_FALSE(InOrder(SlotsAt({{0, 2}, {1, 2}}).data(), 2));
  EXPECT_FALSE(InOrder(SlotsAt({{2, 2}, {0, 2}}).data(), 2));
  EXPECT_TRUE(InOrder(SlotsAt({{0, 2}, {2, 0}, {2, 2}}).data(), 3));
}

TEST(SlotsTest, FirstSlotIsTheFirstThatEndsBehindTheElement) {
  const std::vector<TensorSlot> slots =
      SlotsAt({{0, 0}, {1, 2}, {3, 0}, {3, 1}, {6, 2}, {8, 0}});
  for (size_t begin = 0; begin < 12; ++begin) {
    const auto ends_behind = [&](const TensorSlot& slot) {
      return slot.offset + slot.count > begin;
    };
    EXPECT_EQ(FirstSlot(slots.data(), slots.size(), begin),
              static_cast<size_t>(
                  std::find_if(slots.begin(), slots.end(), ends_behind) -
                  slots.begin()))
        << begin;
  }
}

TEST(SlotsTest, APieceOfWhereTheSlotIsNotIsEmpty) {
  const TensorSlot slot = SlotsAt({{10, 5}})[0];
  EXPECT_EQ(PieceOf(slot, 0, 10).count, 0u);
  EXPECT_EQ(PieceOf(slot, 0, 8).count, 0u);
  EXPECT_EQ(PieceOf(slot, 15, 20).count, 0u);
  EXPECT_EQ(PieceOf(slot, 18, 20).count, 0u);
  EXPECT_EQ(PieceOf(slot, 12, 20).count, 3u);
}

class SlotHistories : public testing::TestWithParam<int> {};

TEST_P(SlotHistories, EachElementIsVisitedOnceAndInOrder) {
  std::mt19937 rng(GetParam());
  std::vector<Range> ranges;
  size_t offset = rng() % (3 * kC);
  for (size_t i = rng() % 40; i-- > 0;) {
    const size_t limits[] = {1, 3, 100, kC, 2 * kC};
    const size_t count = rng() % (limits[rng() % 5] + 1);
    ranges.push_back({offset, count});
    offset += count + (rng() % 3 == 0 ? rng() % (2 * kC) : 0);
  }
  ExpectEachElementOnce(SlotsAt(ranges));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SlotHistories, testing::Range(0, 30));

}  // namespace
}  // namespace lockstep::kernels
