// A local step of a collective, as data: the copies, conversions and
// reductions of one rank between the transfers. One list of steps serves all
// kinds of memory: RunLocalStep runs a step on the host, and the function of
// the same name in kernels/device/local_step.h on a device, with the same bits.
//
//   kind            effect                                            kernel
//   kCopyBlocks     in -> out, as `copy` block_copy.h kZero           `count`
//   bytes of out                              row_copy.h kWiden          in
//   (dtype) -> out (i32)                           widen.h kNarrow         in
//   (i32) -> out (dtype)                           widen.h kDivideToF32    in
//   (bool, integers, f32) / number -> out (f32)    widen.h, divide.h kDivide in
//   / number -> out                                divide.h kReduceRows     out
//   = op over `number` rows of in                 reduce.h, reduce_any.h
//   kMarkExtremum   out (i32) = in equals other ? number : INT32_MAX
//   arg_extremum.h kFill           out (i32) = number kGatherRows     out row r
//   = in row other[r] (i32), of `number`    indexed_rows.h kAddRows        out
//   row other[r] (i32), of `number`, += in row r  indexed_rows.h
//
// Shapes:  `count` elements; of kGatherRows and kAddRows as many rows, of
//          `row` bytes or elements. No memory overlaps, but the out of
//          kDivide and kReduceRows may be (a row of) in, and the kernels named
//          above say more.
// Threads: any, concurrently on different outputs.
// Errors:  those of the kernels; an index that is no row: `*fault`.
// Run:     build/release/bin/kernels_test --gtest_filter='*LocalStep*'

#ifndef LOCKSTEP_KERNELS_LOCAL_STEP_H_
#define LOCKSTEP_KERNELS_LOCAL_STEP_H_

#include <cstddef>
#include <cstdint>

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
};

// Whether steps of `kind` take `dtype`; those of bytes have u8, kFill i32.
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
    case Kind::kAddRows: return dtype != DType::kBool;
    case Kind::kCopyBlocks:
    case Kind::kZero:
    case Kind::kGatherRows: break;
  }
  return dtype == DType::kU8;
}

void RunLocalStep(const LocalStep& step);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_LOCAL_STEP_H_
