// A local step of a collective, as data: the copies, conversions and
// reductions of one rank between the transfers. One list of steps serves all
// kinds of memory: RunLocalStep runs a step on the host, and the function of
// the same name in kernels/device/local_step.h on a device, with the same bits.
//
//   kCopyBlocks     in -> out, as `copy`                  block_copy.h
//   kZero           out = 0, `count` bytes
//   kWiden          in (dtype) -> out (i32)               widen.h
//   kNarrow         in (i32) -> out (dtype)               widen.h
//   kDivideToF32    in (dtype) / number -> out (f32)      widen.h, divide.h
//   kDivide         in / number -> out                    divide.h
//   kReduceRows     out = op over `number` rows of in     reduce.h,
//                                                         reduce_any.h
//   kMarkExtremum   out (i32) = in equals other ?
//                   number : INT32_MAX                    arg_extremum.h
//   kFill           out (i32) = number
//   kGatherRows     out row r = in row other[r] (i32)     indexed_rows.h
//                   of `number`
//   kAddRows        out row other[r] (i32) of `number`    indexed_rows.h
//                   += in row r
//   kAdd            out += in, as in kAddRows
//   kStoreList      out (i64) = list
//   kPackSlices     in (tensor) -> out (packed)           slices.h
//   kUnpackSlices   in (packed) -> out (tensor)           slices.h
//   kZeroSlices     out (tensor) = 0                      slices.h
//
// Shapes:  `count` elements; of kGatherRows and kAddRows as many rows, of
//          `row` bytes or elements. Slices: sizes in `list`, offsets in `other`
//          (i64), `count` rows of `row` bytes in the tensor. `list` is memory
//          of the host, read in the call. No memory overlaps, but the out of
//          kDivide and kReduceRows may be (a row of) in, and the kernels named
//          above say more.
// Threads: any, concurrently on different outputs.
// Errors:  those of the kernels; an index that is no row: `*fault`.
// Run:     build/release/bin/kernels_test --gtest_filter='*LocalStep*'

#ifndef LOCKSTEP_KERNELS_LOCAL_STEP_H_
#define LOCKSTEP_KERNELS_LOCAL_STEP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/block_copy.h"
#include "kernels/indexed_rows.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

struct LocalStep {
  enum class Kind : uint8_t {
    kCopyBlocks,
    kZero,
    kWiden,
    kNarrow,
    kDivideToF32,
    kDivide,
    kReduceRows,
    kMarkExtremum,
    kFill,
    kGatherRows,
    kAddRows,
    kAdd,
    kStoreList,
    kPackSlices,
    kUnpackSlices,
    kZeroSlices,
  };
  Kind kind = Kind::kCopyBlocks;
  const void* in = nullptr;
  const void* other = nullptr;
  void* out = nullptr;
  size_t count = 0;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  BlockCopy copy;
  int number = 0;
  size_t row = 0;
  IndexFault* fault = nullptr;
  std::span<const int64_t> list;
};

// Whether steps of `kind` take `dtype`; those of bytes have u8, kFill i32,
// kStoreList i64.
constexpr bool Takes(LocalStep::Kind kind, DType dtype) {
  using Kind = LocalStep::Kind;
  const bool narrow = dtype == DType::kBool || dtype == DType::kU8 ||
                      dtype == DType::kI8 || dtype == DType::kU16 ||
                      dtype == DType::kI16;
  const bool complex = dtype == DType::kC64 || dtype == DType::kC128;
  const bool floating =
      IsFloat(dtype) || dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
  switch (kind) {
    case Kind::kWiden:
    case Kind::kNarrow: return narrow;
    case Kind::kDivideToF32:
      return !complex && (!floating || dtype == DType::kF32);
    case Kind::kDivide: return floating || complex;
    case Kind::kReduceRows: return true;
    case Kind::kMarkExtremum: return !complex;
    case Kind::kFill: return dtype == DType::kI32;
    case Kind::kAddRows:
    case Kind::kAdd: return dtype != DType::kBool;
    case Kind::kStoreList: return dtype == DType::kI64;
    case Kind::kCopyBlocks:
    case Kind::kZero:
    case Kind::kGatherRows:
    case Kind::kPackSlices:
    case Kind::kUnpackSlices:
    case Kind::kZeroSlices: break;
  }
  return dtype == DType::kU8;
}

void RunLocalStep(const LocalStep& step);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_LOCAL_STEP_H_
