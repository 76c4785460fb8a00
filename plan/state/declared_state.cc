#include "plan/state/declared_state.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/text/rank_list.h"
#include "plan/shard.h"
#include "plan/state/state.h"
#include "protocol/state.h"

namespace lockstep::plan {
namespace {

// What one rank registers under a name.
struct StateClaim {
  int rank = 0;
  const StateSpec* spec = nullptr;  // normalized
};

// The registrations of each name, in the order of first registration.
class StateClaims {
 public:
  explicit StateClaims(const Mesh& mesh) : mesh_(mesh) {}

  absl::Status Add(int rank, const std::vector<StateSpec>& specs) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const StateSpec* spec = NormalizedOf(specs[i], i);
      if (spec == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(RankList({rank}), ": ",
                         Normalized(specs[i], mesh_).status().message()));
      }
      const auto [found, added] =
          index_of_.try_emplace(spec->name, claims_.size());
      if (added) claims_.emplace_back();
      std::vector<StateClaim>& of_name = claims_[found->second];
      if (!of_name.empty() && of_name.back().rank == rank) {
        return absl::InvalidArgumentError(
            absl::StrFormat("state \"%s\" is registered twice by rank %d",
                            absl::Utf8SafeCEscape(spec->name), rank));
      }
      of_name.push_back({rank, spec});
    }
    return absl::OkStatus();
  }

  const std::vector<std::vector<StateClaim>>& claims() const { return claims_; }

 private:
  // Most ranks register at one place what the rank before did.
  struct Seen {
    const StateSpec* given = nullptr;
    std::unique_ptr<const StateSpec> made;
  };

  // Null for a malformed one.
  const StateSpec* NormalizedOf(const StateSpec& given, size_t place) {
    if (place < last_at_.size() && *seen_[last_at_[place]].given == given) {
      return seen_[last_at_[place]].made.get();
    }
    auto made = Normalized(given, mesh_);
    if (!made.ok()) return nullptr;
    if (place >= last_at_.size()) last_at_.resize(place + 1);
    last_at_[place] = seen_.size();
    seen_.push_back(
        {&given, std::make_unique<const StateSpec>(*std::move(made))});
    return seen_.back().made.get();
  }

  const Mesh& mesh_;
  std::vector<Seen> seen_;
  std::vector<size_t> last_at_;  // by place in a registration, in seen_
  absl::flat_hash_map<absl::string_view, size_t> index_of_;
  std::vector<std::vector<StateClaim>> claims_;
};

// Finds the slices of parameters that ranks update.
class UpdatedSlices {
 public:
  explicit UpdatedSlices(const Plan& plan) : plan_(plan) {
    for (size_t p = 0; p < plan.parameters.size(); ++p) {
      of_name_[plan.parameters[p].name].push_back(static_cast<int>(p));
    }
    place_of_.resize(plan.parameters.size());
    for (size_t b = 0; b < plan.buckets.size(); ++b) {
      const std::vector<Slot>& slots = plan.buckets[b].slots;
      for (size_t s = 0; s < slots.size(); ++s) {
        place_of_[static_cast<size_t>(slots[s].parameter)] = {b, s};
      }
    }
    positions_.resize(plan.communicators.size());
  }

