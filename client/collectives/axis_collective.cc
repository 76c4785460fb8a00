// Names and transposes of collectives over named axes.

#include "lockstep/axis_collective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/absl_view.h"

namespace lockstep {
namespace {

using Kind = AxisCollectiveKind;

constexpr std::pair<Kind, std::string_view> kNames[] = {
    {Kind::kPsum, "psum"},
    {Kind::kPmean, "pmean"},
    {Kind::kPprod, "pprod"},
    {Kind::kPmax, "pmax"},
    {Kind::kPmin, "pmin"},
    {Kind::kPargmax, "pargmax"},
    {Kind::kPargmin, "pargmin"},
    {Kind::kPbroadcast, "pbroadcast"},
    {Kind::kPpermute, "ppermute"},
    {Kind::kPshuffle, "pshuffle"},
    {Kind::kAllGather, "all_gather"},
    {Kind::kAllGatherInvariant, "all_gather_invariant"},
    {Kind::kPsumScatter, "psum_scatter"},
    {Kind::kAllToAll, "all_to_all"},
    {Kind::kPswapaxes, "pswapaxes"},
    {Kind::kPgather, "pgather"},
    {Kind::kPgatherTranspose, "pgather_transpose"},
    {Kind::kRaggedAllToAll, "ragged_all_to_all"},
    {Kind::kRaggedAllToAllTranspose, "ragged_all_to_all_transpose"},
    {Kind::kReduce, "reduce"},
    {Kind::kGather, "gather"},
    {Kind::kScatter, "scatter"},
    {Kind::kAxisIndex, "axis_index"},
    {Kind::kAxisSize, "axis_size"},
    {Kind::kPvary, "pvary"},
    {Kind::kOwnSlice, "own_slice"},
    {Kind::kPsend, "psend"},
    {Kind::kPrecv, "precv"},
};

absl::Status NoTranspose(const AxisCollective& op, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(Name(op.kind)), ": ", why));
}

}  // namespace

std::string_view Name(AxisCollectiveKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "?";
}

std::optional<AxisCollectiveKind> ParseAxisCollectiveKind(
    std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

absl::StatusOr<AxisCollective> TransposeOf(
    const AxisCollective& op, std::optional<PsumTranspose> convention) {
  AxisCollective to = op;
  switch (op.kind) {
    case Kind::kPsum:
    case Kind::kPmean:
      if (!convention.has_value()) {
        return absl::FailedPreconditionError(absl::StrCat(
            AbslView(Name(op.kind)),
            ": name the convention of its transpose: PsumTranspose::kSum or "
            "kIdentity"));
      }
      if (*convention == PsumTranspose::kIdentity) {
        to.kind = Kind::kPvary;
        to.reduce = op.kind == Kind::kPsum ? ReduceOp::kSum : ReduceOp::kMean;
      }
      return to;
    case Kind::kPvary:
      to.kind = op.reduce == ReduceOp::kMean ? Kind::kPmean : Kind::kPsum;
      to.reduce = ReduceOp::kSum;
      return to;
    case Kind::kPbroadcast:
      to.kind = Kind::kReduce;
      to.zeros_elsewhere = true;
      return to;
    case Kind::kReduce:
      if (op.reduce != ReduceOp::kSum && op.reduce != ReduceOp::kMean) break;
      to.kind = Kind::kPbroadcast;
      to.zeros_elsewhere = false;
      return to;
    case Kind::kPpermute:
      for (auto& [from, target] : to.pairs) std::swap(from, target);
      return to;
    case Kind::kPsend:
    case Kind::kPrecv:
      return NoTranspose(op, "has no transpose by itself: use ppermute");
    case Kind::kPshuffle:
      for (size_t i = 0; i < op.sources.size(); ++i) {
        const int source = op.sources[i];
        if (source < 0 || static_cast<size_t>(source) >= op.sources.size()) {
          return NoTranspose(op, "the sources are not a permutation");
        }
        to.sources[source] = static_cast<int>(i);
      }
      return to;
    case Kind::kAllGather: to.kind = Kind::kPsumScatter; return to;
    case Kind::kAllGatherInvariant: to.kind = Kind::kOwnSlice; return to;
    case Kind::kOwnSlice: to.kind = Kind::kAllGatherInvariant; return to;
    case Kind::kPsumScatter: to.kind = Kind::kAllGather; return to;
    case Kind::kGather: to.kind = Kind::kScatter; return to;
    case Kind::kScatter: to.kind = Kind::kGather; return to;
    case Kind::kAllToAll: std::swap(to.axis, to.concat_axis); return to;
    case Kind::kPswapaxes: return to;
    case Kind::kPgather: to.kind = Kind::kPgatherTranspose; return to;
    case Kind::kRaggedAllToAll:
      to.kind = Kind::kRaggedAllToAllTranspose;
      return to;
    default: break;
  }
  return NoTranspose(op, "has no transpose");
}

}  // namespace lockstep
