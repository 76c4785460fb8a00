// The device's copies, fills and sums of boxes are bit-equal to their host
// twins, and write nothing else.

#include "kernels/device/strided_box.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/strided_box.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/strided_boxes.h"

namespace lockstep::kernels {
namespace {

constexpr BoxShape kShapes[] = {
    {},
    {.with_sums = true},
    {.dims_max = 3, .count_max = 300, .elements_max = 9000},
    {.dims_max = 3, .count_max = 300, .elements_max = 9000, .with_sums = true}};
// A short list, a long one, and several launches.
constexpr size_t kListSizes[] = {0, 1, 3, 8, 9, 112, 113, 300};

// The memory of a case on the device; compares it with the host's.
template <class T>
struct OnDevice {
  explicit OnDevice(const BoxCase<T>& c)
      : in(c.in), first(c.out[0], 1), second(c.out[1]) {}

  void ExpectSame(const BoxCase<T>& want, int seed) const {
    gpu::Synchronize();
    EXPECT_TRUE(SameBits(first.Values(), want.out[0])) << "seed " << seed;
    EXPECT_TRUE(SameBits(second.Values(), want.out[1])) << "seed " << seed;
  }

  gpu::Row<T> in, first, second;
  const void* const from[1] = {in.data()};
  void* const to[2] = {first.data(), second.data()};
};

template <class T>
class DeviceBoxesTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceBoxesTest, EveryType);

// Calls test(seed, case) for lists of all sizes.
template <class T, class F>
void ForCases(bool with_sums, F test) {
  int seed = 0;
  for (const BoxShape& shape : kShapes) {
    if (shape.with_sums && !with_sums) continue;
    for (const size_t boxes : kListSizes) {
      Rng rng(++seed);
      test(seed, DrawBoxes<T>(rng, boxes, shape));
    }
  }
}

TYPED_TEST(DeviceBoxesTest, CopiesHaveTheBytesOfTheirHostTwin) {
  ForCases<TypeParam>(false, [](int seed, BoxCase<TypeParam> c) {
    const OnDevice<TypeParam> there(c);
    const void* const in[] = {c.in.data()};
    void* const out[] = {c.out[0].data(), c.out[1].data()};
    CopyBoxes(c.boxes, in, out);
    gpu::Require(device::CopyBoxes(c.boxes, there.from, there.to, nullptr),
                 "CopyBoxes");
    there.ExpectSame(c, seed);
  });
}

TYPED_TEST(DeviceBoxesTest, FillsHaveTheBytesOfTheirHostTwin) {
  ForCases<TypeParam>(false, [](int seed, BoxCase<TypeParam> c) {
    const OnDevice<TypeParam> there(c);
    Rng rng(seed);
    const std::vector<BoxFill> fills = FillsOf(c, rng);
    void* const out[] = {c.out[0].data(), c.out[1].data()};
    FillBoxes(fills, out);
    gpu::Require(device::FillBoxes(fills, there.to, nullptr), "FillBoxes");
    there.ExpectSame(c, seed);
  });
}

TYPED_TEST(DeviceBoxesTest, SumsHaveTheBitsOfTheirHostTwin) {
  for (const bool add : {false, true}) {
    ForCases<TypeParam>(true, [&](int seed, BoxCase<TypeParam> c) {
      const OnDevice<TypeParam> there(c);
      const void* const in[] = {c.in.data()};
      void* const out[] = {c.out[0].data(), c.out[1].data()};
      SumBoxes(c.boxes, in, out, add);
      gpu::Require(
          device::SumBoxes(c.boxes, there.from, there.to, add, nullptr),
          "SumBoxes");
      there.ExpectSame(c, seed);
    });
  }
}

TEST(DeviceBoxTypesTest, OneListMayHaveBoxesOfSeveralTypes) {
  const std::vector<uint8_t> in = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint8_t> want(8);
  const gpu::Row<uint8_t> from(in), to(want);
  const StridedBox boxes[] = {
      {.dtype = DType::kU8, .counts = {}, .in_strides = {}},
      {.dtype = DType::kI16, .in_offset = 2, .out_offset = 2},
      {.dtype = DType::kF32, .in_offset = 4, .out_offset = 4}};
  const void* const in_host[] = {in.data()};
  void* const out_host[] = {want.data()};
  const void* const in_device[] = {from.data()};
  void* const out_device[] = {to.data()};
  SumBoxes(boxes, in_host, out_host, true);
  gpu::Require(device::SumBoxes(boxes, in_device, out_device, true, nullptr),
               "SumBoxes");
  gpu::Synchronize();
  EXPECT_EQ(to.Values(), want);
}

}  // namespace
}  // namespace lockstep::kernels
