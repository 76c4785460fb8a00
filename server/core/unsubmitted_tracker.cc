#include "server/core/unsubmitted_tracker.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"

namespace lockstep::core {
namespace {

size_t Unnamed(const protocol::ParameterNames& parameters) {
  const size_t count = parameters.count;
  return count - std::min(count, parameters.names.size());
}

// "a, b and 3 more".
std::string Named(const std::vector<std::string>& names, size_t more) {
  std::string text = absl::StrJoin(names, ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

}  // namespace

void UnsubmittedTracker::Update(int rank, const protocol::Progress& progress) {
  const protocol::ParameterNames& by_all = progress.unsubmitted_by_all;
  const protocol::ParameterNames& here = progress.unsubmitted_here;
  if (by_all.count == 0 && here.count == 0) return;
  Said& said = said_[rank];
  if (said.by_all == by_all && said.here == here) return;
  said = {by_all, here};
  has_news_ = true;
  step_ = std::max(step_, progress.position.step);
}

std::string UnsubmittedTracker::Take() {
  has_news_ = false;
  const std::string by_all = TakeByAll();
  const std::string here = TakeHere();
  if (by_all.empty() && here.empty()) return "";
  return absl::StrCat(by_all, by_all.empty() || here.empty() ? "" : "; ", here,
                      " (if this is meant: on_unsubmitted: ignore)");
}

std::string UnsubmittedTracker::TakeByAll() {
  std::vector<std::string> names;
  size_t more = 0;
  for (const auto& [rank, said] : said_) {
    for (const std::string& name : said.by_all.names) {
      if (told_by_all_.insert(name).second) names.push_back(name);
    }
    more = std::max(more, Unnamed(said.by_all));
  }
  if (names.empty()) return "";
  return absl::StrCat("no rank submits ", Named(names, more),
                      ": the gradient stays zero");
}

std::string UnsubmittedTracker::TakeHere() {
  std::map<std::string, std::vector<int>> lacking;  // by parameter: ranks
  std::map<std::vector<int>, std::vector<std::string>> of_ranks;
  size_t more = 0;
  for (const auto& [rank, said] : said_) {
    for (const std::string& name : said.here.names) {
      if (told_here_.insert({name, rank}).second) lacking[name].push_back(rank);
    }
    more = std::max(more, Unnamed(said.here));
  }
  for (const auto& [name, ranks] : lacking) of_ranks[ranks].push_back(name);
  std::vector<std::string> sentences;
  for (const auto& [ranks, names] : of_ranks) {
    sentences.push_back(absl::StrCat(
        RankList(ranks), ranks.size() == 1 ? " does" : " do", " not submit ",
        Named(names, more), ": zeros count instead"));
  }
  return absl::StrJoin(sentences, "; ");
}

}  // namespace lockstep::core
