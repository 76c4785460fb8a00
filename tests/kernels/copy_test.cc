#include "kernels/copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::kernels {
namespace {

class CopyTest
    : public testing::TestWithParam<void (*)(void*, const void*, size_t)> {};
INSTANTIATE_TEST_SUITE_P(, CopyTest, testing::Values(&Copy, &CopyPastCaches),
                         [](const auto& info) {
                           return info.index == 0 ? "Copy" : "CopyPastCaches";
                         });

TEST_P(CopyTest, CopiesEveryLengthBetweenAnyAlignmentsAndNoMore) {
  std::vector<uint8_t> from(3000);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<uint8_t>(i * 31 + 1);
  }
  for (size_t shift : {0, 1, 63}) {
    for (size_t bytes = 0; bytes < 1100; ++bytes) {
      std::vector<uint8_t> to(1300, 0xee);
      GetParam()(to.data() + 7, from.data() + shift, bytes);
      for (size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= 7 && i < 7 + bytes;
        ASSERT_EQ(to[i], inside ? from[shift + i - 7] : 0xee)
            << bytes << " bytes from " << shift << ", at " << i;
      }
    }
  }
}

TEST_P(CopyTest, CopiesLongRangesWhereverTheDestinationLiesInItsPage) {
  constexpr size_t kBytes = (16 << 10) + 5;
  std::vector<uint8_t> from(kBytes);
  for (size_t i = 0; i < kBytes; ++i) from[i] = static_cast<uint8_t>(i * 31);
  for (size_t behind : {0, 1, 64, 1023, 1024, 1025, 4095}) {
    std::vector<uint8_t> to(kBytes + 2 * 4096, 0xee);
    const size_t page = reinterpret_cast<uintptr_t>(from.data()) -
                        reinterpret_cast<uintptr_t>(to.data());
    const size_t begin = (page + behind) % 4096;
    GetParam()(to.data() + begin, from.data(), kBytes);
    EXPECT_EQ(std::memcmp(to.data() + begin, from.data(), kBytes), 0)
        << behind << " bytes behind the source, modulo the page";
    EXPECT_TRUE(std::all_of(to.begin(), to.begin() + begin,
                            [](uint8_t byte) { return byte == 0xee; }));
    EXPECT_TRUE(std::all_of(to.begin() + begin + kBytes, to.end(),
                            [](uint8_t byte) { return byte == 0xee; }));
  }
}

}  // namespace
}  // namespace lockstep::kernels
