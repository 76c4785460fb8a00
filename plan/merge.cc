#include "plan/merge.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "plan/groups.h"
#include "plan/words/rank_list.h"

namespace lockstep::plan {
namespace {

constexpr size_t kMismatchesInFull = 20;
constexpr size_t kMessageBytesMax = 64 << 10;

// What one rank registered under a name.
struct Claim {
  int rank;
  const Parameter* parameter;
};

struct ClaimsOfName {
  absl::string_view name;
  std::vector<Claim> claims;  // by rank
};

// A name on which ranks disagree, and the ranks that it concerns.
struct Mismatch {
  const ClaimsOfName* claims;
  std::set<int> ranks;
};

const Parameter* ClaimOf(int rank, const ClaimsOfName& of_name) {
  const auto found = std::lower_bound(
      of_name.claims.begin(), of_name.claims.end(), rank,
      [](const Claim& claim, int rank) { return claim.rank < rank; });
  return found != of_name.claims.end() && found->rank == rank ? found->parameter
                                                              : nullptr;
}

// The same malformed parameter on many ranks is one error.
absl::Status ValidateAll(
    const Mesh& mesh,
    const std::vector<std::vector<Parameter>>& registrations) {
  absl::Status first;
  std::vector<int> ranks;
  for (size_t rank = 0; rank < registrations.size(); ++rank) {
    for (const Parameter& parameter : registrations[rank]) {
      const absl::Status valid = Validate(parameter, mesh);
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

// Collects the claims of each name, in the order of first registration.
absl::StatusOr<std::vector<ClaimsOfName>> CollectClaims(
    const std::vector<std::vector<Parameter>>& registrations) {
  std::vector<ClaimsOfName> names;
  absl::flat_hash_map<absl::string_view, size_t> index_of;
  std::set<std::pair<absl::string_view, int>> twice;
  for (size_t rank = 0; rank < registrations.size(); ++rank) {
    for (const Parameter& parameter : registrations[rank]) {
      const auto [entry, is_new] =
          index_of.try_emplace(parameter.name, names.size());
      if (is_new) names.push_back({.name = parameter.name});
      std::vector<Claim>& claims = names[entry->second].claims;
      const int claimant = static_cast<int>(rank);
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

// Adds the parameters of one name, one for each group that claims it, or finds
// the ranks that disagree.
class Agreement {
 public:
  Agreement(const ClaimsOfName& of_name, Groups& groups, Merged& merged)
      : of_name_(of_name), groups_(groups), merged_(merged) {}

  // The ranks concerned by disagreement; empty if all agree.
  std::set<int> Judge() {
    for (const Claim& claim : of_name_.claims) {
      if (settled_.contains(claim.rank)) continue;
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
      const Parameter* other = ClaimOf(rank, of_name_);
      if (other != nullptr && *other == *claim.parameter) {
        settled_.insert(rank);
        continue;
      }
      concerned_.insert(ranks.begin(), ranks.end());
      if (other != nullptr) Concern(groups_.Find(rank, other->axes));
    }
  }

  void Concern(int group) {
    const std::vector<int>& ranks = groups_.communicators()[group].ranks;
    concerned_.insert(ranks.begin(), ranks.end());
  }

  const ClaimsOfName& of_name_;
  Groups& groups_;
  Merged& merged_;
  std::set<int> settled_;
  std::set<int> concerned_;
};

std::string Explain(const Mismatch& mismatch) {
  std::vector<std::pair<int, std::string>> said_by_rank;
  for (const int rank : mismatch.ranks) {
    const Parameter* parameter = ClaimOf(rank, *mismatch.claims);
    said_by_rank.emplace_back(
        rank, parameter == nullptr ? "missing" : Describe(*parameter));
  }
  return absl::StrCat(mismatch.claims->name, ": ", WhoSaidWhat(said_by_rank));
}

absl::Status MismatchError(const std::vector<Mismatch>& mismatches) {
  std::string message =
      absl::StrFormat("ranks registered %d parameter%s differently",
                      mismatches.size(), mismatches.size() == 1 ? "" : "s");
  const size_t in_full = std::min(mismatches.size(), kMismatchesInFull);
  for (size_t i = 0; i < in_full; ++i) {
    absl::StrAppend(&message, i == 0 ? ": " : " | ", Explain(mismatches[i]));
  }
  size_t named = in_full;
  while (named < mismatches.size() && message.size() < kMessageBytesMax) {
    absl::StrAppend(&message, named == in_full ? " | and " : ", ",
                    mismatches[named].claims->name);
    ++named;
  }
  if (named < mismatches.size()) {
    absl::StrAppend(&message, ", and ", mismatches.size() - named, " more");
  }
  return absl::InvalidArgumentError(message);
}

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
