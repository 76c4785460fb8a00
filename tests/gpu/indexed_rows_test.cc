// The device reads rows at indices, and adds to them, to the bits of its host
// twins, and finds indices that are no rows.

#include "kernels/device/indexed_rows.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kRowsThere = 7;

std::vector<int32_t> Indices(size_t count, bool faulty) {
  std::vector<int32_t> indices(count);
  for (size_t i = 0; i < count; ++i) {
    indices[i] = static_cast<int32_t>(i * 5 % kRowsThere);
  }
  if (faulty && count > 0) indices[count / 2] = -3;
  return indices;
}

void ExpectFault(const gpu::Row<IndexFault>& fault, const IndexFault& want) {
  const IndexFault got = fault.Values()[0];
  EXPECT_EQ(got.found, want.found);
  EXPECT_EQ(got.index, want.index);
}

TEST(DeviceIndexedRowsTest, AreReadAsOnTheHost) {
  for (const size_t count : {0, 1, 100, 5000}) {
    for (const size_t row_bytes : {0, 1, 2, 12, 16, 80, 4096, 10'001}) {
      for (const bool faulty : {false, true}) {
        Rng rng(row_bytes);
        const auto in = RandomRow<uint8_t>(rng, kRowsThere * row_bytes);
        const std::vector<int32_t> indices = Indices(count, faulty);
        std::vector<uint8_t> want(count * row_bytes, 0xee);
        const gpu::Row<uint8_t> from(in, faulty ? 1 : 0);
        const gpu::Row<uint8_t> to(want);
        const gpu::Row<int32_t> at(indices);
        const gpu::Row<IndexFault> found({IndexFault{}});
        IndexFault fault;
        GatherRows(in.data(), kRowsThere, indices.data(), count, want.data(),
                   row_bytes, &fault);
        gpu::Require(
            device::GatherRows(from.data(), kRowsThere, at.data(), count,
                               to.data(), row_bytes, found.data(), nullptr),
            "GatherRows");
        gpu::Synchronize();
        EXPECT_TRUE(SameBits(to.Values(), want))
            << count << " rows of " << row_bytes;
        ExpectFault(found, fault);
      }
    }
  }
}

template <class T>
void ExpectSumsOfTwins(size_t count, size_t elements, bool faulty) {
  Rng rng(count + elements);
  const auto in = RandomRow<T>(rng, count * elements);
  auto want = RandomRow<T>(rng, kRowsThere * elements);
  const std::vector<int32_t> indices = Indices(count, faulty);
  const gpu::Row<T> from(in);
  const gpu::Row<T> to(want);
  const gpu::Row<int32_t> at(indices);
  const gpu::Row<IndexFault> found({IndexFault{}});
  IndexFault fault;
  AddRows(in.data(), indices.data(), count, want.data(), kRowsThere, elements,
          DTypeOf<T>(), &fault);
  gpu::Require(
      device::AddRows(from.data(), at.data(), count, to.data(), kRowsThere,
                      elements, DTypeOf<T>(), found.data(), nullptr),
      "AddRows");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(to.Values(), want)) << count << " rows of " << elements;
  ExpectFault(found, fault);
}

template <class T>
class DeviceAddRowsTest : public testing::Test {};
using AddedTypes =
    testing::Types<uint8_t, int8_t, int32_t, uint32_t, int64_t, uint64_t, F16,
                   BF16, float, double, int16_t, uint16_t, Complex<float>,
                   Complex<double>, F8E4M3, F8E5M2>;
TYPED_TEST_SUITE(DeviceAddRowsTest, AddedTypes);

TYPED_TEST(DeviceAddRowsTest, GivesTheBitsOfItsHostTwin) {
  for (const size_t count : {0, 1, 60}) {
    for (const size_t elements : {0, 1, 3, 1000}) {
      for (const bool faulty : {false, true}) {
        ExpectSumsOfTwins<TypeParam>(count, elements, faulty);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
