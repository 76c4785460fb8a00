#include "kernels/strided_box.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/box_plane.h"
#include "kernels/rows.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

// --- dimensions -------------------------------------------------------------

struct BoxDim {
  int64_t count;
  int64_t in;  // strides, in elements
  int64_t out;
};

struct BoxDims {
  BoxDim items[kBoxDimsMax];
  int size = 0;

  BoxDim* begin() { return items; }
  BoxDim* end() { return items + size; }
  void Add(const BoxDim& dim) { items[size++] = dim; }
};

// The inner dimension goes on where a step of the outer one leads.
bool AreContiguous(const BoxDim& outer, const BoxDim& inner) {
  return outer.in == inner.count * inner.in &&
         outer.out == inner.count * inner.out;
}

BoxDims Merged(BoxDims dims) {
  BoxDims merged;
  for (const BoxDim& dim : dims) {
    BoxDim* const last = merged.end() - 1;
    if (merged.size > 0 && AreContiguous(*last, dim)) {
      *last = {last->count * dim.count, dim.in, dim.out};
    } else {
      merged.Add(dim);
    }
  }
  return merged;
}

// Only neighbours that are in this order can be contiguous on both sides. The
// summed dimensions keep their order, which is the order of the summation.
void Sort(BoxDims* dims) {
  std::stable_sort(
      dims->begin(), dims->end(),
      [](const BoxDim& a, const BoxDim& b) { return a.out > b.out; });
}

void SetDims(const BoxDims& dims, StridedBox* box) {
  box->dims = dims.size;
  for (int d = 0; d < kBoxDimsMax; ++d) {
    const BoxDim dim = d < dims.size ? dims.items[d] : BoxDim{};
    box->counts[d] = dim.count;
    box->in_strides[d] = dim.in;
    box->out_strides[d] = dim.out;
  }
}

// Calls f(in, out), both in bytes from the first element, for each index of the
// dimensions [first, end), in row-major order.
template <class F>
void ForIndices(const StridedBox& box, int first, int end, F f) {
  const auto size = static_cast<int64_t>(SizeOf(box.dtype));
  int64_t index[kBoxDimsMax] = {};
  int64_t in = 0, out = 0;
  for (int d = first; d >= first;) {
    f(in * size, out * size);
    for (d = end - 1; d >= first; --d) {
      in += box.in_strides[d];
      out += box.out_strides[d];
      if (++index[d] < box.counts[d]) break;
      index[d] = 0;
      in -= box.counts[d] * box.in_strides[d];
      out -= box.counts[d] * box.out_strides[d];
    }
  }
}

// The innermost two of the first `dims` dimensions.
BoxPlane PlaneOf(const StridedBox& box, int dims) {
  const auto size = static_cast<int64_t>(SizeOf(box.dtype));
  BoxPlane plane{.element = size};
  if (dims >= 1) {
    plane.columns = box.counts[dims - 1];
    plane.in_column = box.in_strides[dims - 1] * size;
    plane.out_column = box.out_strides[dims - 1] * size;
  }
  if (dims >= 2) {
    plane.rows = box.counts[dims - 2];
    plane.in_row = box.in_strides[dims - 2] * size;
    plane.out_row = box.out_strides[dims - 2] * size;
  }
  return plane;
}

// Calls f(in, out) for the first element of each plane of the first `dims`
// dimensions.
template <class F>
void ForPlanes(const StridedBox& box, int dims, F f) {
  ForIndices(box, 0, std::max(dims - 2, 0), f);
}

// --- memory -----------------------------------------------------------------

const std::byte* InOf(const StridedBox& box, std::span<const void* const> in) {
  return static_cast<const std::byte*>(MemoryOf(in, box.in_memory)) +
         box.in_offset;
}

std::byte* OutOf(const StridedBox& box, std::span<void* const> out) {
  return static_cast<std::byte*>(MemoryOf(out, box.out_memory)) +
         box.out_offset;
}

// --- sums -------------------------------------------------------------------

bool IsWidened(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2 ||
         dtype == DType::kBool;
}

// A tile of a plane whose elements are summed in wide arithmetic in the cache,
// or in `out` itself where that is contiguous and of the wide type.
class TileSum {
 public:
  explicit TileSum(const StridedBox& box) : box_(box), kept_(KeptDims(box)) {}

  void Run(const BoxPlane& tile, const std::byte* in, std::byte* out,
           bool add) {
    const auto n = static_cast<size_t>(tile.count());
    const bool in_place = tile.is_dense_out() && !IsWidened(box_.dtype);
    std::byte* const sum = in_place ? out : wide_;
    bool is_first = !add;
    if (add && !in_place) {
      WidenRow(box_.dtype, Dense(OutSide(tile), out), sum, n);
    }
    ForIndices(box_, kept_, box_.dims, [&](int64_t at, int64_t) {
      const std::byte* const row = Dense(tile, in + at);
      if (is_first) {
        WidenRow(box_.dtype, row, sum, n);
      } else {
        AddWideRow(box_.dtype, row, sum, n);
      }
      is_first = false;
    });
    if (!in_place) Store(tile, n, out);
  }

 private:
  // The plane's input side is the output of `tile`.
  static BoxPlane OutSide(BoxPlane tile) {
    tile.in_row = tile.out_row;
    tile.in_column = tile.out_column;
    return tile;
  }

  // The elements of the tile's input side without gaps.
  const std::byte* Dense(BoxPlane tile, const std::byte* in) {
    if (tile.is_dense_in()) return in;
    tile.out_column = tile.element;
    tile.out_row = tile.row_bytes();
    CopyPlane(tile, in, row_);
    return row_;
  }

