#include "tools/ctl/stall_log.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lockstep::ctl {
namespace {

// A worker that is late in every step is named this often, as in the history.
constexpr absl::Duration kNamedAgain = absl::Minutes(1);

// The sentence in which the coordinator names the worker with its rank; the
// workers that wait for it are without theirs.
const std::string* SentenceAbout(const WorkerView& worker,
                                 const JobView& view) {
  if (worker.rank < 0) return nullptr;
  const std::string who =
      absl::StrCat(worker.name.value, " (rank ", worker.rank, ", ");
  for (const std::string& sentence : view.stalls) {
    if (absl::StrContains(sentence, who)) return &sentence;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> StallLog::Take(const JobView& view, absl::Time now) {
  std::vector<std::string> news;
  for (const WorkerView& worker : view.workers) {
    const std::string* sentence = SentenceAbout(worker, view);
    const bool is_on = sentence != nullptr;
    if (!is_on && stalls_.count(worker.name.value) == 0) continue;
    Stall& stall = stalls_[worker.name.value];
    const bool was_on = std::exchange(stall.is_on, is_on);
    if (!is_on || was_on || now - stall.named < kNamedAgain) continue;
    stall.named = now;
    news.push_back(*sentence);
  }
  return news;
}

}  // namespace lockstep::ctl
