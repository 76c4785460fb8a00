#include "tools/ctl/stall_log.h"

#include <utility>

namespace lockstep::ctl {
namespace {

// A worker that is late in every step is named this often, as in the history.
constexpr absl::Duration kNamedAgain = absl::Minutes(1);

const StallView* StallOf(const WorkerName& worker, const JobView& view) {
  for (const StallView& stall : view.stalls) {
    if (stall.worker == worker) return &stall;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> StallLog::Take(const JobView& view, absl::Time now) {
  std::vector<std::string> news;
  for (const WorkerView& worker : view.workers) {
    const StallView* seen = StallOf(worker.name, view);
    const bool is_on = seen != nullptr;
    if (!is_on && stalls_.count(worker.name.value) == 0) continue;
    Stall& stall = stalls_[worker.name.value];
    const bool was_on = std::exchange(stall.is_on, is_on);
    if (!is_on || was_on || now - stall.named < kNamedAgain) continue;
    stall.named = now;
    news.push_back(seen->text);
  }
  return news;
}

}  // namespace lockstep::ctl
