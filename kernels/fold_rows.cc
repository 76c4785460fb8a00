#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/reduce_ref.h"
#include "kernels/rows.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/fold_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The operations of element.h on vectors.
struct AddTo {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct MultiplyBy {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
struct Least {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
};
struct Greatest {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
};

template <class T>
struct FloatRows {
  std::span<const void* const> in;
  std::span<void* const> out;

  HWY_INLINE const T* From(size_t row) const {
    return static_cast<const T*>(in[row]);
  }
  HWY_INLINE T* To(size_t row) const { return static_cast<T*>(out[row]); }
};

// A block of four vectors stays in registers while all rows are folded into it,
// and is written to all: a row is touched once for reading and once for
// writing, while it is in the first cache.
template <class T, class Op>
size_t FoldBlocks(const FloatRows<T>& rows, size_t n, const T* share, Op op) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t block = 4 * lanes;
  size_t at = 0;
  for (; at + block <= n; at += block) {
    const T* const first = rows.From(0) + at;
    auto a = hn::LoadU(d, first);
    auto b = hn::LoadU(d, first + lanes);
    auto c = hn::LoadU(d, first + 2 * lanes);
    auto e = hn::LoadU(d, first + 3 * lanes);
    for (size_t row = 1; row < rows.in.size(); ++row) {
      const T* const next = rows.From(row) + at;
      a = op(a, hn::LoadU(d, next));
      b = op(b, hn::LoadU(d, next + lanes));
      c = op(c, hn::LoadU(d, next + 2 * lanes));
      e = op(e, hn::LoadU(d, next + 3 * lanes));
    }
    if (share != nullptr) {
      const auto factor = hn::Set(d, *share);
      a = hn::Mul(a, factor);
      b = hn::Mul(b, factor);
      c = hn::Mul(c, factor);
      e = hn::Mul(e, factor);
    }
    for (size_t row = 0; row < rows.out.size(); ++row) {
      T* const to = rows.To(row) + at;
      hn::StoreU(a, d, to);
      hn::StoreU(b, d, to + lanes);
      hn::StoreU(c, d, to + 2 * lanes);
      hn::StoreU(e, d, to + 3 * lanes);
    }
  }
  return at;
}

template <class T>
size_t FoldWhatFillsBlocks(const FloatRows<T>& rows, size_t n, ReduceOp op) {
  const T share = T{1} / static_cast<T>(rows.in.size());
  switch (op) {
    case ReduceOp::kSum: return FoldBlocks<T>(rows, n, nullptr, AddTo());
    case ReduceOp::kMean: return FoldBlocks<T>(rows, n, &share, AddTo());
    case ReduceOp::kProd: return FoldBlocks<T>(rows, n, nullptr, MultiplyBy());
    case ReduceOp::kMin: return FoldBlocks<T>(rows, n, nullptr, Least());
    case ReduceOp::kMax: return FoldBlocks<T>(rows, n, nullptr, Greatest());
  }
  Fatal("no such ReduceOp");
}

template <class T>
void FoldTypedRows(const FloatRows<T>& rows, size_t n, ReduceOp op) {
  const size_t begin = FoldWhatFillsBlocks(rows, n, op);
  const T share = T{1} / static_cast<T>(rows.in.size());
  for (size_t i = begin; i < n; ++i) {
    T value = rows.From(0)[i];
    for (size_t row = 1; row < rows.in.size(); ++row) {
      value = FoldRef(op, value, rows.From(row)[i]);
    }
    if (op == ReduceOp::kMean) value = Product(value, share);
    for (size_t row = 0; row < rows.out.size(); ++row) rows.To(row)[i] = value;
  }
}

void FoldFloats(DType dtype, ReduceOp op, std::span<const void* const> in,
                std::span<void* const> out, size_t n) {
  if (dtype == DType::kF32) {
    FoldTypedRows<float>({in, out}, n, op);
  } else {
    Check(dtype == DType::kF64, "rows are folded at once in f32 and f64");
    FoldTypedRows<double>({in, out}, n, op);
  }
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(FoldFloats);

void FoldFloatRows(DType dtype, ReduceOp op, std::span<const void* const> in,
                   std::span<void* const> out, size_t n) {
  HWY_DYNAMIC_DISPATCH(FoldFloats)(dtype, op, in, out, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
