// `./run demo --device cuda` without a GPU: fails at once with the reason.

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep {
namespace {

TEST(GpuDemoTest, SaysInOneLineWhyThereIsNoGpu) {
  // Hides the GPU of a machine that has one.
  Program demo({"/usr/bin/env", "CUDA_VISIBLE_DEVICES=",
                ProgramPath("lockstep-demo"), "--device", "cuda"});
  EXPECT_EQ(demo.ReadAll(), "");
  EXPECT_EQ(demo.Wait(), 77);
  const std::string said = demo.Errors();
  EXPECT_THAT(said, testing::HasSubstr("no GPU"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace lockstep
