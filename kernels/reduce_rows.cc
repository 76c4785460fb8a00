#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/reduce_ref.h"
#include "kernels/rows.h"
#include "kernels/sum_tree.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/squares-inl.h"

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

// Loads elements of a type as vectors of its Compute type, and stores them.
// `kWhole`: whether this CPU supports it; if not, FoldRest does all elements.
template <class T>
struct Lanes {
  static constexpr bool kWhole = true;
  using D = hn::ScalableTag<T>;
  static HWY_INLINE hn::Vec<D> Load(const T* from) {
    return hn::LoadU(D(), from);
  }
  static HWY_INLINE hn::Vec<D> Narrow(hn::Vec<D> value) { return value; }
  static HWY_INLINE void Store(hn::Vec<D> value, T* to) {
    hn::StoreU(value, D(), to);
  }
};

// As half.h's ToF32 and ToBF16; a NaN becomes quiet in Narrow only.
template <>
struct Lanes<BF16> {
  static constexpr bool kWhole = true;
  using D = hn::ScalableTag<float>;
  using Words = hn::RebindToUnsigned<D>;
  using Halves = hn::Rebind<uint16_t, D>;

  static HWY_INLINE hn::Vec<D> Load(const BF16* from) {
    const auto half =
        hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(from));
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(Words(), half));
    return hn::BitCast(D(), bits);
  }
  static HWY_INLINE hn::Vec<Halves> Narrow(hn::Vec<D> value) {
    const Words words;
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
    const auto rounded = hn::Add(bits, hn::Add(hn::Set(words, 0x7fffu), odd));
    // Rounding up could turn the bits of a NaN into another value.
    const auto quiet = hn::Or(bits, hn::Set(words, 0x00400000u));
    const auto kept =
        hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, rounded);
    const auto high = hn::ShiftRight<16>(kept);
    return hn::DemoteTo(Halves(), hn::BitCast(hn::RebindToSigned<D>(), high));
  }
  static HWY_INLINE void Store(hn::Vec<Halves> value, BF16* to) {
    hn::StoreU(value, Halves(), reinterpret_cast<uint16_t*>(to));
  }
};

