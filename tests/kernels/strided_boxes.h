// Random strided boxes for the tests of host and device, and the definitions of
// their copies, fills and sums: element by element.

#ifndef LOCKSTEP_TESTS_KERNELS_STRIDED_BOXES_H_
#define LOCKSTEP_TESTS_KERNELS_STRIDED_BOXES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/reduce_any_ref.h"
#include "kernels/reduce_ref.h"
#include "kernels/strided_box.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {

using EveryType =
    testing::Types<uint8_t, int8_t, int32_t, uint32_t, int64_t, uint64_t, F16,
                   BF16, float, double, int16_t, uint16_t, Bool, Complex<float>,
                   Complex<double>, F8E4M3, F8E5M2>;

struct BoxShape {
  int dims_max = kBoxDimsMax;
  int64_t count_max = 5;       // of a dimension
  int64_t elements_max = 600;  // of a box; one dimension may have them all
  bool with_empty = true;
  bool with_sums = false;  // some strides of `out` are 0
};

// The lowest and highest element that strides reach, from the first one.
struct BoxReach {
  int64_t low = 0, high = 0;
};
inline BoxReach ReachOf(int dims, const int64_t* counts,
                        const int64_t* strides) {
  BoxReach reach;
  for (int d = 0; d < dims; ++d) {
    const int64_t far = (counts[d] - 1) * strides[d];
    (far < 0 ? reach.low : reach.high) += far;
  }
  return reach;
}

inline bool IsNothing(const StridedBox& box) {
  return std::any_of(box.counts, box.counts + box.dims,
                     [](int64_t count) { return count == 0; });
}

// Strides that write no element twice, in any order of the dimensions, with
// gaps; half of them are dense.
inline void DrawOutStrides(Rng& rng, const BoxShape& shape, StridedBox* box) {
  std::vector<int> order(static_cast<size_t>(box->dims));
  std::iota(order.begin(), order.end(), 0);
  if (rng() % 2 == 0) {
    std::shuffle(order.begin(), order.end(), rng);
  } else {
    std::reverse(order.begin(), order.end());
  }
  const bool dense = rng() % 2 == 0;
  int64_t stride = 1;
  for (const int d : order) {
    if (shape.with_sums && rng() % 3 == 0) continue;  // stays 0
    if (!dense) stride += static_cast<int64_t>(rng() % 3);
    box->out_strides[d] = rng() % 5 == 0 ? -stride : stride;
    stride *= std::max<int64_t>(box->counts[d], 1);
  }
}

// Dense, as those of `out`, or any, with 0 and negative ones.
inline void DrawInStrides(Rng& rng, StridedBox* box) {
  const uint64_t kind = rng() % 3;
  int64_t stride = 1;
  for (int d = box->dims - 1; d >= 0; --d) {
    const auto any = static_cast<int64_t>(rng() % 7) - 3;
    box->in_strides[d] = kind == 0   ? stride
                         : kind == 1 ? box->out_strides[d]
                                     : any;
    stride *= std::max<int64_t>(box->counts[d], 1);
  }
}

inline StridedBox DrawBox(Rng& rng, DType dtype, const BoxShape& shape) {
  StridedBox box = {.dtype = dtype};
  box.dims = static_cast<int>(rng() % (shape.dims_max + 1));
  int64_t elements = 1;
  for (int d = 0; d < box.dims; ++d) {
    const int64_t rest = shape.elements_max / elements;
    const int64_t most =
        rng() % 4 == 0 ? rest : std::min(rest, shape.count_max);
    box.counts[d] = 1 + static_cast<int64_t>(rng() % most);
    elements *= box.counts[d];
    if (shape.with_empty && rng() % 40 == 0) box.counts[d] = 0;
  }
  DrawOutStrides(rng, shape, &box);
  DrawInStrides(rng, &box);
  return box;
}

// Boxes of one type with memory for them: one of `in` and two of `out`, in
// which the boxes are one after the other.
template <class T>
struct BoxCase {
  std::vector<StridedBox> boxes;
  std::vector<T> in;
  std::vector<T> out[2];
};

