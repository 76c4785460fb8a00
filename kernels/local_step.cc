#include "kernels/local_step.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/arg_extremum.h"
#include "kernels/divide.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"
#include "kernels/slices.h"
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

void Add(const LocalStep& s) {
  Check(s.dtype != DType::kBool, "a bool has no sum");
  const void* const both[] = {s.out, s.in};
  if (IsTransportDType(s.dtype)) {
    ReduceRanks(both, s.out, s.count, s.dtype, ReduceOp::kSum);
  } else {
    ReduceAny(both, s.out, s.count, s.dtype, ReduceOp::kSum);
  }
}

}  // namespace

void RunLocalStep(const LocalStep& s) {
  using Kind = LocalStep::Kind;
  auto* const i32 = static_cast<int32_t*>(s.out);
  const auto* const indices = static_cast<const int32_t*>(s.other);
  const auto* const offsets = static_cast<const int64_t*>(s.other);
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
    case Kind::kAdd: return Add(s);
    case Kind::kStoreList:
      std::copy(s.list.begin(), s.list.end(), static_cast<int64_t*>(s.out));
      return;
    case Kind::kPackSlices:
      return PackSlices(s.list, offsets, s.in, s.count, s.out, s.row);
    case Kind::kUnpackSlices:
      return UnpackSlices(s.list, offsets, s.in, s.out, s.count, s.row);
    case Kind::kZeroSlices:
      return ZeroSlices(s.list, offsets, s.out, s.count, s.row);
  }
}

}  // namespace lockstep::kernels
