// Which parameters nobody, or only some of their ranks, submit, as the ranks
// say in their progress, and what people have been told of it.
//
//   rank 0   step 3: nobody: a ──┐
//   rank 1   step 3: nobody: a ──┴▶ all have passed step 3 ──▶ one warning
//   rank 1   step 9: not here: b ─────────────────────────────▶ and one more
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_UNSUBMITTED_TRACKER_H_
#define LOCKSTEP_SERVER_CORE_UNSUBMITTED_TRACKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "plan/words/protocol.h"

namespace lockstep::core {

class UnsubmittedTracker {
 public:
  // The newest word of a rank.
  void Update(int rank, const protocol::Progress& progress);

  // Something was said that nobody has been told.
  bool has_news() const { return has_news_; }
  // The step that was in progress when it was. Once every rank is beyond it,
  // all have said what they have to say of the steps before.
  uint64_t step() const { return step_; }

  // The sentence to tell; empty if all of it has been told before.
  std::string Take();

 private:
  struct Said {
    protocol::ParameterNames by_all;
    protocol::ParameterNames here;
  };

  std::string TakeByAll();
  std::string TakeHere();

  std::map<int, Said> said_;  // by rank; those that said something
  std::set<std::string> told_by_all_;
  std::set<std::pair<std::string, int>> told_here_;
  bool has_news_ = false;
  uint64_t step_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_UNSUBMITTED_TRACKER_H_