  void Store(BoxPlane tile, size_t n, std::byte* out) {
    if (tile.is_dense_out()) return RoundRow(box_.dtype, wide_, out, n);
    RoundRow(box_.dtype, wide_, row_, n);
    tile.in_column = tile.element;
    tile.in_row = tile.row_bytes();
    CopyPlane(tile, row_, out);
  }

  static constexpr size_t kElementMax = 16;
  const StridedBox& box_;
  const int kept_;
  alignas(64) std::byte wide_[kTile * kElementMax];
  alignas(64) std::byte row_[kTile * kElementMax];
};

// Calls f(tile, in, out) for parts of at most kTile elements that cover the
// plane; `in` and `out` are the bytes to the first element.
template <class F>
void ForBoxTiles(const BoxPlane& plane, F f) {
  constexpr auto kMax = static_cast<int64_t>(kTile);
  const int64_t columns = std::min(plane.columns, kMax);
  const int64_t rows = kMax / columns;
  for (int64_t row = 0; row < plane.rows; row += rows) {
    for (int64_t column = 0; column < plane.columns; column += columns) {
      BoxPlane tile = plane;
      tile.rows = std::min(rows, plane.rows - row);
      tile.columns = std::min(columns, plane.columns - column);
      f(tile, row * plane.in_row + column * plane.in_column,
        row * plane.out_row + column * plane.out_column);
    }
  }
}

void SumBox(const StridedBox& box, const std::byte* in, std::byte* out,
            bool add) {
  const int kept = KeptDims(box);
  const BoxPlane plane = PlaneOf(box, kept);
  TileSum sum(box);
  ForPlanes(box, kept, [&](int64_t in_plane, int64_t out_plane) {
    ForBoxTiles(
        plane, [&](const BoxPlane& tile, int64_t in_at, int64_t out_at) {
          sum.Run(tile, in + in_plane + in_at, out + out_plane + out_at, add);
        });
  });
}

}  // namespace

StridedBox Simplified(const StridedBox& box) {
  Check(box.dims >= 0 && box.dims <= kBoxDimsMax,
        "a box has at most 8 dimensions");
  const auto size = static_cast<int64_t>(SizeOf(box.dtype));
  StridedBox simple = box;
  BoxDims dims;
  for (int d = 0; d < box.dims; ++d) {
    BoxDim dim = {box.counts[d], box.in_strides[d], box.out_strides[d]};
    Check(dim.count >= 0, "a box has a negative count");
    if (dim.count == 1) continue;
    if (dim.out < 0 && dim.count > 0) {
      simple.in_offset += (dim.count - 1) * dim.in * size;
      simple.out_offset += (dim.count - 1) * dim.out * size;
      dim = {dim.count, -dim.in, -dim.out};
    }
    dims.Add(dim);
  }
  if (std::any_of(dims.begin(), dims.end(),
                  [](const BoxDim& dim) { return dim.count == 0; })) {
    dims = {};
    dims.Add({});
  }
  Sort(&dims);
  SetDims(Merged(dims), &simple);
  return simple;
}

StridedBox BoxOf(const BoxFill& fill) {
  StridedBox box = {.dtype = fill.dtype,
                    .out_memory = fill.out_memory,
                    .dims = fill.dims,
                    .out_offset = fill.out_offset};
  std::copy_n(fill.counts, kBoxDimsMax, box.counts);
  std::copy_n(fill.out_strides, kBoxDimsMax, box.out_strides);
  return box;
}

int KeptDims(const StridedBox& simplified) {
  int kept = 0;
  while (kept < simplified.dims && simplified.out_strides[kept] != 0) ++kept;
  return kept;
}

bool IsEmpty(const StridedBox& simplified) {
  return simplified.dims == 1 && simplified.counts[0] == 0;
}

void CheckWritesOnce(const StridedBox& simplified) {
  Check(KeptDims(simplified) == simplified.dims,
        "a copied or filled box writes an element twice");
}

void CopyBoxes(std::span<const StridedBox> boxes,
               std::span<const void* const> in, std::span<void* const> out) {
  for (const StridedBox& any : boxes) {
    const StridedBox box = Simplified(any);
    if (IsEmpty(box)) continue;
    CheckWritesOnce(box);
    const std::byte* const from = InOf(box, in);
    std::byte* const to = OutOf(box, out);
    const BoxPlane plane = PlaneOf(box, box.dims);
    ForPlanes(box, box.dims, [&](int64_t in_at, int64_t out_at) {
      CopyPlane(plane, from + in_at, to + out_at);
    });
  }
}

void FillBoxes(std::span<const BoxFill> boxes, std::span<void* const> out) {
  for (const BoxFill& fill : boxes) {
    const StridedBox box = Simplified(BoxOf(fill));
    if (IsEmpty(box)) continue;
    CheckWritesOnce(box);
    std::byte* const to = OutOf(box, out);
    const BoxPlane plane = PlaneOf(box, box.dims);
    ForPlanes(box, box.dims, [&](int64_t, int64_t out_at) {
      FillPlane(plane, fill.value, to + out_at);
    });
  }
}

void SumBoxes(std::span<const StridedBox> boxes,
              std::span<const void* const> in, std::span<void* const> out,
              bool add) {
  for (const StridedBox& any : boxes) {
    const StridedBox box = Simplified(any);
    if (IsEmpty(box)) continue;
    SumBox(box, InOf(box, in), OutOf(box, out), add);
  }
}

}  // namespace lockstep::kernels
