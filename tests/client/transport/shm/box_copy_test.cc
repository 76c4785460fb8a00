#include "client/transport/shm/box_copy.h"

#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using kernels::StridedBox;

// A box of random dimensions from a dense tensor of `cells` elements to another
// one whose dimensions are in a random order.
StridedBox DrawBox(std::mt19937_64& random, int64_t* cells) {
  const auto draw = [&random](int below) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(below));
  };
  StridedBox box{.dtype = draw(2) == 0 ? DType::kU16 : DType::kF64,
                 .dims = static_cast<int>(draw(5))};
  *cells = 1;
  for (int d = box.dims; d-- > 0;) {
    box.counts[d] = 1 + draw(6);
    box.in_strides[d] = *cells;
    *cells *= box.counts[d];
  }
  int64_t stride = 1;
  const bool reversed = draw(2) == 0;
  for (int i = 0; i < box.dims; ++i) {
    const int d = reversed ? i : box.dims - 1 - i;
    box.out_strides[d] = stride;
    stride *= box.counts[d];
  }
  return kernels::Simplified(box);
}

TEST(BoxCopyTest, StepsOfAnyLengthCopyWhatOneCopyDoes) {
  for (uint64_t seed = 1; seed <= 500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    int64_t cells[2];
    std::vector<StridedBox> boxes = {DrawBox(random, &cells[0]),
                                     DrawBox(random, &cells[1])};
    const auto end = cells[0] * static_cast<int64_t>(SizeOf(boxes[0].dtype));
    boxes[1].in_offset += end;
    boxes[1].out_offset += end;
    const auto bytes = static_cast<size_t>(
        end + cells[1] * static_cast<int64_t>(SizeOf(boxes[1].dtype)));
    std::vector<std::byte> from(bytes), wanted(bytes), got(bytes);
    for (std::byte& byte : from) byte = static_cast<std::byte>(random());
    const void* const in[] = {from.data()};
    void* const out[] = {got.data()};
    void* const all[] = {wanted.data()};
    kernels::CopyBoxes(boxes, in, all);
    const size_t step = 1 + random() % (bytes + 1);
    BoxCopy copy(boxes, in, out);
    size_t steps = 1;
    for (; !copy.Step(step); ++steps) {
    }
    EXPECT_EQ(got, wanted);
    const size_t element = 8;
    EXPECT_GE(steps * std::max(step, element), bytes);
  }
}

TEST(BoxCopyTest, AStepIsNotLongerThanItsBytes) {
  const StridedBox box = {.dtype = DType::kU8,
                          .dims = 2,
                          .counts = {10, 10},
                          .in_strides = {11, 1},
                          .out_strides = {10, 1}};
  const std::vector<std::byte> from(110, std::byte{1});
  std::vector<std::byte> to(100);
  const void* const in[] = {from.data()};
  void* const out[] = {to.data()};
  BoxCopy copy({&box, 1}, in, out);
  EXPECT_FALSE(copy.Step(25));
  EXPECT_EQ(std::count(to.begin(), to.end(), std::byte{1}), 25);
  EXPECT_FALSE(copy.Step(25));
  EXPECT_EQ(std::count(to.begin(), to.end(), std::byte{1}), 50);
  EXPECT_TRUE(copy.Step(50));
  EXPECT_THAT(to, testing::Each(std::byte{1}));
}

TEST(BoxCopyTest, APartIsAsLargeAsOneBoxCanBe) {
  const StridedBox box = {.dtype = DType::kU8,
                          .dims = 3,
                          .counts = {4, 3, 5},
                          .in_strides = {100, 10, 1},
                          .out_strides = {15, 5, 1}};
  const StridedBox planes = PartOf(box, 15, 44);  // two whole planes
  EXPECT_THAT(planes.counts, testing::ElementsAre(2, 3, 5, 0, 0, 0, 0, 0));
  EXPECT_EQ(planes.in_offset, 100);
  const StridedBox rows = PartOf(box, 20, 44);  // to the end of its plane
  EXPECT_THAT(rows.counts, testing::ElementsAre(1, 2, 5, 0, 0, 0, 0, 0));
  EXPECT_EQ(rows.in_offset, 110);
  EXPECT_EQ(rows.out_offset, 20);
  const StridedBox cells = PartOf(box, 22, 44);  // to the end of its row
  EXPECT_THAT(cells.counts, testing::ElementsAre(1, 1, 3, 0, 0, 0, 0, 0));
  EXPECT_EQ(cells.in_offset, 112);
}

}  // namespace
}  // namespace lockstep::transport
