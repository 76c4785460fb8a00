// The device runs every local step to the bits of its host twin.

#include "kernels/device/local_step.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/any_element.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/local_steps_testing.h"

namespace lockstep::kernels {
namespace {

// Compares memory as elements of the step's output: the bits of a NaN are
// open.
testing::AssertionResult SameOutput(const LocalStep& step,
                                    const std::vector<uint8_t>& got,
                                    const std::vector<uint8_t>& want) {
  using Kind = LocalStep::Kind;
  DType dtype = DType::kU8;
  switch (step.kind) {
    case Kind::kDivideToF32: dtype = DType::kF32; break;
    case Kind::kDivide:
    case Kind::kReduceRows:
    case Kind::kAddRows:
    case Kind::kAdd: dtype = step.dtype; break;
    default: break;
  }
  testing::AssertionResult same = testing::AssertionSuccess();
  WithAnyType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto as_row = [](const std::vector<uint8_t>& bytes) {
      return std::span(reinterpret_cast<const T*>(bytes.data()),
                       bytes.size() / sizeof(T));
    };
    same = SameBits(as_row(got), as_row(want));
  });
  return same;
}

// `past`: bytes of all memory behind a boundary of 16, for elements of such an
// alignment.
class DeviceLocalStepTest : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Past, DeviceLocalStepTest, testing::Values(0, 4, 8));

// Complex numbers are aligned as their parts.
size_t AlignmentOf(const LocalStep& step) {
  if (step.kind == LocalStep::Kind::kStoreList) return sizeof(int64_t);
  switch (step.dtype) {
    case DType::kC64: return 4;
    case DType::kC128: return 8;
    default: return std::max<size_t>(SizeOf(step.dtype), 4);  // indices, sums
  }
}

TEST_P(DeviceLocalStepTest, GivesTheBitsOfItsHostTwin) {
  const size_t past = GetParam();
  for (const size_t count : {0, 1, 37, 64}) {
    const size_t bytes = 16 * 3 * 64;
    for (LocalStep step : StepsOf(count)) {
      if (past % AlignmentOf(step) != 0) continue;
      Rng rng(count);
      const auto in = RandomRow<uint8_t>(rng, bytes);
      auto other = RandomRow<uint8_t>(rng, bytes);
      for (size_t i = 0; i < count; ++i) {
        const auto index = static_cast<int32_t>(i % 3);
        std::memcpy(&other[4 * i], &index, 4);
      }
      if (step.kind > LocalStep::Kind::kStoreList) {
        // No slices overlap: the last ones are outside of the tensor.
        int64_t offset = 0;
        for (size_t i = 0; i < SliceSizes().size(); ++i) {
          std::memcpy(&other[8 * i], &offset, 8);
          offset += SliceSizes()[i] + 1;
        }
      }
      auto want = RandomRow<uint8_t>(rng, bytes);
      const gpu::Row<uint8_t> device_in(in, past),
          device_other(other, 2 * past), out(want, past);
      const gpu::Row<IndexFault> device_fault({IndexFault{}});
      IndexFault fault;
      step.in = in.data();
      step.other = other.data();
      step.out = want.data();
      step.fault = &fault;
      RunLocalStep(step);
      step.in = device_in.data();
      step.other = device_other.data();
      step.out = out.data();
      step.fault = device_fault.data();
      gpu::Require(device::RunLocalStep(step, nullptr), "RunLocalStep");
      gpu::Synchronize();
      EXPECT_TRUE(SameOutput(step, out.Values(), want)) << Describe(step);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
