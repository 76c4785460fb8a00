// The findings of the verifier, for machines and for people.

#ifndef LOCKSTEP_PLAN_VERIFY_DIAGNOSTICS_H_
#define LOCKSTEP_PLAN_VERIFY_DIAGNOSTICS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::plan {

enum class Rule : uint8_t {
  kWorld,           // mesh, revision, number of ranks
  kCommunicators,   // names and members
  kParameters,      // each well-formed, names unique on every rank
  kBuckets,         // slots, sizes, and whose gradients
  kHalos,           // exchanges: fields, boxes, messages, and their lanes
  kState,           // who holds which elements of the state
  kLanes,           // names, and one lane for each communicator
  kTransfers,       // the fields of one transfer
  kBucketCoverage,  // each bucket once on every member
  kOperations,      // local operations before and after transfers
  kVerdict,         // the last lane of every rank
  kNorms,           // each element counted once
  kLaunchOrder,     // every transfer once, lanes in order, groups together
  kCollectives,     // members agree on their common operations
  kPointToPoint,    // every send has its receive
  kTasks,           // a rank's tasks, each once and in order
  kBuffers,         // no two messages in one buffer at a time
  kValues,          // each task and sum receives its inputs
};

struct Diagnostic {
  Rule rule;
  std::vector<int> ranks;  // concerned; none: the plan as a whole
  std::string text;
};

// Stores the first few findings and counts the others: a plan with one kind of
// fault often has it a million times.
class Diagnostics {
 public:
  static constexpr size_t kKept = 8;

  void Add(Rule rule, std::vector<int> ranks, std::string text);

  bool empty() const { return count_ == 0; }
  // Whether no more findings are stored.
  bool full() const { return kept_.size() == kKept; }
  const std::vector<Diagnostic>& kept() const { return kept_; }

  // OK if there are none, else InvalidArgument with the stored findings.
  absl::Status ToStatus() const;

 private:
  std::vector<Diagnostic> kept_;
  size_t count_ = 0;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_DIAGNOSTICS_H_
