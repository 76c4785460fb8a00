// Asks in which order gradients become ready, and makes one order of the
// answers.
//
// A parameter's place is given by one rank, the lowest of its group, so only
// those ranks are asked. Places are counted from the start of the backward
// pass, on every rank alike, and put the parameters of different ranks in
// order:
//
//   rank 0 (gives head, w@0)   w@0  head           0: w@0 (rank 0), w@1 (rank
//   1) rank 1 (gives w@1)         w@1  head      ──▶  1: head (rank 0)
//
// A pure function of the answers, whatever the order in which they come.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_READY_ORDER_COLLECTOR_H_
#define LOCKSTEP_SERVER_CORE_READY_ORDER_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "plan/ir.h"
#include "plan/words/ids.h"

namespace lockstep::core {

class ReadyOrderCollector {
 public:
  // About the revision after `plan`.
  explicit ReadyOrderCollector(const plan::Plan& plan);

  Revision revision() const { return revision_; }

  // The rank is asked, and has not answered yet.
  bool Wants(int rank) const { return wanted_[rank]; }
  // Those ranks, ascending.
  std::vector<int> DesiredCommands() const;
  bool complete() const { return wanted_count_ == 0; }

  // A rank's parameters, each once, as they became ready. From a rank that is
  // not asked, or not any more, it changes nothing. InvalidArgument: not just
  // the rank's parameters.
  absl::Status Answer(int rank, const std::vector<uint32_t>& parameters);

  // Every parameter of the plan once. Must be complete.
  std::vector<uint32_t> Merged() const;

 private:
  struct Place {
    int by = -1;  // the rank that gives it
    uint32_t at = 0;
  };

  Revision revision_;
  std::vector<std::vector<uint32_t>>
      own_;                    // by rank: its parameters, ascending, if asked
  std::vector<Place> places_;  // by parameter
  std::vector<bool> wanted_;
  int wanted_count_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_READY_ORDER_COLLECTOR_H_
