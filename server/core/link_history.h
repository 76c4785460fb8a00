// Which member goes when links between living members keep breaking.
//
//   epoch 4 ends: link(a, b)
//   epoch 5 ends: link(c, b)    the members join again, and try once more
//   epoch 6 ends: link(b, d)    the third: b has the most bad links, and goes
//
// Only ends within `window` count. Of members with equally many, the one that
// was accused last goes.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_LINK_HISTORY_H_
#define LOCKSTEP_SERVER_CORE_LINK_HISTORY_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"
#include "protocol/ids.h"

namespace lockstep::core {

inline constexpr size_t kLinkEndsMax = 3;

class LinkHistory {
 public:
  explicit LinkHistory(absl::Duration window) : window_(window) {}

  // An epoch has ended because these two cannot reach each other. Returns the
  // worker that goes, if it is the third such end; the count then begins anew.
  std::optional<WorkerName> Add(absl::Time now, const WorkerName& reporter,
                                const WorkerName& accused) {
    while (!ends_.empty() && ends_.front().at + window_ <= now) {
      ends_.pop_front();
    }
    ends_.push_back({now, reporter, accused});
    if (ends_.size() < kLinkEndsMax) return std::nullopt;
    WorkerName worst = accused;
    for (const End& end : ends_) {
      for (const WorkerName& worker : {end.reporter, end.accused}) {
        if (BadLinks(worker) > BadLinks(worst)) worst = worker;
      }
    }
    ends_.clear();
    return worst;
  }

 private:
  struct End {
    absl::Time at;
    WorkerName reporter;
    WorkerName accused;
  };

  int64_t BadLinks(const WorkerName& worker) const {
    return std::count_if(ends_.begin(), ends_.end(), [&](const End& end) {
      return end.reporter == worker || end.accused == worker;
    });
  }

  const absl::Duration window_;
  std::deque<End> ends_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_LINK_HISTORY_H_
