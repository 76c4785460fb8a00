#include "lockstep/arena.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

bool AllZero(const ArenaBuffer& buffer) {
  return std::all_of(buffer.data(), buffer.data() + buffer.bytes(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(PlainArenaTest, GivesAlignedZeroedMemoryOfAnySize) {
  const std::unique_ptr<Arena> arena = MakePlainArena();
  for (size_t bytes : {1, 255, 256, 4097, 1 << 20, (1 << 20) + 1, 9 << 20}) {
    // Twice, so that freed memory is allocated again.
    for (int round = 0; round < 2; ++round) {
      absl::StatusOr<ArenaBuffer> buffer = arena->Allocate(bytes);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      EXPECT_EQ(buffer->bytes(), bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Arena::kAlignment,
                0u);
      EXPECT_TRUE(AllZero(*buffer)) << bytes;
      std::memset(buffer->data(), 0xff, bytes);
    }
  }
}

TEST(PlainArenaTest, ABufferOutlivesItsArenaAndMoves) {
  std::optional<ArenaBuffer> buffer;
  {
    absl::StatusOr<ArenaBuffer> allocated = MakePlainArena()->Allocate(4096);
    ASSERT_TRUE(allocated.ok());
    buffer = *std::move(allocated);
  }
  buffer->as<double>()[511] = 2.5;
  ArenaBuffer moved = *std::move(buffer);
  EXPECT_EQ(moved.as<double>().size(), 512u);
  EXPECT_EQ(moved.as<double>()[511], 2.5);
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->bytes(), 0u);
}

TEST(PlainArenaTest, RefusesNothingAndMoreThanThereIs) {
  const std::unique_ptr<Arena> arena = MakePlainArena();
  EXPECT_EQ(arena->Allocate(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arena->Allocate(size_t{1} << 62).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep
