#include "client/halo/pass_memory.h"

#include <array>
#include <cstddef>
#include <string>

#include "gtest/gtest.h"

namespace lockstep::halo {
namespace {

// Two tensors of 8 padded bytes and blocks of 4.
class PassMemoryTest : public testing::Test {
 protected:
  std::string FaultOf(const Pointers& padded, const Pointers& blocks,
                      const PassRules& rules = {}) const {
    return std::string(
        CheckMemory({padded, blocks}, {{8, 8}, {4, 4}}, rules, "h").message());
  }
  void* At(size_t offset) { return &memory_[offset]; }

 private:
  std::array<std::byte, 64> memory_ = {};
};

TEST_F(PassMemoryTest, TakesMemoryThatLiesSideBySide) {
  EXPECT_EQ(FaultOf({At(0), At(8)}, {At(16), At(20)}), "");
  EXPECT_EQ(FaultOf({At(16), At(0)}, {At(24), At(12)}), "");
  EXPECT_EQ(FaultOf({At(0), At(8)}, {nullptr, nullptr}), "");
  // Blocks that are only read.
  EXPECT_EQ(FaultOf({At(0), At(8)}, {At(16), At(16)}), "");
}

TEST_F(PassMemoryTest, APaddedTensorOverlapsNothing) {
  EXPECT_EQ(FaultOf({At(0), At(7)}, {At(16), At(20)}),
            "h: padded tensors 0 and 1 overlap");
  EXPECT_EQ(FaultOf({At(0), At(0)}, {nullptr, nullptr}),
            "h: padded tensors 0 and 1 overlap");
  EXPECT_EQ(
      FaultOf({At(0), At(8)}, {At(20), At(15)}),
      "h: padded tensor 1 and block 1 overlap: in place, blocks are null");
  EXPECT_EQ(
      FaultOf({At(4), At(20)}, {At(40), At(1)}),
      "h: padded tensor 0 and block 1 overlap: in place, blocks are null");
}

TEST_F(PassMemoryTest, BlocksThatAreWrittenOverlapNothing) {
  const PassRules rules = {.writes_blocks = true};
  EXPECT_EQ(FaultOf({At(0), At(8)}, {At(16), At(19)}, rules),
            "h: blocks 0 and 1 overlap");
  EXPECT_EQ(FaultOf({At(0), At(8)}, {At(16), At(20)}, rules), "");
  EXPECT_EQ(FaultOf({At(0), At(8)}, {nullptr, nullptr}, rules), "");
}

TEST_F(PassMemoryTest, NamesNullAndMissingMemory) {
  EXPECT_EQ(FaultOf({At(0)}, {At(8)}),
            "h: 1 padded tensors and 1 blocks are given, it has 2");
  EXPECT_EQ(FaultOf({At(0), nullptr}, {At(16), At(20)}),
            "h: padded tensor 1 is null");
  EXPECT_EQ(FaultOf({At(0), At(8)}, {nullptr, At(20)}),
            "h: 1 of 2 blocks are null: in place all are, else none");
  EXPECT_EQ(
      FaultOf({At(0), At(8)}, {nullptr, nullptr}, {.may_be_in_place = false}),
      "h: 2 of 2 blocks are null");
}

}  // namespace
}  // namespace lockstep::halo
