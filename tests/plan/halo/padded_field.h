// The fields of an exchange as one process pads them: the whole field grows by
// its halos, one dimension after the other, as numpy.pad does it, and a rank's
// padded block is a slice of the result. Reads Plan::halos only.

#ifndef LOCKSTEP_TESTS_PLAN_HALO_PADDED_FIELD_H_
#define LOCKSTEP_TESTS_PLAN_HALO_PADDED_FIELD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/halo/halo.h"

namespace lockstep::plan::oracle {

// What a cell of a padded field is: a cell of the field, or a constant.
struct FieldCell {
  int64_t index = -1;  // row-major in the whole field; -1: constant
  int replica = 0;     // of a field that not all axes cut
  double constant = 0;
  bool operator==(const FieldCell&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const FieldCell& cell) {
  if (cell.index < 0) return out << "constant " << cell.constant;
  return out << "cell " << cell.index << " of replica " << cell.replica;
}

// Row-major.
struct FieldArray {
  std::vector<int64_t> shape;
  std::vector<FieldCell> cells;
};

inline int64_t CellsIn(const std::vector<int64_t>& shape) {
  int64_t cells = 1;
  for (const int64_t extent : shape) cells *= extent;
  return cells;
}

// Calls body(at) for each position in a box, the last dimension fastest.
template <typename Body>
void ForEachCell(const std::vector<int64_t>& shape, Body body) {
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t left = CellsIn(shape); left > 0; --left) {
    body(at);
    for (size_t d = shape.size(); d > 0 && ++at[d - 1] == shape[d - 1]; --d) {
      at[d - 1] = 0;
    }
  }
}

inline int64_t OffsetIn(const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + at[d];
  return offset;
}

// One dimension of a field and its halos.
struct GrownDim {
  int64_t low = 0;   // cells before the field
  int64_t size = 0;  // of the field
  int64_t high = 0;  // cells after it
};

inline GrownDim GrownBy(const HaloExtent& extent) {
  const bool grows = extent.edge != HaloEdge::kNone;
  return {grows ? extent.low : 0, extent.bounds.back(),
          grows ? extent.high : 0};
}

// The position in a grown dimension that cell `at` repeats, which is nearer to
// the field; -1 if it is constant.
inline int64_t RepeatedBy(const GrownDim& dim, HaloEdge edge, int64_t at) {
  const int64_t first = dim.low;
  const int64_t last = dim.low + dim.size - 1;
  switch (edge) {
    case HaloEdge::kPeriodic: return at < first ? at + dim.size : at - dim.size;
    case HaloEdge::kReflect:
      return at < first ? first + (first - at) : last - (at - last);
    case HaloEdge::kReplicate: return at < first ? at + 1 : at - 1;
    default: return -1;
  }
}

inline FieldArray GrownIn(const FieldArray& array, size_t d,
                          const HaloExtent& extent) {
  const GrownDim dim = GrownBy(extent);
  FieldArray grown{array.shape, {}};
  grown.shape[d] += dim.low + dim.high;
  grown.cells.resize(CellsIn(grown.shape));
  ForEachCell(array.shape, [&](std::vector<int64_t> at) {
    const FieldCell& cell = array.cells[OffsetIn(array.shape, at)];
    at[d] += dim.low;
    grown.cells[OffsetIn(grown.shape, at)] = cell;
  });
  std::vector<int64_t> face = grown.shape;
  face[d] = 1;
  const auto set = [&](int64_t position) {
    const int64_t source = RepeatedBy(dim, extent.edge, position);
    ForEachCell(face, [&](std::vector<int64_t> at) {
      at[d] = position;
      FieldCell& cell = grown.cells[OffsetIn(grown.shape, at)];
      if (source < 0) {
        cell = {.constant = extent.constant};
        return;
      }
      at[d] = source;
      cell = grown.cells[OffsetIn(grown.shape, at)];
    });
  };
  // Outwards from the field: a cell repeats one that is set already.
  for (int64_t i = 1; i <= dim.low; ++i) set(dim.low - i);
  for (int64_t i = 0; i < dim.high; ++i) set(dim.low + dim.size + i);
  return grown;
}

inline FieldArray WholeField(const HaloField& field, int replica) {
  FieldArray whole;
  for (const HaloExtent& extent : field.dims) {
    whole.shape.push_back(extent.bounds.back());
  }
  for (int64_t i = 0; i < CellsIn(whole.shape); ++i) {
    whole.cells.push_back({.index = i, .replica = replica});
  }
  return whole;
}

inline FieldArray PaddedField(const HaloField& field, int replica) {
  FieldArray padded = WholeField(field, replica);
  for (size_t d = 0; d < field.dims.size(); ++d) {
    padded = GrownIn(padded, d, field.dims[d]);
  }
  return padded;
}

// The part [first[d], first[d] + shape[d]) of an array; parts of it that are
// outside are cut off.
inline FieldArray SliceOfArray(const FieldArray& array,
                               std::vector<int64_t> first,
                               std::vector<int64_t> shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t end = std::min(first[d] + shape[d], array.shape[d]);
    first[d] = std::max<int64_t>(first[d], 0);
    shape[d] = end - first[d];
  }
  FieldArray slice{shape, {}};
  ForEachCell(shape, [&](std::vector<int64_t> at) {
    for (size_t d = 0; d < at.size(); ++d) at[d] += first[d];
    slice.cells.push_back(array.cells[OffsetIn(array.shape, at)]);
  });
  return slice;
}

inline int64_t NumberOfBlock(const HaloExtent& extent,
                             const std::vector<int>& coordinates) {
  return extent.axis < 0 ? 0 : coordinates[extent.axis];
}

// The member's own block, and the block with its halos.
inline FieldArray BlockOfMember(const HaloField& field, const FieldArray& whole,
                                const std::vector<int>& coordinates) {
  std::vector<int64_t> first, shape;
  for (const HaloExtent& extent : field.dims) {
    const int64_t block = NumberOfBlock(extent, coordinates);
    first.push_back(extent.bounds[block]);
    shape.push_back(extent.bounds[block + 1] - extent.bounds[block]);
  }
  return SliceOfArray(whole, first, shape);
}

inline FieldArray PaddedBlockOfMember(const HaloField& field,
                                      const FieldArray& padded,
                                      const std::vector<int>& coordinates) {
  std::vector<int64_t> first, shape;
  for (const HaloExtent& extent : field.dims) {
    const int64_t block = NumberOfBlock(extent, coordinates);
    // From here the field begins at GrownBy(extent).low.
    first.push_back(GrownBy(extent).low + extent.bounds[block] - extent.low);
    shape.push_back(extent.low + extent.bounds[block + 1] -
                    extent.bounds[block] + extent.high);
  }
  return SliceOfArray(padded, first, shape);
}

// Members with the same number have the same copy of the field: it is made of
// the coordinates on the axes that do not cut the field.
inline int ReplicaOfMember(const HaloField& field, const Mesh& mesh,
                           const std::vector<int>& coordinates) {
  int replica = 0;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    bool cuts = false;
    for (const HaloExtent& extent : field.dims) {
      cuts = cuts || extent.axis == static_cast<int>(axis);
    }
    if (!cuts) replica = replica * mesh.axes[axis].size + coordinates[axis];
  }
  return replica;
}

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_HALO_PADDED_FIELD_H_
