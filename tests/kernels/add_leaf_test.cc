#include "kernels/add_leaf.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/add_leaf_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// Rows of one case, and their expected result.
template <class Leaf>
struct Rows {
  using Sum = Compute<Leaf>;

  Rows(size_t sums, size_t count, double weight) {
    Rng rng(count * 13 + sums);
    leaf = RandomRow<Leaf>(rng, count);
    for (size_t k = 0; k < sums; ++k) {
      left.push_back(RandomRow<Sum>(rng, count));
    }
    for (std::vector<Sum>& row : left) pointers.push_back(row.data());
    const std::vector<const Sum*> typed(pointers.begin(), pointers.end());
    for (size_t i = 0; i < count; ++i) {
      want.push_back(AddLeafRef(typed.data(), sums, leaf.data(),
                                static_cast<Compute<Leaf>>(weight), i));
    }
  }

  void AddInto(void* out, double weight) const {
    const std::vector<const void*> in(pointers.begin(), pointers.end());
    AddLeaf(in, leaf.data(), DTypeOf<Leaf>(), weight, out, DTypeOf<Sum>(),
            leaf.size());
  }

  std::vector<Leaf> leaf;
  std::vector<std::vector<Sum>> left;
  std::vector<Sum*> pointers;
  std::vector<Sum> want;
};

template <class Leaf>
class AddLeafTest : public testing::Test {
 protected:
  using Sum = Compute<Leaf>;

  static void ExpectTwins(size_t sums, size_t count, double weight) {
    Rows<Leaf> rows(sums, count, weight);
    std::vector<Sum> out(count);
    rows.AddInto(out.data(), weight);
    EXPECT_TRUE(SameBits(out, rows.want)) << sums << " sums of " << count;
    if constexpr (std::is_same_v<Leaf, Sum>) {
      std::vector<Leaf> leaf = rows.leaf;
      std::swap(leaf, rows.leaf);
      rows.AddInto(rows.leaf.data(), weight);
      EXPECT_TRUE(SameBits(rows.leaf, rows.want)) << "over the leaf";
      std::swap(leaf, rows.leaf);
    }
    if (sums == 0) return;
    rows.AddInto(rows.left.back().data(), weight);
    EXPECT_TRUE(SameBits(rows.left.back(), rows.want)) << "over the last sum";
  }
};

TYPED_TEST_SUITE(AddLeafTest, FloatTypes);

TYPED_TEST(AddLeafTest, GivesTheBitsOfTheReference) {
  OnEveryCpu([] {
    for (const size_t sums : {0, 1, 2, 3, 10}) {
      for (const size_t count : {0, 1, 7, 1023, 1025, 2500}) {
        for (const double weight : {1.0, 0.3}) {
          TestFixture::ExpectTwins(sums, count, weight);
        }
      }
    }
  });
}

TEST(AddLeafDeathTest, SumsInF32OrF64) {
  const float leaf = 1;
  double sum = 0;
  EXPECT_DEATH(AddLeaf({}, &leaf, DType::kF32, 1, &sum, DType::kF64, 1), "f32");
}

}  // namespace
}  // namespace lockstep::kernels