  // nullopt: all of the parameter. InvalidArgument: the rank has no such
  // parameter, or one of another shape.
  absl::StatusOr<std::optional<StateSlice>> Of(const StateClaim& claim) {
    const auto named = of_name_.find(claim.spec->sliced_like);
    const std::vector<int> none;
    for (const int p : named == of_name_.end() ? none : named->second) {
      const auto [b, s] = place_of_[static_cast<size_t>(p)];
      const Bucket& bucket = plan_.buckets[b];
      const int position = PositionOf(claim.rank, bucket.communicator);
      if (position < 0) continue;
      const std::vector<int64_t>& shape =
          plan_.parameters[static_cast<size_t>(p)].shape;
      if (shape != claim.spec->shape) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "rank %d registers the block [%s], sliced like parameter %s, "
            "which is [%s]",
            claim.rank, absl::StrJoin(claim.spec->shape, ","),
            claim.spec->sliced_like, absl::StrJoin(shape, ",")));
      }
      if (!bucket.sharded) return std::optional<StateSlice>();
      const auto ranks = static_cast<int>(RanksOf(bucket).size());
      const Slice part =
          PartIn(bucket.slots[s], SliceOf(bucket, ranks, position));
      return StateSlice{part.offset, part.count};
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "it is sliced like %s, which is no parameter of rank %d",
        absl::Utf8SafeCEscape(claim.spec->sliced_like), claim.rank));
  }

 private:
  const std::vector<int>& RanksOf(const Bucket& bucket) const {
    return plan_.communicators[static_cast<size_t>(bucket.communicator)].ranks;
  }

  int PositionOf(int rank, int communicator) {
    std::vector<int>& positions = positions_[static_cast<size_t>(communicator)];
    if (positions.empty()) {
      positions.assign(static_cast<size_t>(plan_.mesh.WorldSize()), -1);
      const std::vector<int>& ranks =
          plan_.communicators[static_cast<size_t>(communicator)].ranks;
      for (size_t i = 0; i < ranks.size(); ++i) {
        positions[static_cast<size_t>(ranks[i])] = static_cast<int>(i);
      }
    }
    return positions[static_cast<size_t>(rank)];
  }

  const Plan& plan_;
  // Groups of ranks may have different parameters of one name.
  std::map<absl::string_view, std::vector<int>> of_name_;
  std::vector<std::pair<size_t, size_t>> place_of_;  // bucket and slot
  std::vector<std::vector<int>> positions_;          // by communicator and rank
};

int64_t CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// Makes one tensor of what ranks register under its name.
class StateMerge {
 public:
  StateMerge(const std::vector<StateClaim>& claims, const Mesh& mesh,
             UpdatedSlices* updated)
      : claims_(claims),
        first_(*claims[0].spec),
        mesh_(mesh),
        updated_(*updated) {}

  absl::StatusOr<StateTensor> Run() {
    absl::Status status = CheckSame();
    StateTensor tensor{.name = first_.name, .dtype = first_.dtype};
    for (const int64_t extent : first_.shape) {
      tensor.dims.push_back({.bounds = {0, extent}});
    }
    for (const StateCut& cut : first_.cuts) {
      if (!status.ok()) break;
      status = AddBounds(cut, &tensor.dims[static_cast<size_t>(cut.dim)]);
    }
    if (status.ok()) status = AddRanks(&tensor);
    if (status.ok()) status = Validate(tensor, mesh_);
    if (!status.ok()) return status;
    return tensor;
  }

 private:
  template <typename... Args>
  absl::Status Refuse(const absl::FormatSpec<Args...>& format,
                      const Args&... args) const {
    return absl::InvalidArgumentError(
        absl::StrCat("state \"", absl::Utf8SafeCEscape(first_.name),
                     "\": ", absl::StrFormat(format, args...)));
  }

  // But for the sizes of cut dimensions.
  bool IsLikeFirst(const StateSpec& spec) const {
    if (&spec == &first_) return true;
    if (spec.dtype != first_.dtype || spec.cuts != first_.cuts ||
        spec.shape.size() != first_.shape.size() ||
        spec.sliced_like != first_.sliced_like) {
      return false;
    }
    for (size_t d = 0; d < spec.shape.size(); ++d) {
      if (spec.shape[d] == first_.shape[d]) continue;
      const auto cut = std::find_if(
          spec.cuts.begin(), spec.cuts.end(),
          [d](const StateCut& c) { return static_cast<size_t>(c.dim) == d; });
      if (cut == spec.cuts.end()) return false;
    }
    return true;
  }

