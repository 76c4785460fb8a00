#include "client/collectives/shapes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/absl_view.h"

namespace lockstep::collectives {

// So that no product with a number of members overflows.
constexpr int64_t kBytesMax = int64_t{1} << 40;

std::string Text(const TensorType& type) {
  return absl::StrCat(AbslView(Name(type.dtype)), "[",
                      absl::StrJoin(type.shape, ","), "]");
}

absl::StatusOr<size_t> CheckedElements(const TensorType& type) {
  const auto bytes = static_cast<int64_t>(SizeOf(type.dtype));
  if (bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no dtype has the number ", static_cast<int>(type.dtype)));
  }
  int64_t elements = 1;
  bool empty = false;
  for (const int64_t extent : type.shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Text(type), " has a negative extent"));
    }
    if (extent == 0) {
      empty = true;
    } else if (extent > kBytesMax / bytes / elements) {
      return absl::InvalidArgumentError(
          absl::StrCat(Text(type), " is larger than 1 TiB"));
    } else {
      elements *= extent;
    }
  }
  return empty ? 0 : static_cast<size_t>(elements);
}

size_t ElementsOf(const TensorType& type) {
  return Product(type.shape, 0, type.shape.size());
}

size_t BytesOf(const TensorType& type) {
  return ElementsOf(type) * SizeOf(type.dtype);
}

size_t Product(const Shape& shape, size_t begin, size_t end) {
  size_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

absl::StatusOr<size_t> NormalAxis(int axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "axis ", axis, " is out of bounds for a tensor of rank ", rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

Shape Without(Shape shape, size_t axis) {
  shape.erase(shape.begin() + static_cast<int64_t>(axis));
  return shape;
}

Shape With(Shape shape, size_t axis, int64_t extent) {
  shape.insert(shape.begin() + static_cast<int64_t>(axis), extent);
  return shape;
}

bool KeepsShapeWithoutAxes(const AxisCollective& op, int size) {
  if (!op.axes.empty() || size != 1) return false;
  switch (op.kind) {
    case AxisCollectiveKind::kAllGather:
    case AxisCollectiveKind::kAllGatherInvariant:
    case AxisCollectiveKind::kPsumScatter:
    case AxisCollectiveKind::kOwnSlice: return true;
    default: return false;
  }
}

std::optional<ReduceOp> ReductionOf(const AxisCollective& op) {
  switch (op.kind) {
    case AxisCollectiveKind::kPsum: return ReduceOp::kSum;
    case AxisCollectiveKind::kPmean: return ReduceOp::kMean;
    case AxisCollectiveKind::kPprod: return ReduceOp::kProd;
    case AxisCollectiveKind::kPmax:
    case AxisCollectiveKind::kPargmax: return ReduceOp::kMax;
    case AxisCollectiveKind::kPmin:
    case AxisCollectiveKind::kPargmin: return ReduceOp::kMin;
    case AxisCollectiveKind::kReduce: return op.reduce;
    default: return std::nullopt;
  }
}

}  // namespace lockstep::collectives
