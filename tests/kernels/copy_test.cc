#include "kernels/copy.h"

#include <cstddef>
#include <cstdint>
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

}  // namespace
}  // namespace lockstep::kernels