template <class T>
BoxCase<T> DrawBoxes(Rng& rng, size_t count, const BoxShape& shape) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  BoxCase<T> made;
  int64_t in_size = 1;
  int64_t out_size[2] = {};
  for (size_t i = 0; i < count; ++i) {
    StridedBox box = DrawBox(rng, DTypeOf<T>(), shape);
    const BoxReach in = ReachOf(box.dims, box.counts, box.in_strides);
    const BoxReach out = ReachOf(box.dims, box.counts, box.out_strides);
    const auto skipped = static_cast<int64_t>(rng() % 4);
    box.out_memory = static_cast<int>(rng() % 2);
    if (!IsNothing(box)) {
      box.in_offset = (skipped - in.low) * kBytes;
      in_size = std::max(in_size, skipped - in.low + in.high + 1);
      int64_t& size = out_size[box.out_memory];
      box.out_offset = (size + skipped - out.low) * kBytes;
      size += skipped - out.low + out.high + 1;
    }
    made.boxes.push_back(box);
  }
  made.in = RandomRow<T>(rng, static_cast<size_t>(in_size));
  for (int m = 0; m < 2; ++m) {
    made.out[m] = RandomRow<T>(rng, static_cast<size_t>(out_size[m]) + 3);
  }
  return made;
}

// Calls f(in, out), the elements from the first one, in row-major order.
template <class F>
void ForElementsRef(const StridedBox& box, F f) {
  int64_t elements = 1;
  for (int d = 0; d < box.dims; ++d) elements *= box.counts[d];
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i, in = 0, out = 0;
    for (int d = box.dims - 1; d >= 0; --d) {
      in += rest % box.counts[d] * box.in_strides[d];
      out += rest % box.counts[d] * box.out_strides[d];
      rest /= box.counts[d];
    }
    f(in, out);
  }
}

template <class T>
void CopyBoxesRef(BoxCase<T>* c) {
  for (const StridedBox& box : c->boxes) {
    const T* const in = c->in.data() + box.in_offset / int64_t{sizeof(T)};
    T* const out =
        c->out[box.out_memory].data() + box.out_offset / int64_t{sizeof(T)};
    ForElementsRef(box, [&](int64_t i, int64_t o) { out[o] = in[i]; });
  }
}

template <class T>
T SumColumnRef(const std::vector<T>& column) {
  if constexpr (std::is_same_v<T, Bool>) {
    return ReduceAnyRef<T>(ReduceOp::kMax, column);
  } else if constexpr (!IsTransportDType(DTypeOf<T>())) {
    return ReduceAnyRef<T>(ReduceOp::kSum, column);
  } else {
    std::vector<const T*> rows;
    for (const T& value : column) rows.push_back(&value);
    T sum;
    ReduceRanksRef<T>(rows, &sum, 1, ReduceOp::kSum);
    return sum;
  }
}

template <class T>
void SumBoxesRef(BoxCase<T>* c, bool add) {
  for (const StridedBox& box : c->boxes) {
    const T* const in = c->in.data() + box.in_offset / int64_t{sizeof(T)};
    T* const out =
        c->out[box.out_memory].data() + box.out_offset / int64_t{sizeof(T)};
    std::map<int64_t, std::vector<T>> columns;
    ForElementsRef(box, [&](int64_t i, int64_t o) {
      std::vector<T>& column = columns[o];
      if (column.empty() && add) column.push_back(out[o]);
      column.push_back(in[i]);
    });
    for (const auto& [o, column] : columns) out[o] = SumColumnRef(column);
  }
}

// The boxes of a case as fills, each with a value of its own.
template <class T>
std::vector<BoxFill> FillsOf(const BoxCase<T>& c, Rng& rng) {
  std::vector<BoxFill> fills;
  for (const StridedBox& box : c.boxes) {
    BoxFill fill = {.dtype = box.dtype,
                    .out_memory = box.out_memory,
                    .dims = box.dims,
                    .out_offset = box.out_offset};
    std::copy_n(box.counts, kBoxDimsMax, fill.counts);
    std::copy_n(box.out_strides, kBoxDimsMax, fill.out_strides);
    const T value = rng() % 3 == 0 ? T{} : RandomValue<T>(rng);
    std::memcpy(fill.value, &value, sizeof value);
    fills.push_back(fill);
  }
  return fills;
}

template <class T>
void FillBoxesRef(const std::vector<BoxFill>& fills, BoxCase<T>* c) {
  for (size_t i = 0; i < fills.size(); ++i) {
    const StridedBox& box = c->boxes[i];
    T* const out =
        c->out[box.out_memory].data() + box.out_offset / int64_t{sizeof(T)};
    T value;
    std::memcpy(&value, fills[i].value, sizeof value);
    ForElementsRef(box, [&](int64_t, int64_t o) { out[o] = value; });
  }
}

inline std::string Describe(const std::vector<StridedBox>& boxes) {
  std::ostringstream text;
  for (const StridedBox& box : boxes) {
    text << "\n  " << Name(box.dtype) << " at " << box.in_offset << " and "
         << box.out_memory << ":" << box.out_offset;
    for (int d = 0; d < box.dims; ++d) {
      text << " [" << box.counts[d] << " " << box.in_strides[d] << " "
           << box.out_strides[d] << "]";
    }
  }
  return text.str();
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_STRIDED_BOXES_H_
