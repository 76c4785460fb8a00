// Output types of collectives over named axes, and what is wrong with a call.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/collectives/shapes.h"
#include "lockstep/axis_collective.h"

namespace lockstep {
namespace {

using collectives::CheckedElements;
using collectives::NormalAxis;
using collectives::Shape;
using collectives::Text;
using collectives::With;
using collectives::Without;
using Kind = AxisCollectiveKind;

template <typename... Parts>
absl::Status Invalid(const AxisCollective& op, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(Name(op.kind)), ": ", parts...));
}

absl::Status Invalid(const AxisCollective& op, const absl::Status& fault) {
  return Invalid(op, fault.message());
}

bool IsComplex(DType dtype) {
  return dtype == DType::kC64 || dtype == DType::kC128;
}

bool IsInteger(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kU32:
    case DType::kI32:
    case DType::kU64:
    case DType::kI64: return true;
    default: return false;
  }
}

bool IsDifferentiable(DType dtype) {
  return IsFloat(dtype) || IsComplex(dtype) || dtype == DType::kF8E4M3 ||
         dtype == DType::kF8E5M2;
}

// The dtype of a reduction's result; nothing if it is not defined.
std::optional<DType> Reduced(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProd: return dtype == DType::kBool ? DType::kI32 : dtype;
    case ReduceOp::kMean:
      return dtype == DType::kBool || IsInteger(dtype) ? DType::kF32 : dtype;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      if (IsComplex(dtype)) return std::nullopt;
      return dtype;
  }
  return std::nullopt;
}

absl::StatusOr<TensorType> ReducedType(const AxisCollective& op,
                                       const TensorType& in) {
  const ReduceOp reduction = *collectives::ReductionOf(op);
  const std::optional<DType> dtype = Reduced(reduction, in.dtype);
  if (!dtype.has_value()) {
    return Invalid(op, "no ", AbslView(Name(reduction)), " of ",
                   AbslView(Name(in.dtype)), ", which has no order");
  }
  const bool arg = op.kind == Kind::kPargmax || op.kind == Kind::kPargmin;
  return TensorType{arg ? DType::kI32 : *dtype, in.shape};
}

absl::StatusOr<TensorType> GatheredType(const AxisCollective& op, int size,
                                        const TensorType& in) {
  const size_t rank = in.shape.size();
  const auto axis = NormalAxis(op.axis, op.tiled ? rank : rank + 1);
  if (!axis.ok()) return Invalid(op, axis.status());
  TensorType out = in;
  if (op.tiled) {
    out.shape[*axis] *= size;
  } else {
    out.shape = With(out.shape, *axis, size);
  }
  return out;
}

absl::StatusOr<TensorType> ScatteredType(const AxisCollective& op, int size,
                                         const TensorType& in) {
  const auto axis = NormalAxis(op.axis, in.shape.size());
  if (!axis.ok()) return Invalid(op, axis.status());
  const int64_t extent = in.shape[*axis];
  TensorType out = in;
  if (op.tiled) {
    if (extent % size != 0) {
      return Invalid(op, "axis ", *axis, " of ", Text(in),
                     " is not divisible by the ", size, " members");
    }
    out.shape[*axis] /= size;
  } else {
    if (extent != size) {
      return Invalid(op, "axis ", *axis, " of ", Text(in),
                     " must have one element for each of the ", size,
                     " members");
    }
    out.shape = Without(out.shape, *axis);
  }
  return out;
}

absl::StatusOr<TensorType> ExchangedType(const AxisCollective& op, int size,
                                         const TensorType& in) {
  if (op.kind == Kind::kPswapaxes && op.tiled) {
    return Invalid(op, "is not tiled");
  }
  const auto split = ScatteredType(op, size, in);
  if (!split.ok()) return split.status();
  const int concat = op.kind == Kind::kPswapaxes ? op.axis : op.concat_axis;
  const auto axis = NormalAxis(concat, in.shape.size());
  if (!axis.ok()) return Invalid(op, axis.status());
  TensorType out = *split;
  if (op.tiled) {
    out.shape[*axis] *= size;
  } else {
    out.shape = With(out.shape, *axis, size);
  }
  return out;
}

absl::Status CheckPairs(const AxisCollective& op, int size) {
  std::vector<bool> sends(size), receives(size);
  for (const auto& [from, to] : op.pairs) {
    if (from < 0 || from >= size || to < 0 || to >= size) {
      return Invalid(op, "the pair (", from, ", ", to, ") is outside of the ",
                     size, " members");
    }
    if (sends[from]) return Invalid(op, from, " is the source of two pairs");
    if (receives[to]) return Invalid(op, to, " is the target of two pairs");
    sends[from] = receives[to] = true;
  }
  return absl::OkStatus();
}

