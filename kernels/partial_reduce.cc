#include "kernels/partial_reduce.h"

#include <cstring>
#include <vector>

#include "kernels/cast_scale.h"
#include "kernels/dispatch.h"
#include "kernels/reduce.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

ReduceOp UnscaledOp(ReduceOp op) {
  return op == ReduceOp::kMean ? ReduceOp::kSum : op;
}

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// Reduces one tile of the partial result and of rows of halves into `acc`.
template <class T>
void ReduceHalves(const void* partial, std::span<const void* const> inputs,
                  size_t begin, size_t n, ReduceOp op, float* acc) {
  auto row = [&](size_t rank) {
    return static_cast<const T*>(inputs[rank]) + begin;
  };
  size_t next = 0;
  if (partial != nullptr) {
    std::memcpy(acc, static_cast<const float*>(partial) + begin,
                n * sizeof(float));
  } else {
    ConvertRow(row(next++), acc, n);
  }
  float wide[kTile];
  for (; next < inputs.size(); ++next) {
    ConvertRow(row(next), wide, n);
    ReduceRow(DType::kF32, UnscaledOp(op), wide, acc, n);
  }
}

// Types that need no widening: the partial result is one more row.
void ReduceRows(const void* partial, std::span<const void* const> inputs,
                void* out, size_t count, DType dtype, ReduceOp op) {
  if (partial == nullptr) {
    return ReduceRanks(inputs, out, count, dtype, UnscaledOp(op));
  }
  std::vector<const void*> rows = {partial};
  rows.insert(rows.end(), inputs.begin(), inputs.end());
  ReduceRanks(rows, out, count, dtype, UnscaledOp(op));
}

// 1 / divisor, rounded as `dtype` is computed.
double MeanFactor(DType dtype, int divisor) {
  if (dtype == DType::kF64) return 1.0 / divisor;
  return static_cast<double>(1.0f / static_cast<float>(divisor));
}

}  // namespace

DType PartialTypeOf(DType dtype) { return IsHalf(dtype) ? DType::kF32 : dtype; }

void ReduceToPartial(const void* partial, std::span<const void* const> inputs,
                     void* out, size_t count, DType dtype, ReduceOp op) {
  Check(!inputs.empty(), "a reduction of no ranks has no value");
  if (!IsHalf(dtype)) return ReduceRows(partial, inputs, out, count, dtype, op);
  WithHalf(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForTiles(count, [&](size_t begin, size_t n) {
      ReduceHalves<T>(partial, inputs, begin, n, op,
                      static_cast<float*>(out) + begin);
    });
  });
}

void ReduceFromPartial(const void* partial, std::span<const void* const> inputs,
                       void* out, size_t count, DType dtype, ReduceOp op,
                       int divisor) {
  Check(!inputs.empty(), "a reduction of no ranks has no value");
  Check(IsFloat(dtype) || op != ReduceOp::kMean, "integers have no mean");
  if (!IsHalf(dtype)) {
    ReduceRows(partial, inputs, out, count, dtype, op);
    if (op == ReduceOp::kMean)
      Scale(out, dtype, MeanFactor(dtype, divisor), count);
    return;
  }
  WithHalf(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ForTiles(count, [&](size_t begin, size_t n) {
      float acc[kTile];
      ReduceHalves<T>(partial, inputs, begin, n, op, acc);
      if (op == ReduceOp::kMean) {
        ScaleRow(acc, 1.0f / static_cast<float>(divisor), acc, n);
      }
      ConvertRow(acc, static_cast<T*>(out) + begin, n);
    });
  });
}

}  // namespace lockstep::kernels
