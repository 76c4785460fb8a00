#include "plan/halo/declared_halos.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"
#include "protocol/halo.h"

namespace lockstep::plan {
namespace {

// What the ranks declare under one name, normalized.
using ByRank = std::map<int, HaloSpec>;

// The communicators of exchanges, by name.
using HaloCommunicators = std::map<std::string, int>;

std::string DeclarationText(const HaloSpec& spec) {
  return absl::StrJoin(spec.tensors, " and ",
                       [](std::string* out, const HaloTensor& tensor) {
                         out->append(Describe(tensor));
                       });
}

class HaloMerge {
 public:
  HaloMerge(const std::string& name, const ByRank& declared,
            HaloCommunicators* known, Plan* plan)
      : name_(absl::Utf8SafeCEscape(name)),
        declared_(declared),
        known_(*known),
        plan_(*plan) {}

  // Adds the exchange of the group of `rank`, which declares it.
  absl::Status AddGroupOf(int rank) {
    const HaloSpec& spec = declared_.at(rank);
    Halo halo{.name = spec.name, .mesh = CuttingMesh(plan_.mesh, spec)};
    std::vector<std::string> axes;
    for (const MeshAxis& axis : halo.mesh.axes) axes.push_back(axis.name);
    halo.ranks = plan_.mesh.GroupOf(rank, axes);
    if (absl::Status same = CheckSame(halo.ranks); !same.ok()) return same;
    for (size_t t = 0; t < spec.tensors.size(); ++t) {
      auto field = FieldOf(halo, t);
      if (!field.ok()) return field.status();
      halo.fields.push_back(*std::move(field));
    }
    halo.communicator = CommunicatorOf(halo);
    plan_.halos.push_back(std::move(halo));
    return absl::OkStatus();
  }

 private:
  absl::Status CheckSame(const std::vector<int>& ranks) const {
    std::vector<std::pair<int, std::string>> said_by_rank;
    bool same = true;
    for (const int rank : ranks) {
      const auto spec = declared_.find(rank);
      said_by_rank.emplace_back(rank, spec == declared_.end()
                                          ? "not declared"
                                          : DeclarationText(spec->second));
      same = same && said_by_rank.back().second == said_by_rank[0].second;
    }
    if (same) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("ranks declare halo ", name_,
                     " differently: ", WhoSaidWhat(said_by_rank)));
  }

  absl::StatusOr<HaloField> FieldOf(const Halo& halo, size_t t) const {
    const HaloTensor& tensor = declared_.at(halo.ranks[0]).tensors[t];
    HaloField field{.dtype = tensor.dtype};
    for (const int64_t extent : tensor.shape) {
      field.dims.push_back({.bounds = {0, extent}});
    }
    for (const HaloDim& dim : tensor.dims) {
      HaloExtent& extent = field.dims[dim.dim];
      extent.low = dim.low;
      extent.high = dim.high;
      extent.edge = dim.edge;
      extent.constant = dim.constant;
      if (!dim.axis.empty()) {
        extent.axis = halo.mesh.AxisIndex(dim.axis);
        absl::Status cut = AddBlocks(halo, t, dim, &extent);
        if (!cut.ok()) return cut;
      }
      // The declaration of the whole field; else at most kHaloBytesMax cells.
      if (dim.low == kWholeField) extent.low = extent.bounds.back();
      if (dim.high == kWholeField) extent.high = extent.bounds.back();
      if (absl::Status width = CheckReflection(t, dim, extent); !width.ok()) {
        return width;
      }
    }
    absl::Status size = CheckPaddedSize(halo, t, field);
    if (!size.ok()) return size;
    return field;
  }

