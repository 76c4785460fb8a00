// The newest kHistoryMax event texts of a job, for display.

#ifndef LOCKSTEP_SERVER_CORE_HISTORY_H_
#define LOCKSTEP_SERVER_CORE_HISTORY_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "protocol/job_view.h"

namespace lockstep::core {

inline constexpr size_t kHistoryMax = 100;

class History {
 public:
  void Add(absl::Time now, std::string text) {
    if (lines_.size() == kHistoryMax) lines_.pop_front();
    lines_.push_back({now, std::move(text)});
  }

  // Oldest first.
  std::vector<EventView> View(absl::Time now) const {
    std::vector<EventView> events;
    for (const Line& line : lines_) {
      events.push_back({.ago = now - line.when, .text = line.text});
    }
    return events;
  }

 private:
  struct Line {
    absl::Time when;
    std::string text;
  };
  std::deque<Line> lines_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_HISTORY_H_
