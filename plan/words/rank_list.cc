#include "plan/words/rank_list.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep {
namespace {

std::vector<std::string> Ranges(const std::vector<int>& sorted) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1
                         ? absl::StrCat(sorted[i])
                         : absl::StrCat(sorted[i], "-", sorted[end - 1]));
    i = end;
  }
  return ranges;
}

}  // namespace

std::string RankList(std::vector<int> ranks) {
  if (ranks.empty()) return "no rank";
  std::sort(ranks.begin(), ranks.end());
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      absl::StrJoin(Ranges(ranks), ", "));
}

std::string WhoSaidWhat(
    const std::vector<std::pair<int, std::string>>& said_by_rank) {
  std::map<std::string, std::vector<int>> speakers_of;
  for (const auto& [rank, said] : said_by_rank) {
    speakers_of[said].push_back(rank);
  }
  std::map<int, std::string> by_lowest_rank;
  for (const auto& [said, ranks] : speakers_of) {
    by_lowest_rank[*std::min_element(ranks.begin(), ranks.end())] =
        absl::StrCat(RankList(ranks), ": ", said);
  }
  return absl::StrJoin(
      by_lowest_rank, "; ",
      [](std::string* out, const auto& entry) { out->append(entry.second); });
}

}  // namespace lockstep
