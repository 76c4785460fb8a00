// From what was registered to a plan.
//
//   mesh, registrations ─▶ Merge ─▶ order, policy ─▶ CutBuckets ─▶ lanes ─▶
//   Plan
//
// Pure and deterministic: the same input gives the same plan, byte for byte of
// its digest, on every machine.

#ifndef LOCKSTEP_PLAN_COMPILE_H_
#define LOCKSTEP_PLAN_COMPILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"
#include "plan/ir.h"

namespace lockstep::plan {

struct PlanInput {
  Mesh mesh;
  BucketPolicy policy;
  Revision revision{1};
  // registrations[rank]: that rank's parameters, in registration order.
  std::vector<std::vector<Parameter>> registrations;
  // Names in the order in which gradients became ready in an earlier revision;
  // empty, or a permutation of what was registered. Empty: the reverse of the
  // registration order, which is what a backward pass does.
  std::vector<std::string> observed_order;
};

// InvalidArgument: a world of another size than registrations.size(), an
// observed_order that is no permutation, a parameter that is malformed (says
// which field), registered twice by one rank, or registered differently or not
// at all by a rank of its group. The message of a mismatch groups the ranks by
// what they said: `w: ranks 0-2: [128,64] f32 mean; rank 3: missing`; the first
// 20 parameters in full, the others by name as far as 64 KiB hold them, the
// rest as a number.
//
// Ranks may register in different orders: the order of the lowest rank holds.
absl::StatusOr<Plan> Compile(const PlanInput& input);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_COMPILE_H_
