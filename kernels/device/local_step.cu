#include "kernels/any_element.h"
#include "kernels/device/arg_extremum.h"
#include "kernels/device/block_copy.h"
#include "kernels/device/divide.h"
#include "kernels/device/elementwise.cuh"
#include "kernels/device/indexed_rows.h"
#include "kernels/device/local_step.h"
#include "kernels/device/reduce.h"
#include "kernels/device/reduce_any.h"
#include "kernels/device/row_copy.h"
#include "kernels/device/slices.h"
#include "kernels/device/widen.h"

namespace lockstep::kernels::device {
namespace {

struct Constant {
  int32_t value;
  __device__ int32_t operator()() const { return value; }
};

template <class T>
struct AddedTo {
  __device__ T operator()(T sum, T value) const {
    return FromWide<T>(Sum(ToWide(sum), ToWide(value)));
  }
};

Launched Add(const LocalStep& s, Stream stream) {
  Check(s.dtype != DType::kBool, "a bool has no sum");
  Launched launched = kLaunched;
  WithAnyType(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const out = static_cast<T*>(s.out);
    const T* const sum = out;
    launched = LaunchOnElements(AddedTo<T>(), s.count, stream, out, sum,
                                static_cast<const T*>(s.in));
  });
  return launched;
}

Launched Zero(void* out, size_t bytes, Stream stream) {
  const RowRange all[] = {{.in_row = 0, .out_row = 0, .rows = bytes}};
  return ZeroRows(all, out, 1, stream);
}

Launched DivideToF32(const LocalStep& s, Stream stream) {
  auto* const out = static_cast<float*>(s.out);
  const Launched converted = ConvertToF32(s.in, out, s.count, s.dtype, stream);
  if (converted != kLaunched) return converted;
  return Divide(out, out, s.count, DType::kF32, s.number, stream);
}

}  // namespace

Launched RunLocalStep(const LocalStep& s, Stream stream) {
  using Kind = LocalStep::Kind;
  auto* const i32 = static_cast<int32_t*>(s.out);
  const auto* const indices = static_cast<const int32_t*>(s.other);
  const auto* const offsets = static_cast<const int64_t*>(s.other);
  const auto number = static_cast<size_t>(s.number);
  switch (s.kind) {
    case Kind::kCopyBlocks: return CopyBlocks(s.copy, s.in, s.out, stream);
    case Kind::kZero: return Zero(s.out, s.count, stream);
    case Kind::kWiden: return WidenToI32(s.in, i32, s.count, s.dtype, stream);
    case Kind::kNarrow:
      return NarrowFromI32(static_cast<const int32_t*>(s.in), s.out, s.count,
                           s.dtype, stream);
    case Kind::kDivideToF32: return DivideToF32(s, stream);
    case Kind::kDivide:
      return Divide(s.in, s.out, s.count, s.dtype, s.number, stream);
    case Kind::kReduceRows:
      if (!IsTransportDType(s.dtype)) {
        return ReduceAnyRows(s.in, s.number, s.out, s.count, s.dtype, s.op,
                             stream);
      }
      return ReduceRows(s.in, s.number, s.out, s.count, s.dtype, s.op, stream);
    case Kind::kMarkExtremum:
      return MarkExtremum(s.in, s.other, i32, s.count, s.dtype, s.number,
                          stream);
    case Kind::kFill:
      return LaunchOnElements(Constant{s.number}, s.count, stream, i32);
    case Kind::kGatherRows:
      return GatherRows(s.in, number, indices, s.count, s.out, s.row, s.fault,
                        stream);
    case Kind::kAddRows:
      return AddRows(s.in, indices, s.count, s.out, number, s.row, s.dtype,
                     s.fault, stream);
    case Kind::kAdd: return Add(s, stream);
    case Kind::kStoreList:
      return StoreList(s.list, static_cast<int64_t*>(s.out), stream);
    case Kind::kPackSlices:
      return PackSlices(s.list, offsets, s.in, s.count, s.out, s.row, stream);
    case Kind::kUnpackSlices:
      return UnpackSlices(s.list, offsets, s.in, s.out, s.count, s.row, stream);
    case Kind::kZeroSlices:
      return ZeroSlices(s.list, offsets, s.out, s.count, s.row, stream);
  }
  return kLaunched;
}

}  // namespace lockstep::kernels::device
