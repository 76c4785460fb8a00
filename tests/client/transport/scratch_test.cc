#include "client/transport/common/scratch.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/support/sanitizers.h"

namespace lockstep::transport {
namespace {

TEST(ScratchTest, IsGivenAgainOnceItIsGivenBack) {
  ScratchPool pool;
  Scratch one, other;
  ASSERT_TRUE(pool.Take(1000, &one).ok());
  std::byte* const first = one.data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  ASSERT_TRUE(pool.Take(1000, &other).ok());
  EXPECT_NE(other.data(), first);
  one = {};
  ASSERT_TRUE(pool.Take(999, &one).ok());
  EXPECT_EQ(one.data(), first);
}

// A sanitizer ends the process when it is asked for a petabyte.
constexpr size_t kTooMuch = kUnderSanitizer ? SIZE_MAX : size_t{1} << 50;

TEST(ScratchTest, SaysWhenThereIsNoMemoryAndGoesOn) {
  ScratchPool pool;
  Scratch scratch;
  for (size_t bytes : {kTooMuch, SIZE_MAX}) {
    ASSERT_TRUE(pool.Take(64, &scratch).ok());
    const absl::Status none = pool.Take(bytes, &scratch);
    EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
    EXPECT_EQ(scratch.data(), nullptr);
  }
  EXPECT_TRUE(pool.Take(64, &scratch).ok());
}

}  // namespace
}  // namespace lockstep::transport
