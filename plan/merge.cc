#include "plan/merge.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/text/rank_list.h"
#include "plan/groups.h"
#include "plan/mismatch.h"

namespace lockstep::plan {
namespace {

// True if the previous rank registered the same at this index, as most do.
bool SameAsRankBefore(const std::vector<std::vector<Parameter>>& registrations,
                      size_t rank, size_t place) {
  return rank > 0 && place < registrations[rank - 1].size() &&
         registrations[rank - 1][place] == registrations[rank][place];
}

// Reports the same malformed parameter on many ranks once.
absl::Status ValidateAll(
    const Mesh& mesh,
    const std::vector<std::vector<Parameter>>& registrations) {
  absl::Status first;
  std::vector<int> ranks;
  for (size_t rank = 0; rank < registrations.size(); ++rank) {
    for (size_t i = 0; i < registrations[rank].size(); ++i) {
      if (first.ok() && SameAsRankBefore(registrations, rank, i)) continue;
      const absl::Status valid = Validate(registrations[rank][i], mesh);
      if (valid.ok()) continue;
      if (first.ok()) first = valid;
      if (valid == first) ranks.push_back(static_cast<int>(rank));
      break;
    }
  }
  if (first.ok()) return first;
  return absl::Status(first.code(),
                      absl::StrCat(RankList(ranks), ": ", first.message()));
}

// Names seen so far, numbered in the order of first registration.
class NameIndex {
 public:
  // At the index where the previous rank has a name, the next one usually has
  // it too.
  size_t Of(absl::string_view name, size_t place) {
    if (place < last_at_.size() && names_[last_at_[place]] == name) {
      return last_at_[place];
    }
    const size_t index =
        index_of_.try_emplace(name, names_.size()).first->second;
    if (index == names_.size()) names_.push_back(name);
    if (place >= last_at_.size()) last_at_.resize(place + 1, index);
    last_at_[place] = index;
    return index;
  }

 private:
  absl::flat_hash_map<absl::string_view, size_t> index_of_;
  std::vector<absl::string_view> names_;
  std::vector<size_t> last_at_;  // by index in the registration
};

// Collects the registrations of each name, in the order of first registration.
absl::StatusOr<std::vector<ClaimsOfName>> CollectClaims(
    const std::vector<std::vector<Parameter>>& registrations) {
  std::vector<ClaimsOfName> names;
  NameIndex index;
  std::set<std::pair<absl::string_view, int>> twice;
  for (size_t rank = 0; rank < registrations.size(); ++rank) {
    const int claimant = static_cast<int>(rank);
    for (size_t i = 0; i < registrations[rank].size(); ++i) {
      const Parameter& parameter = registrations[rank][i];
      const size_t name = index.Of(parameter.name, i);
      if (name == names.size()) names.push_back({.name = parameter.name});
      std::vector<Claim>& claims = names[name].claims;
      if (!claims.empty() && claims.back().rank == claimant) {
        twice.emplace(parameter.name, claimant);
      } else {
        claims.push_back({claimant, &parameter});
      }
    }
  }
  if (twice.empty()) return names;

  const absl::string_view name = twice.begin()->first;
  std::vector<int> ranks;
  for (const auto& [same_name, rank] : twice) {
    if (same_name == name) ranks.push_back(rank);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("parameter %s is registered more than once by %s", name,
                      RankList(ranks)));
}

// Adds the parameters of one name, one for each group that registers it, or
// finds the ranks that disagree.
class Agreement {
 public:
  Agreement(const ClaimsOfName& of_name, Groups& groups, Merged& merged)
      : claims_(of_name.claims),
        groups_(groups),
        merged_(merged),
        settled_(claims_.size(), false) {}

  // The ranks concerned by a disagreement; empty if all agree.
  std::set<int> Judge() {
    for (size_t i = 0; i < claims_.size(); ++i) {
      if (settled_[i]) continue;
      const Claim& claim = claims_[i];
      const int group = groups_.Find(claim.rank, claim.parameter->axes);
      JudgeGroup(claim, group);
      merged_.parameters.push_back(*claim.parameter);
      merged_.communicator_of.push_back(group);
    }
    return std::move(concerned_);
  }

 private:
  void JudgeGroup(const Claim& claim, int group) {
    const std::vector<int> ranks = groups_.communicators()[group].ranks;
    for (const int rank : ranks) {
      const int other = ClaimIndex(rank, claims_);
      if (other >= 0 && *claims_[other].parameter == *claim.parameter) {
        settled_[other] = true;
        continue;
      }
      Concern(group);
      if (other >= 0) {
        Concern(groups_.Find(rank, claims_[other].parameter->axes));
      }
    }
  }

  // Once for each group: many ranks may disagree.
  void Concern(int group) {
    if (!concerned_groups_.insert(group).second) return;
    const std::vector<int>& ranks = groups_.communicators()[group].ranks;
    concerned_.insert(ranks.begin(), ranks.end());
  }

  const std::vector<Claim>& claims_;
  Groups& groups_;
  Merged& merged_;
  std::vector<bool> settled_;  // of each claim
  std::set<int> concerned_groups_;
  std::set<int> concerned_;
};

}  // namespace

absl::StatusOr<Merged> Merge(
    const Mesh& mesh,
    const std::vector<std::vector<Parameter>>& registrations) {
  absl::Status valid = ValidateAll(mesh, registrations);
  if (!valid.ok()) return valid;
  absl::StatusOr<std::vector<ClaimsOfName>> names =
      CollectClaims(registrations);
  if (!names.ok()) return names.status();

  Groups groups(mesh);
  Merged merged;
  std::vector<Mismatch> mismatches;
  for (const ClaimsOfName& of_name : *names) {
    std::set<int> concerned = Agreement(of_name, groups, merged).Judge();
    if (!concerned.empty()) mismatches.push_back({&of_name, concerned});
  }
  if (!mismatches.empty()) return MismatchError(mismatches);
  merged.communicators = groups.communicators();
  return merged;
}

}  // namespace lockstep::plan
