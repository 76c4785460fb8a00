// The device runs every local step to the bits of its host twin.

#include "kernels/device/local_step.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/local_steps_testing.h"

namespace lockstep::kernels {
namespace {

TEST(DeviceLocalStepTest, GivesTheBitsOfItsHostTwin) {
  for (const size_t count : {0, 1, 37, 64}) {
    const size_t bytes = 16 * 3 * 64;
    for (LocalStep step : StepsOf(count)) {
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
      const gpu::Row<uint8_t> device_in(in), device_other(other), out(want);
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
      EXPECT_TRUE(SameBits(out.Values(), want)) << Describe(step);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
