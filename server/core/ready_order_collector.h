// Collects the orders in which gradients become ready on the ranks, and merges
// them into one.
//
// The lowest rank of a parameter's group reports its position, so only those
// ranks are asked. Positions count from the start of the backward pass on every
// rank, and order the parameters of different ranks:
//
//   rank 0 (reports head, w@0)    w@0  head         position 0: w@0 (rank 0),
//                                             ──▶               w@1 (rank 1)
//   rank 1 (reports w@1)          w@1  head         position 1: head (rank 0)
//
// A pure function of the answers, independent of their order of arrival.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_READY_ORDER_COLLECTOR_H_
#define LOCKSTEP_SERVER_CORE_READY_ORDER_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "plan/ir.h"
#include "protocol/ids.h"

namespace lockstep::core {

class ReadyOrderCollector {
 public:
  // For the revision after `plan`.
  explicit ReadyOrderCollector(const plan::Plan& plan);

  Revision revision() const { return revision_; }

  // The rank was asked and has not answered yet.
  bool Wants(int rank) const { return wanted_[rank]; }
  // The ranks that have not answered, ascending.
  std::vector<int> Unanswered() const;
  bool complete() const { return wanted_count_ == 0; }

  // A rank's parameters, each once, in the order in which they became ready.
  // Ignored from a rank that was not asked or has answered. InvalidArgument:
  // not exactly the rank's parameters.
  absl::Status Answer(int rank, const std::vector<uint32_t>& parameters);

  // Every parameter of the plan once, merged. Must be complete.
  std::vector<uint32_t> Merged() const;

 private:
  struct ReportedPosition {
    int by = -1;  // the reporting rank
    uint32_t at = 0;
  };

  Revision revision_;
  std::vector<std::vector<uint32_t>>
      own_;  // by rank: its parameters, ascending, if asked
  std::vector<ReportedPosition> places_;  // by parameter
  std::vector<bool> wanted_;
  int wanted_count_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_READY_ORDER_COLLECTOR_H_