template <>
struct Lanes<F16> {
  using D = hn::ScalableTag<float>;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  static constexpr bool kWhole = true;
  using Halves = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE hn::Vec<D> Load(const F16* from) {
    return hn::PromoteTo(
        D(),
        hn::LoadU(Halves(), reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE hn::Vec<Halves> Narrow(hn::Vec<D> value) {
    return hn::DemoteTo(Halves(), value);
  }
  static HWY_INLINE void Store(hn::Vec<Halves> value, F16* to) {
    hn::StoreU(value, Halves(), reinterpret_cast<hwy::float16_t*>(to));
  }
#else
  static constexpr bool kWhole = false;
#endif
};

template <class T>
struct TypedRows {
  std::span<const void* const> in;
  std::span<void* const> out;

  HWY_INLINE const T* From(size_t row) const {
    return static_cast<const T*>(in[row]);
  }
  HWY_INLINE T* To(size_t row) const { return static_cast<T*>(out[row]); }
};

// A block of four vectors stays in registers while all rows are reduced into
// it, and is then written to all outputs: each row is read and written once,
// while it is in the L1 cache. `kIn` and `kOut`: the numbers of rows; 0: any
// number. For two of each, the most common case, the loops over rows are
// unrolled.
template <size_t kIn, size_t kOut, class T, class Op, class Also>
HWY_INLINE size_t FoldBlocks(const TypedRows<T>& rows, size_t n,
                             const Compute<T>* share, Op op, Also& also) {
  using L = Lanes<T>;
  const typename L::D d;
  const size_t lanes = hn::Lanes(d);
  const size_t block = 4 * lanes;
  const size_t in = kIn > 0 ? kIn : rows.in.size();
  const size_t out = kOut > 0 ? kOut : rows.out.size();
  const auto factor = hn::Set(d, share != nullptr ? *share : Compute<T>{1});
  size_t at = 0;
  for (; at + block <= n; at += block) {
    const T* const first = rows.From(0) + at;
    auto v0 = L::Load(first);
    auto v1 = L::Load(first + lanes);
    auto v2 = L::Load(first + 2 * lanes);
    auto v3 = L::Load(first + 3 * lanes);
    for (size_t row = 1; row < in; ++row) {
      const T* const next = rows.From(row) + at;
      v0 = op(v0, L::Load(next));
      v1 = op(v1, L::Load(next + lanes));
      v2 = op(v2, L::Load(next + 2 * lanes));
      v3 = op(v3, L::Load(next + 3 * lanes));
    }
    if (share != nullptr) {
      v0 = hn::Mul(v0, factor);
      v1 = hn::Mul(v1, factor);
      v2 = hn::Mul(v2, factor);
      v3 = hn::Mul(v3, factor);
    }
    const auto h0 = L::Narrow(v0), h1 = L::Narrow(v1), h2 = L::Narrow(v2),
               h3 = L::Narrow(v3);
    for (size_t row = 0; row < out; ++row) {
      T* const to = rows.To(row) + at;
      L::Store(h0, to);
      L::Store(h1, to + lanes);
      L::Store(h2, to + 2 * lanes);
      L::Store(h3, to + 3 * lanes);
    }
    also.template Add<0>(h0);
    also.template Add<1>(h1);
    also.template Add<2>(h2);
    also.template Add<3>(h3);
  }
  return at;
}

template <class T, class Op, class Also>
size_t FoldByCount(const TypedRows<T>& rows, size_t n, const Compute<T>* share,
                   Op op, Also& also) {
  if (rows.in.size() == 2 && rows.out.size() == 2) {
    return FoldBlocks<2, 2>(rows, n, share, op, also);
  }
  return FoldBlocks<0, 0>(rows, n, share, op, also);
}

template <class T, class Also>
size_t FoldWhatFillsBlocks(const TypedRows<T>& rows, size_t n, ReduceOp op,
                           Compute<T> share, Also& also) {
  switch (op) {
    case ReduceOp::kSum: return FoldByCount(rows, n, nullptr, AddTo(), also);
    case ReduceOp::kMean: return FoldByCount(rows, n, &share, AddTo(), also);
    case ReduceOp::kProd:
      return FoldByCount(rows, n, nullptr, MultiplyBy(), also);
    case ReduceOp::kMin: return FoldByCount(rows, n, nullptr, Least(), also);
    case ReduceOp::kMax: return FoldByCount(rows, n, nullptr, Greatest(), also);
  }
  Fatal("no such ReduceOp");
}

// The factor that turns a sum into a mean.
template <class T>
Compute<T> ShareOf(int divisor) {
  return Compute<T>{1} / static_cast<Compute<T>>(divisor);
}

// The elements from `begin` on, one at a time.
template <class T>
void FoldRest(const TypedRows<T>& rows, size_t begin, size_t n, ReduceOp op,
              Compute<T> share) {
  using C = Compute<T>;
  for (size_t i = begin; i < n; ++i) {
    C value = ConvertTo<C>(rows.From(0)[i]);
    for (size_t row = 1; row < rows.in.size(); ++row) {
      value = FoldRef(op, value, ConvertTo<C>(rows.From(row)[i]));
    }
    if (op == ReduceOp::kMean) value = Product(value, share);
    for (size_t row = 0; row < rows.out.size(); ++row) {
      rows.To(row)[i] = ConvertTo<T>(value);
    }
  }
}

template <class T>
void FoldTypedRows(const TypedRows<T>& rows, size_t n, ReduceOp op,
                   int divisor) {
  const Compute<T> share = ShareOf<T>(divisor);
  size_t begin = 0;
  if constexpr (Lanes<T>::kWhole) {
    NoSquares none;
    begin = FoldWhatFillsBlocks(rows, n, op, share, none);
  }
  FoldRest(rows, begin, n, op, share);
}

void FoldFloats(DType dtype, ReduceOp op, int divisor,
                std::span<const void* const> in, std::span<void* const> out,
                size_t n) {
  WithFloat(dtype, [&](auto tag) {
    FoldTypedRows<typename decltype(tag)::type>({in, out}, n, op, divisor);
  });
}

#if LOCKSTEP_SQUARES_IN_REGISTERS
void FoldF32Squaring(ReduceOp op, std::span<const void* const> in,
                     std::span<void* const> out, size_t n, double* lanes) {
  const TypedRows<float> rows{in, out};
  Squares squares(lanes);
  const float share = ShareOf<float>(static_cast<int>(in.size()));
  const size_t rest = FoldWhatFillsBlocks(rows, n, op, share, squares);
  squares.Store(lanes);
  FoldRest(rows, rest, n, op, share);
  AddSquaresRow(rows.To(0) + rest, 1.0, lanes, n - rest);
}
#else
// In two passes: the row is still in the L1 cache.
void FoldF32Squaring(ReduceOp op, std::span<const void* const> in,
                     std::span<void* const> out, size_t n, double* lanes) {
  const TypedRows<float> rows{in, out};
  FoldTypedRows(rows, n, op, static_cast<int>(in.size()));
  AddSquaresRow(rows.To(0), 1.0, lanes, n);
}
#endif

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(FoldFloats);
HWY_EXPORT(FoldF32Squaring);

void ReduceFloatRows(DType dtype, ReduceOp op, int divisor,
                     std::span<const void* const> in,
                     std::span<void* const> out, size_t n) {
  HWY_DYNAMIC_DISPATCH(FoldFloats)(dtype, op, divisor, in, out, n);
}

void FoldF32RowsSquaring(ReduceOp op, std::span<const void* const> in,
                         std::span<void* const> out, size_t n, double* lanes) {
  HWY_DYNAMIC_DISPATCH(FoldF32Squaring)(op, in, out, n, lanes);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
