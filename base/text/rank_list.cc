#include "base/text/rank_list.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/count.h"

namespace lockstep {
namespace {

constexpr size_t kRangesMax = 64;
constexpr size_t kSayingsMax = 64;

}  // namespace

std::string RankList(std::vector<int> ranks) {
  if (ranks.empty()) return "no rank";
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> ranges;
  size_t i = 0;
  while (i < ranks.size() && ranges.size() < kRangesMax) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back(end - i == 1
                         ? absl::StrCat(ranks[i])
                         : absl::StrCat(ranks[i], "-", ranks[end - 1]));
    i = end;
  }
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                  absl::StrJoin(ranges, ", "));
  if (i < ranks.size()) {
    absl::StrAppend(&text, " and ", ranks.size() - i, " more");
  }
  return text;
}

std::string WhoSaidWhat(
    const std::vector<std::pair<int, std::string>>& said_by_rank) {
  std::map<std::string, std::vector<int>> speakers_of;
  for (const auto& [rank, said] : said_by_rank) {
    speakers_of[said].push_back(rank);
  }
  std::map<int, const std::string*> saying_of_lowest;
  for (const auto& [said, ranks] : speakers_of) {
    saying_of_lowest[*std::min_element(ranks.begin(), ranks.end())] = &said;
  }
  std::vector<std::string> sayings;
  size_t quoted = 0;
  for (const auto& [lowest, said] : saying_of_lowest) {
    if (sayings.size() == kSayingsMax) break;
    const std::vector<int>& speakers = speakers_of[*said];
    sayings.push_back(absl::StrCat(RankList(speakers), ": ", *said));
    quoted += speakers.size();
  }
  if (quoted < said_by_rank.size()) {
    sayings.push_back(absl::StrCat(
        Count(said_by_rank.size() - quoted, "more rank"), ": something else"));
  }
  return absl::StrJoin(sayings, "; ");
}

}  // namespace lockstep
