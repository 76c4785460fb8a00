#include "kernels/local_step.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/arg_extremum.h"
#include "kernels/divide.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"
#include "kernels/widen.h"

namespace lockstep::kernels {
namespace {

void ReduceAnyRows(const LocalStep& s) {
  std::vector<const void*> rows;
  for (int row = 0; row < s.number; ++row) {
    rows.push_back(static_cast<const std::byte*>(s.in) +
                   static_cast<size_t>(row) * s.count * SizeOf(s.dtype));
  }
  ReduceAny(rows, s.out, s.count, s.dtype, s.op);
}

}  // namespace

void RunLocalStep(const LocalStep& s) {
  using Kind = LocalStep::Kind;
  auto* const i32 = static_cast<int32_t*>(s.out);
  const auto* const indices = static_cast<const int32_t*>(s.other);
  const auto number = static_cast<size_t>(s.number);
  switch (s.kind) {
    case Kind::kCopyBlocks: return CopyBlocks(s.copy, s.in, s.out);
    case Kind::kZero:
      if (s.count > 0) std::memset(s.out, 0, s.count);
      return;
    case Kind::kWiden: return WidenToI32(s.in, i32, s.count, s.dtype);
    case Kind::kNarrow:
      return NarrowFromI32(static_cast<const int32_t*>(s.in), s.out, s.count,
                           s.dtype);
    case Kind::kDivideToF32:
      ConvertToF32(s.in, static_cast<float*>(s.out), s.count, s.dtype);
      return Divide(s.out, s.out, s.count, DType::kF32, s.number);
    case Kind::kDivide: return Divide(s.in, s.out, s.count, s.dtype, s.number);
    case Kind::kReduceRows:
      if (!IsTransportDType(s.dtype)) return ReduceAnyRows(s);
      return ReduceRows(s.in, s.number, s.out, s.count, s.dtype, s.op);
    case Kind::kMarkExtremum:
      return MarkExtremum(s.in, s.other, i32, s.count, s.dtype, s.number);
    case Kind::kFill: std::fill_n(i32, s.count, s.number); return;
    case Kind::kGatherRows:
      return GatherRows(s.in, number, indices, s.count, s.out, s.row, s.fault);
    case Kind::kAddRows:
      return AddRows(s.in, indices, s.count, s.out, number, s.row, s.dtype,
                     s.fault);
  }
}

}  // namespace lockstep::kernels