  absl::Status AddBlocks(const Halo& halo, size_t t, const HaloDim& dim,
                         HaloExtent* extent) const {
    const int blocks = halo.mesh.axes[extent->axis].size;
    std::vector<int64_t> sizes(blocks, -1);
    std::vector<int> rank_of(blocks, -1);  // the first that has the block
    for (size_t member = 0; member < halo.ranks.size(); ++member) {
      const int rank = halo.ranks[member];
      const int block =
          halo.mesh.CoordinatesOf(static_cast<int>(member))[extent->axis];
      const int64_t size = declared_.at(rank).tensors[t].shape[dim.dim];
      if (rank_of[block] < 0) {
        rank_of[block] = rank;
        sizes[block] = size;
      } else if (sizes[block] != size) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "halo %s, tensor %d, dim %d: ranks %d and %d have the same block "
            "of axis %s, number %d, with %d and %d cells",
            name_, t, dim.dim, rank_of[block], rank, dim.axis, block,
            sizes[block], size));
      }
    }
    extent->bounds = {0};
    for (const int64_t size : sizes) {
      extent->bounds.push_back(extent->bounds.back() + size);
    }
    return absl::OkStatus();
  }

  // What one rank cannot check: blocks that have the whole field around them.
  absl::Status CheckPaddedSize(const Halo& halo, size_t t,
                               const HaloField& field) const {
    for (size_t member = 0; member < halo.ranks.size(); ++member) {
      int64_t bytes = static_cast<int64_t>(SizeOf(field.dtype));
      const std::vector<int64_t> padded =
          PaddedShape(field, halo.mesh.CoordinatesOf(static_cast<int>(member)));
      for (const int64_t extent : padded) {
        if (extent > kHaloBytesMax / bytes) {
          return absl::InvalidArgumentError(absl::StrFormat(
              "halo %s, tensor %d: the block of rank %d with its halos has "
              "more than %d bytes of %s",
              name_, t, halo.ranks[member], kHaloBytesMax, Name(field.dtype)));
        }
        bytes *= extent;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckReflection(size_t t, const HaloDim& dim,
                               const HaloExtent& extent) const {
    const int64_t size = extent.bounds.back();
    if (dim.edge != HaloEdge::kReflect || std::max(dim.low, dim.high) < size) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "halo %s, tensor %d, dim %d: a field of %d cells reflects at most %d "
        "on each side; low is %d, high is %d",
        name_, t, dim.dim, size, size - 1, dim.low, dim.high));
  }

  int CommunicatorOf(const Halo& halo) {
    if (halo.ranks.size() == 1) return -1;
    const std::string name = NameOfHaloGroup(halo.mesh, halo.ranks);
    const auto [known, is_new] =
        known_.try_emplace(name, static_cast<int>(plan_.communicators.size()));
    if (is_new) plan_.communicators.push_back({name, halo.ranks});
    return known->second;
  }

  const std::string name_;
  const ByRank& declared_;
  HaloCommunicators& known_;
  Plan& plan_;
};

}  // namespace

Mesh CuttingMesh(const Mesh& mesh, const HaloSpec& spec) {
  Mesh cutting;
  for (const MeshAxis& axis : mesh.axes) {
    bool cuts = false;
    for (const HaloTensor& tensor : spec.tensors) {
      for (const HaloDim& dim : tensor.dims)
        cuts = cuts || dim.axis == axis.name;
    }
    if (cuts) cutting.axes.push_back(axis);
  }
  return cutting;
}

std::string NameOfHaloGroup(const Mesh& cutting,
                            const std::vector<int>& ranks) {
  const std::string axes = absl::StrJoin(
      cutting.axes, "+",
      [](std::string* out, const MeshAxis& axis) { out->append(axis.name); });
  return absl::StrCat("halo/", axes, "@", ranks[0]);
}

absl::Status AddDeclaredHalos(
    const std::vector<std::vector<HaloSpec>>& declared, Plan* plan) {
  std::map<std::string, ByRank> by_name;
  for (size_t r = 0; r < declared.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (const HaloSpec& spec : declared[r]) {
      auto normalized = Normalized(spec, plan->mesh);
      if (!normalized.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            RankList({rank}), ": ", normalized.status().message()));
      }
      if (by_name[spec.name].try_emplace(rank, *std::move(normalized)).second) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat(RankList({rank}), " declares halo ",
                       absl::Utf8SafeCEscape(spec.name), " twice"));
    }
  }
  HaloCommunicators communicators;
  std::set<std::pair<std::string, int>> placed;  // of each rank
  for (size_t r = 0; r < declared.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (const HaloSpec& spec : declared[r]) {
      if (placed.contains({spec.name, rank})) continue;
      absl::Status added =
          HaloMerge(spec.name, by_name[spec.name], &communicators, plan)
              .AddGroupOf(rank);
      if (!added.ok()) return added;
      for (const int member : plan->halos.back().ranks) {
        placed.insert({spec.name, member});
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan
