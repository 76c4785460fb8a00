// A local step is the kernel that its kind names.

#include "kernels/local_step.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/arg_extremum.h"
#include "kernels/divide.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"
#include "kernels/slices.h"
#include "kernels/widen.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/local_steps_testing.h"

namespace lockstep::kernels {
namespace {

using Kind = LocalStep::Kind;

constexpr size_t kStepElements = 37;
constexpr size_t kStepBytes = 16 * 3 * kStepElements;

// The memory of a step: random bytes.
struct StepMemory {
  explicit StepMemory(uint64_t seed) {
    Rng rng(seed);
    for (auto* bytes : {&in, &other, &out}) {
      *bytes = RandomRow<uint8_t>(rng, kStepBytes);
    }
  }
  std::vector<uint8_t> in, other, out;
  IndexFault fault;
};

// What the kernel of the step does, called with its own arguments.
void Call(const LocalStep& s, StepMemory& m) {
  const void* const in = m.in.data();
  void* const out = m.out.data();
  auto* const i32 = reinterpret_cast<int32_t*>(m.out.data());
  const auto* const indices = reinterpret_cast<const int32_t*>(m.other.data());
  const auto* const offsets = reinterpret_cast<const int64_t*>(m.other.data());
  const size_t row = s.count * SizeOf(s.dtype);
  switch (s.kind) {
    case Kind::kCopyBlocks: return CopyBlocks(s.copy, in, out);
    case Kind::kZero: std::fill_n(m.out.begin(), s.count, 0); return;
    case Kind::kWiden: return WidenToI32(in, i32, s.count, s.dtype);
    case Kind::kNarrow:
      return NarrowFromI32(reinterpret_cast<const int32_t*>(m.in.data()), out,
                           s.count, s.dtype);
    case Kind::kDivideToF32:
      ConvertToF32(in, reinterpret_cast<float*>(m.out.data()), s.count,
                   s.dtype);
      return Divide(out, out, s.count, DType::kF32, 3);
    case Kind::kDivide: return Divide(in, out, s.count, s.dtype, 3);
    case Kind::kReduceRows: {
      const std::vector<const void*> rows = {in, &m.in[row], &m.in[2 * row]};
      return IsTransportDType(s.dtype)
                 ? ReduceRanks(rows, out, s.count, s.dtype, s.op)
                 : ReduceAny(rows, out, s.count, s.dtype, s.op);
    }
    case Kind::kMarkExtremum:
      return MarkExtremum(in, m.other.data(), i32, s.count, s.dtype, 3);
    case Kind::kFill: std::fill_n(i32, s.count, 3); return;
    case Kind::kGatherRows:
      return GatherRows(in, 3, indices, s.count, out, 2, &m.fault);
    case Kind::kAddRows:
      return AddRows(in, indices, s.count, out, 3, 2, s.dtype, &m.fault);
    case Kind::kAdd: {
      const std::vector<const void*> both = {out, in};
      return IsTransportDType(s.dtype)
                 ? ReduceRanks(both, out, s.count, s.dtype, ReduceOp::kSum)
                 : ReduceAny(both, out, s.count, s.dtype, ReduceOp::kSum);
    }
    case Kind::kStoreList: {
      const auto list = SliceSizes();
      std::copy(list.begin(), list.end(), reinterpret_cast<int64_t*>(out));
      return;
    }
    case Kind::kPackSlices:
      return PackSlices(SliceSizes(), offsets, in, s.count, out, 2);
    case Kind::kUnpackSlices:
      return UnpackSlices(SliceSizes(), offsets, in, out, s.count, 2);
    case Kind::kZeroSlices:
      return ZeroSlices(SliceSizes(), offsets, out, s.count, 2);
  }
}

void SetOffsets(std::vector<uint8_t>* other) {
  for (size_t i = 0; i < SliceSizes().size(); ++i) {
    const auto offset = static_cast<int64_t>(i % 4) - 1;
    std::memcpy(&(*other)[8 * i], &offset, 8);
  }
}

TEST(LocalStepTest, IsTheKernelOfItsKind) {
  for (LocalStep step : StepsOf(kStepElements)) {
    StepMemory got(7), want(7);
    for (size_t i = 0; i < kStepElements;
         ++i) {  // rows 0, 1, 2, and -1, which is none
      const auto index = static_cast<int32_t>(i % 4) - 1;
      std::memcpy(&got.other[4 * i], &index, 4);
    }
    if (step.kind > Kind::kStoreList) SetOffsets(&got.other);
    want.other = got.other;
    step.in = got.in.data();
    step.other = got.other.data();
    step.out = got.out.data();
    step.fault = &got.fault;
    RunLocalStep(step);
    Call(step, want);
    EXPECT_TRUE(SameBits(got.out, want.out)) << Describe(step);
    EXPECT_FALSE(SameBits(got.out, StepMemory(7).out)) << Describe(step);
    EXPECT_EQ(got.fault.found, want.fault.found) << Describe(step);
  }
}

}  // namespace
}  // namespace lockstep::kernels
