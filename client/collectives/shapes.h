// Arithmetic on shapes of collectives. A tensor is seen as outer x axis x
// inner:
//
//   [ s[0] .. s[axis-1] ][ s[axis] ][ s[axis+1] .. ]
//         outer                         inner

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_SHAPES_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_SHAPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/axis_collective.h"
#include "lockstep/tensor_type.h"

namespace lockstep::collectives {

using Shape = std::vector<int64_t>;

// "f32[2,3]".
std::string Text(const TensorType& type);

// The number of elements. InvalidArgument for a negative extent, an unknown
// dtype, and more than 1 TiB.
absl::StatusOr<size_t> CheckedElements(const TensorType& type);

// `type` has passed CheckedElements.
size_t ElementsOf(const TensorType& type);
size_t BytesOf(const TensorType& type);

// The product of the extents [begin, end).
size_t Product(const Shape& shape, size_t begin, size_t end);

// `axis`, counted from the end if it is negative, in [0, rank).
// InvalidArgument if it is outside: "axis 3 is out of bounds for a tensor of
// rank 2".
absl::StatusOr<size_t> NormalAxis(int axis, size_t rank);

Shape Without(Shape shape, size_t axis);
Shape With(Shape shape, size_t axis, int64_t extent);

// The reduction over all members that a psum, a pmax, a reduce or the like is;
// of an arg form that of its extremum.
std::optional<ReduceOp> ReductionOf(const AxisCollective& op);

// Over no axes a gather, and its transpose, are the identity: they neither
// insert an axis nor remove one.
bool KeepsShapeWithoutAxes(const AxisCollective& op, int size);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_SHAPES_H_
