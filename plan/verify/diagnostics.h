// What the verifier found wrong, for machines and for people.

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
  kLanes,           // names, and one lane for each communicator
  kTransfers,       // the fields of one transfer
  kBucketCoverage,  // each bucket once on every member
  kOperations,      // what a rank does on the sides of its transfers
  kVerdict,         // the last lane of every rank
  kNorms,           // each element counted once
  kLaunchOrder,     // every transfer once, lanes in order, groups together
  kCollectives,     // members agree on what they do together
  kPointToPoint,    // every send has its receive
  kTasks,           // what a rank computes, each once and in an order
  kBuffers,         // no two messages in one buffer at once
  kValues,          // each task and sum is given what it needs
};

struct Diagnostic {
  Rule rule;
  std::vector<int> ranks;  // whom it concerns; none: the plan as a whole
  std::string text;
};

// Keeps the first few findings and counts the others: a plan that is wrong in
// one way is often wrong a million times.
class Diagnostics {
 public:
  static constexpr size_t kKept = 8;

  void Add(Rule rule, std::vector<int> ranks, std::string text);

  bool empty() const { return count_ == 0; }
  // Nothing more will be kept.
  bool full() const { return kept_.size() == kKept; }
  const std::vector<Diagnostic>& kept() const { return kept_; }

  // OK if there are none, else InvalidArgument with those kept.
  absl::Status ToStatus() const;

 private:
  std::vector<Diagnostic> kept_;
  size_t count_ = 0;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_DIAGNOSTICS_H_
