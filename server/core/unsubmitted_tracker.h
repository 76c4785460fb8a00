// Parameters that no rank, or only some of their ranks, submit, as the ranks'
// progress reports say, and the warnings given about them.
//
//   rank 0   step 3: nobody: a ──┐
//   rank 1   step 3: nobody: a ──┴▶ all have passed step 3 ──▶ one warning
//   rank 1   step 9: not here: b ─────────────────────────────▶ another warning
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_UNSUBMITTED_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_UNSUBMITTED_TRACKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "protocol/progress.h"

namespace lockstep::core {

class UnsubmittedTracker {
 public:
  // The newest report of a rank.
  void Update(int rank, const protocol::Progress& progress);

  // Some reported parameter is in no warning yet.
  bool has_news() const { return has_news_; }
  // The step in progress at that report. Once every rank is beyond it, all
  // ranks have reported on the steps before.
  uint64_t step() const { return step_; }

  // The text of the warning; empty if earlier warnings cover everything.
  std::string Take();

 private:
  struct Said {
    protocol::ParameterNames by_all;
    protocol::ParameterNames here;
  };

  std::string TakeByAll();
  std::string TakeHere();

  std::map<int, Said> said_;  // by rank; only ranks with a report
  std::set<std::string> told_by_all_;
  std::set<std::pair<std::string, int>> told_here_;
  bool has_news_ = false;
  uint64_t step_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_UNSUBMITTED_TRACKER_H_
