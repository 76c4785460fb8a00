// The inner loops of the host kernels, over contiguous elements. They are
// compiled once per generation of CPU and chosen at run time (Highway).
//
// Internal to kernels/*.cc; other modules call the functions of pack.h,
// reduce.h and the other headers. Only reduce_rows.cc and sum_rows.cc compute
// on halves here; the others widen them first (tiles.h).
//
// Rows:    `n` elements, any n, aligned to their element. Source and
//          destination are the same address or do not overlap.
// Bits:    those of half.h and element.h, on every CPU.
// Work:    the calling thread, elements in order.
// Bytes:   per element: reads each source once, writes each destination once.

#ifndef LOCKSTEP_KERNELS_ROWS_H_
#define LOCKSTEP_KERNELS_ROWS_H_

#include <cstddef>
#include <span>

#include "kernels/half.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// convert_rows.cc: dst[i] = ConvertTo(src[i]).
void ConvertRow(const F16* src, float* dst, size_t n);
void ConvertRow(const BF16* src, float* dst, size_t n);
void ConvertRow(const float* src, F16* dst, size_t n);
void ConvertRow(const float* src, BF16* dst, size_t n);
void ConvertRow(const float* src, double* dst, size_t n);
void ConvertRow(const double* src, float* dst, size_t n);
// dst[i] = ToF32Odd(src[i]).
void ConvertRowOdd(const double* src, float* dst, size_t n);

// arithmetic_rows.cc: dst[i] = src[i] * factor.
void ScaleRow(const float* src, float factor, float* dst, size_t n);
void ScaleRow(const double* src, double factor, double* dst, size_t n);

// sum[i] = sum[i] + src[i] * weight.
void AddScaledRow(const float* src, float weight, float* sum, size_t n);
void AddScaledRow(const double* src, double weight, double* sum, size_t n);

// acc[i] = op(acc[i], src[i]): sum, min, max or prod of any type but the
// halves.
void ReduceRow(DType dtype, ReduceOp op, const void* src, void* acc, size_t n);

// out[i] = copy[i] = op(a[i], b[i]), in one pass, for the types and operations
// of ReduceRow. `out` and `copy` may be `a` or `b`.
void FoldToTwoRows(DType dtype, ReduceOp op, const void* a, const void* b,
                   void* out, void* copy, size_t n);

// reduce_rows.cc: each out[r][i] = in[0][i] op in[1][i] op ..., for a mean
// times 1 / divisor, in one pass. Takes any float type; halves are computed in
// f32 and rounded once. An `out` may be one of `in`.
void ReduceFloatRows(DType dtype, ReduceOp op, int divisor,
                     std::span<const void* const> in,
                     std::span<void* const> out, size_t n);

// The same for f32, with the number of rows as divisor; also AddSquaresRow of
// out[0] with scale 1.
void FoldF32RowsSquaring(ReduceOp op, std::span<const void* const> in,
                         std::span<void* const> out, size_t n, double* lanes);

// pair_rows.cc: each out[r][i] = (sum of in[..][i], in pairs) * factor, in one
// pass, for f32 or f64 and 1, 2, 4, ... rows. An `out` may be one of `in`.
void FoldPairedRows(DType dtype, std::span<const void* const> in,
                    std::span<void* const> out, size_t n, double factor);

// The same for f32; also AddSquaresRow of out[0] with scale 1.
void FoldPairedF32RowsSquaring(std::span<const void* const> in,
                               std::span<void* const> out, size_t n,
                               double factor, double* lanes);

// sum_rows.cc: sums of any dtype in the wide type of any_element.h, for at most
// kTile elements. wide[i] = src[i], exactly; a bool becomes 0 or 1.
void WidenRow(DType dtype, const void* src, void* wide, size_t n);
// wide[i] = wide[i] + src[i]; bools: or.
void AddWideRow(DType dtype, const void* src, void* wide, size_t n);
// dst[i] = round(wide[i]).
void RoundRow(DType dtype, const void* wide, void* dst, size_t n);

// square_rows.cc: lanes[i % kSumLanes] += (src[i] * scale)^2 in order of i, in
// f64 (sum_tree.h).
void AddSquaresRow(const float* src, double scale, double* lanes, size_t n);
void AddSquaresRow(const double* src, double scale, double* lanes, size_t n);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ROWS_H_