  absl::Status CheckSame() const {
    const bool same = std::all_of(
        claims_.begin(), claims_.end(),
        [this](const StateClaim& claim) { return IsLikeFirst(*claim.spec); });
    if (same) return absl::OkStatus();
    std::vector<std::pair<int, std::string>> said_by_rank;
    for (const StateClaim& claim : claims_) {
      said_by_rank.emplace_back(claim.rank, Describe(*claim.spec));
    }
    return Refuse("ranks register it differently: %s",
                  WhoSaidWhat(said_by_rank));
  }

  absl::Status AddBounds(const StateCut& cut, StateDim* dim) const {
    dim->axes = cut.axes;
    std::vector<size_t> axes;  // of the mesh
    size_t blocks = 1;
    for (const std::string& axis : cut.axes) {
      axes.push_back(static_cast<size_t>(mesh_.AxisIndex(axis)));
      blocks *= static_cast<size_t>(mesh_.axes[axes.back()].size);
    }
    std::vector<int64_t> sizes(blocks, 0);
    std::vector<int> rank_of(blocks, -1);  // the first that has the block
    for (const StateClaim& claim : claims_) {
      const std::vector<int> coordinates = mesh_.CoordinatesOf(claim.rank);
      size_t block = 0;
      for (const size_t axis : axes) {
        block = block * static_cast<size_t>(mesh_.axes[axis].size) +
                static_cast<size_t>(coordinates[axis]);
      }
      const int64_t size = claim.spec->shape[static_cast<size_t>(cut.dim)];
      if (rank_of[block] < 0) {
        rank_of[block] = claim.rank;
        sizes[block] = size;
      } else if (sizes[block] != size) {
        return Refuse(
            "dim %d: ranks %d and %d have the same block of %s, number %d, "
            "with %d and %d elements",
            cut.dim, rank_of[block], claim.rank, absl::StrJoin(cut.axes, " "),
            block, sizes[block], size);
      }
    }
    dim->bounds = {0};
    for (size_t block = 0; block < blocks; ++block) {
      if (rank_of[block] < 0) {
        return Refuse("dim %d: block %d of %d over %s is registered by no rank",
                      cut.dim, block, blocks, absl::StrJoin(cut.axes, " "));
      }
      dim->bounds.push_back(dim->bounds.back() + sizes[block]);
    }
    return absl::OkStatus();
  }

  absl::Status AddRanks(StateTensor* tensor) {
    std::vector<StateSlice> slices;
    bool sliced = false;
    bool any = false;
    for (const StateClaim& claim : claims_) {
      std::optional<StateSlice> slice = claim.spec->slice;
      if (!first_.sliced_like.empty()) {
        auto updated = updated_.Of(claim);
        if (!updated.ok()) return Refuse("%s", updated.status().message());
        slice = *updated;
      }
      sliced = sliced || slice.has_value();
      slices.push_back(
          slice.value_or(StateSlice{0, CountOf(claim.spec->shape)}));
      any = any || slices.back().count > 0;
    }
    // A tensor without elements is held whole by all.
    sliced = sliced && any;
    for (size_t i = 0; i < claims_.size(); ++i) {
      if (sliced && slices[i].count == 0) continue;
      tensor->ranks.push_back(claims_[i].rank);
      if (sliced) tensor->slices.push_back(slices[i]);
    }
    return absl::OkStatus();
  }

  const std::vector<StateClaim>& claims_;
  const StateSpec& first_;
  const Mesh& mesh_;
  UpdatedSlices& updated_;
};

}  // namespace

absl::Status AddDeclaredState(
    const std::vector<std::vector<StateSpec>>& declared, Plan* plan) {
  StateClaims claims(plan->mesh);
  for (size_t rank = 0; rank < declared.size(); ++rank) {
    absl::Status added = claims.Add(static_cast<int>(rank), declared[rank]);
    if (!added.ok()) return added;
  }
  UpdatedSlices updated(*plan);
  for (const std::vector<StateClaim>& of_name : claims.claims()) {
    auto tensor = StateMerge(of_name, plan->mesh, &updated).Run();
    if (!tensor.ok()) return tensor.status();
    plan->state.push_back(*std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan
