// Makes ctest skip the tests where there is no GPU.

#include <cstdio>

#include "gtest/gtest.h"
#include "tests/gpu/device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string why = lockstep::gpu::WhyNoGpu();
  if (!why.empty() && !testing::GTEST_FLAG(list_tests)) {
    std::printf("skipped: %s\n", why.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