// A send may complete only with its receive, so ranks that send in a circle
// before they receive would wait for ever. The pairs have passed CheckPairs.
absl::Status CheckNoCycle(const AxisCollective& op, int size) {
  std::vector<int> target(static_cast<size_t>(size), -1);
  for (const auto& [from, to] : op.pairs) target[from] = to;
  for (int start = 0; start < size; ++start) {
    int at = target[start];
    for (int steps = 0; at >= 0 && steps < size; ++steps) {
      if (at == start) {
        return Invalid(op, "the pairs form a cycle through ", start,
                       ": use ppermute");
      }
      at = target[at];
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSources(const AxisCollective& op, int size) {
  std::vector<bool> seen(size);
  for (const int source : op.sources) {
    if (source < 0 || source >= size || seen[source]) {
      return Invalid(op, "the sources are not a permutation: ", source,
                     source >= 0 && source < size ? " is there twice"
                                                  : " is outside of the group");
    }
    seen[source] = true;
  }
  if (op.sources.size() != static_cast<size_t>(size)) {
    return Invalid(op, "the sources are not a permutation: ", op.sources.size(),
                   " of ", size, " members have one");
  }
  return absl::OkStatus();
}

// What does not depend on a tensor.
// `reduce` is one of the reductions, and has a meaning for the operation.
absl::Status CheckReduce(const AxisCollective& op) {
  const bool scales = op.kind == Kind::kPvary || op.kind == Kind::kPbroadcast;
  const bool sums = op.reduce == ReduceOp::kSum || op.reduce == ReduceOp::kMean;
  if (scales && !sums) {
    return Invalid(op, "`reduce` is sum, or mean to divide by the members");
  }
  if (op.reduce < ReduceOp::kSum || op.reduce > ReduceOp::kProd) {
    return Invalid(op,
                   "`reduce` is no reduction: ", static_cast<int>(op.reduce));
  }
  return absl::OkStatus();
}

absl::Status CheckAttributes(const AxisCollective& op, int size, int index) {
  if (op.kind > Kind::kPrecv) {
    return Invalid(op, "no collective is kind ", static_cast<int>(op.kind));
  }
  if (size < 1 || index < 0 || index >= size) {
    return Invalid(op, "no group of ", size, " members has a member ", index);
  }
  if (absl::Status reduce = CheckReduce(op); !reduce.ok()) return reduce;
  switch (op.kind) {
    case Kind::kPpermute: return CheckPairs(op, size);
    case Kind::kPsend:
    case Kind::kPrecv: {
      absl::Status pairs = CheckPairs(op, size);
      return pairs.ok() ? CheckNoCycle(op, size) : pairs;
    }
    case Kind::kPshuffle: return CheckSources(op, size);
    case Kind::kPargmax:
    case Kind::kPargmin:
      if (op.axes.size() > 1) {
        return Invalid(op, "takes one axis, not ", op.axes.size());
      }
      return absl::OkStatus();
    case Kind::kPbroadcast:
    case Kind::kReduce:
    case Kind::kGather:
    case Kind::kScatter:
      if (op.root < 0 || op.root >= size) {
        return Invalid(op, "the root ", op.root, " is outside of the ", size,
                       " members");
      }
      return absl::OkStatus();
    default: return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<TensorType>> PgatherTypes(
    const AxisCollective& op, absl::Span<const TensorType> inputs) {
  if (inputs.size() != 2) return Invalid(op, "takes two tensors");
  const TensorType& idx = inputs[1];
  if (idx.dtype != DType::kI32) {
    return Invalid(op, "the indices are ", AbslView(Name(idx.dtype)),
                   ", not i32");
  }
  TensorType out = inputs[0];
  if (op.kind == Kind::kPgatherTranspose && out.dtype == DType::kBool) {
    return Invalid(op, "no sum of bool");
  }
  if (op.kind == Kind::kPgather) {
    out.shape.insert(out.shape.begin(), idx.shape.begin(), idx.shape.end());
  } else {
    const bool fits =
        out.shape.size() >= idx.shape.size() &&
        std::equal(idx.shape.begin(), idx.shape.end(), out.shape.begin());
    if (!fits) {
      return Invalid(op, "the cotangent ", Text(out),
                     " does not begin with the shape of ", Text(idx));
    }
    out.shape.erase(out.shape.begin(),
                    out.shape.begin() + static_cast<int64_t>(idx.shape.size()));
  }
  return std::vector<TensorType>{out};
}

constexpr const char* kRaggedVectors[] = {"input_offsets", "send_sizes",
                                          "output_offsets", "recv_sizes"};

absl::Status CheckVectors(const AxisCollective& op, int size,
                          absl::Span<const TensorType> vectors) {
  for (size_t v = 0; v < vectors.size(); ++v) {
    const TensorType& type = vectors[v];
    if (type.dtype != DType::kI32 && type.dtype != DType::kI64) {
      return Invalid(op, kRaggedVectors[v], " is ", AbslView(Name(type.dtype)),
                     ", not i32 or i64");
    }
    if (type.shape.size() != 1 || type.shape[0] < 1) {
      return Invalid(op, kRaggedVectors[v],
                     " must have rank 1 and an element for each slice, not ",
                     Text(type));
    }
    if (type.shape != vectors[0].shape) {
      return Invalid(op, kRaggedVectors[v], " has ", type.shape[0],
                     " elements and input_offsets ", vectors[0].shape[0]);
    }
  }
  if (vectors[0].shape[0] % size != 0) {
    return Invalid(op, vectors[0].shape[0], " slices are not divisible by the ",
                   size, " members");
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const AxisCollective& op, const TensorType& operand,
                       const TensorType& output) {
  if (operand.shape.empty() || output.shape.empty()) {
    return Invalid(op, "takes tensors of rows, not scalars");
  }
  if (operand.dtype != output.dtype ||
      !std::equal(operand.shape.begin() + 1, operand.shape.end(),
                  output.shape.begin() + 1, output.shape.end())) {
    return Invalid(op, "rows of ", Text(operand), " do not fit ", Text(output));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorType>> RaggedTypes(
    const AxisCollective& op, int size, absl::Span<const TensorType> inputs) {
  if (inputs.size() != 6) return Invalid(op, "takes six tensors");
  const bool forward = op.kind == Kind::kRaggedAllToAll;
  const TensorType& operand = forward ? inputs[0] : inputs[5];
  const TensorType& output = forward ? inputs[1] : inputs[0];
  if (absl::Status s = CheckRows(op, operand, output); !s.ok()) return s;
  if (absl::Status s =
          CheckVectors(op, size, inputs.subspan(forward ? 2 : 1, 4));
      !s.ok()) {
    return s;
  }
  return forward ? std::vector<TensorType>{output}
                 : std::vector<TensorType>{operand, output};
}

absl::StatusOr<TensorType> OutputType(const AxisCollective& op, int size,
                                      const TensorType& in) {
  if (collectives::KeepsShapeWithoutAxes(op, size)) return in;
  if (collectives::ReductionOf(op).has_value()) return ReducedType(op, in);
  switch (op.kind) {
    case Kind::kAllGather:
    case Kind::kAllGatherInvariant:
    case Kind::kGather: return GatheredType(op, size, in);
    case Kind::kPsumScatter: {
      auto out = ScatteredType(op, size, in);
      if (out.ok() && in.dtype == DType::kBool) out->dtype = DType::kI32;
      return out;
    }
    case Kind::kScatter:
    case Kind::kOwnSlice: return ScatteredType(op, size, in);
    case Kind::kAllToAll:
    case Kind::kPswapaxes: return ExchangedType(op, size, in);
    case Kind::kPbroadcast:
    case Kind::kPvary:
      if (op.reduce == ReduceOp::kMean && !IsDifferentiable(in.dtype)) {
        return Invalid(op, "no mean of ", AbslView(Name(in.dtype)));
      }
      return in;
    default: return in;
  }
}

bool OnlyAtRoot(const AxisCollective& op) {
  return op.kind == Kind::kGather ||
         (op.kind == Kind::kReduce && !op.zeros_elsewhere);
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> OutputTypes(
    const AxisCollective& op, int size, int index,
    absl::Span<const TensorType> inputs) {
  if (absl::Status s = CheckAttributes(op, size, index); !s.ok()) return s;
  for (const TensorType& type : inputs) {
    if (auto count = CheckedElements(type); !count.ok()) {
      return Invalid(op, count.status());
    }
  }
  absl::StatusOr<std::vector<TensorType>> outputs;
  switch (op.kind) {
    case Kind::kAxisIndex:
    case Kind::kAxisSize:
      if (!inputs.empty()) return Invalid(op, "takes no tensor");
      return std::vector<TensorType>{{DType::kI32, {}}};
    case Kind::kPgather:
    case Kind::kPgatherTranspose: outputs = PgatherTypes(op, inputs); break;
    case Kind::kRaggedAllToAll:
    case Kind::kRaggedAllToAllTranspose:
      outputs = RaggedTypes(op, size, inputs);
      break;
    default:
      outputs.emplace();
      for (const TensorType& in : inputs) {
        auto out = OutputType(op, size, in);
        if (!out.ok()) return out.status();
        outputs->push_back(*std::move(out));
      }
  }
  if (!outputs.ok()) return outputs;
  for (const TensorType& type : *outputs) {
    if (auto count = CheckedElements(type); !count.ok()) {
      return Invalid(op, count.status());
    }
  }
  const bool none =
      op.kind == Kind::kPsend || (OnlyAtRoot(op) && index != op.root);
  if (none) outputs->clear();
  return outputs;
}

}  // namespace lockstep
