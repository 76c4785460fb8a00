#include "plan/mismatch.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text/count.h"
#include "base/text/nearest.h"
#include "base/text/rank_list.h"

namespace lockstep::plan {
namespace {

constexpr size_t kMismatchesInFull = 20;
constexpr size_t kMessageBytesMax = 64 << 10;
// The number of names of a rank that are searched for a similar name.
constexpr size_t kCandidatesMax = 200;

// Describes the mismatches of all registrations, one at a time.
class Explanation {
 public:
  explicit Explanation(const std::vector<Mismatch>& mismatches) {
    for (const Mismatch& mismatch : mismatches) {
      for (const Claim& claim : mismatch.claims->claims) {
        std::vector<std::string>& names = names_of_[claim.rank];
        if (names.size() < kCandidatesMax) {
          names.emplace_back(mismatch.claims->name);
        }
      }
    }
  }

  std::string Of(const Mismatch& mismatch) const {
    LookAlikes look_alikes;
    std::vector<std::pair<int, std::string>> said_by_rank;
    for (const int rank : mismatch.ranks) {
      said_by_rank.emplace_back(rank,
                                Said(*mismatch.claims, rank, look_alikes));
    }
    return absl::StrCat(mismatch.claims->name, ": ", WhoSaidWhat(said_by_rank));
  }

 private:
  // Similar names for one name, shared by ranks with the same candidates.
  using LookAlikes = std::map<std::vector<std::string>, std::string>;

  std::string Said(const ClaimsOfName& of_name, int rank,
                   LookAlikes& look_alikes) const {
    const int index = ClaimIndex(rank, of_name.claims);
    if (index >= 0) return Describe(*of_name.claims[index].parameter);
    const auto names = names_of_.find(rank);
    if (names == names_of_.end()) return "missing";
    const auto [like, is_new] = look_alikes.try_emplace(names->second);
    if (is_new) like->second = Nearest(of_name.name, names->second);
    if (like->second.empty()) return "missing";
    return absl::StrCat("missing (it has ", like->second, ")");
  }

  // By rank: its first names among those on which ranks disagree.
  std::map<int, std::vector<std::string>> names_of_;
};

}  // namespace

// Usually all ranks register a name, and then a rank's claim is at its index.
int ClaimIndex(int rank, const std::vector<Claim>& claims) {
  const size_t guess = static_cast<size_t>(rank);
  if (guess < claims.size() && claims[guess].rank == rank) return rank;
  const auto found = std::lower_bound(
      claims.begin(), claims.end(), rank,
      [](const Claim& claim, int rank) { return claim.rank < rank; });
  return found != claims.end() && found->rank == rank
             ? static_cast<int>(found - claims.begin())
             : -1;
}

absl::Status MismatchError(const std::vector<Mismatch>& mismatches) {
  std::string message = absl::StrFormat("ranks registered %s differently",
                                        Count(mismatches.size(), "parameter"));
  const Explanation explanation(mismatches);
  const size_t in_full = std::min(mismatches.size(), kMismatchesInFull);
  for (size_t i = 0; i < in_full; ++i) {
    absl::StrAppend(&message, i == 0 ? ": " : " | ",
                    explanation.Of(mismatches[i]));
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

}  // namespace lockstep::plan
