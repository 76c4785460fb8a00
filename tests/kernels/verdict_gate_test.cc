#include "kernels/verdict_gate.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Verdicts that allow no update: not committed, not finite, or memory that was
// never written.
std::vector<VerdictScalars> Forbidding() {
  return {{},
          {.commit = 0, .finite = 1},
          {.commit = 1, .finite = 0},
          {.commit = 2, .finite = 1},
          {.commit = kNaN, .finite = kNaN, .clip = kNaN, .samples = kNaN}};
}

constexpr VerdictScalars kAllowing = {.commit = 1, .finite = 1, .clip = 0.25};

TEST(VerdictGateTest, CopiesOnlyIfTheVerdictAllowsIt) {
  const std::vector<float> update = {1, 2, 3};
  std::vector<float> state = {7, 8, 9};
  for (const VerdictScalars& verdict : Forbidding()) {
    CommitCopy(&verdict, update.data(), state.data(), 2 * sizeof(float));
    EXPECT_EQ(state, std::vector<float>({7, 8, 9}));
  }
  CommitCopy(&kAllowing, update.data(), state.data(), 2 * sizeof(float));
  EXPECT_EQ(state, std::vector<float>({1, 2, 9}));
  CommitCopy(&kAllowing, nullptr, nullptr, 0);
}

template <class T>
class CommitUnpackTest : public testing::Test {};
TYPED_TEST_SUITE(CommitUnpackTest, FloatTypes);

TYPED_TEST(CommitUnpackTest, MultipliesByTheClipOnlyIfTheVerdictAllowsIt) {
  std::vector<TypeParam> bucket, tensor(2, Whole<TypeParam>(7));
  for (int i = 0; i < 4; ++i) bucket.push_back(Whole<TypeParam>(8 * i));
  const TensorSlot slots[] = {{tensor.data(), 2, 2}};
  const DType dtype = DTypeOf<TypeParam>();
  for (const VerdictScalars& verdict : Forbidding()) {
    CommitUnpack(&verdict, bucket.data(), slots, dtype);
    EXPECT_TRUE(SameBits(tensor, std::vector(2, Whole<TypeParam>(7))));
  }
  CommitUnpack(&kAllowing, bucket.data(), slots, dtype);
  EXPECT_TRUE(SameBits(tensor, {Whole<TypeParam>(4), Whole<TypeParam>(6)}));
}

}  // namespace
}  // namespace lockstep::kernels
