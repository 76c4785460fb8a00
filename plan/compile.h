// From what was registered to a plan.
//
//   mesh, registrations ─▶ Merge ─▶ order, policy ─▶ CutBuckets ─▶
//   pipeline ─▶ BuildLanes ─▶ Plan
//
// Pure and deterministic: the same input gives the same plan, byte for byte of
// its digest, on every machine.

#ifndef LOCKSTEP_PLAN_COMPILE_H_
#define LOCKSTEP_PLAN_COMPILE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"
#include "plan/ir.h"
#include "protocol/transport_facts.h"

namespace lockstep::plan {

// In negotiated mode a rank states the decisions of two passes in one message
// (protocol::Held), which with this many stays below the 4 MiB that gRPC takes.
inline constexpr size_t kNegotiatedParametersMax = 100'000;

struct PlanInput {
  Mesh mesh;
  // kNegotiated: each parameter has a bucket of its own, whatever the policy's
  // bounds. kReduceScatter: buckets are sharded.
  SyncMode sync = SyncMode::kStatic;
  BucketPolicy policy;
  Revision revision{1};
  // registrations[rank]: that rank's parameters, in registration order.
  std::vector<std::vector<Parameter>> registrations;
  // transports[rank]: what that rank's transport can do. Empty: not known of
  // any.
  std::vector<TransportFacts> transports;
  // Indices of the plan's parameters, in the order in which gradients became
  // ready in an earlier revision: each once, or empty. Empty: the reverse of
  // the registration order, which is what a backward pass does. (Parameters and
  // communicators are the same in every revision.)
  std::vector<uint32_t> observed_order;
  PipelineSpec pipeline;
  int leaves = 0;  // of every bucket
};

// InvalidArgument: a world of another size than registrations.size(), an
// observed_order that is no permutation, more parameters than negotiated mode
// takes (kNegotiatedParametersMax), a parameter that is malformed (says
// which field), registered twice by one rank, or registered differently or not
// at all by a rank of its group. The message of a mismatch groups the ranks by
// what they said: `w: ranks 0-2: [128,64] f32 mean; rank 3: missing`; the first
// 20 parameters in full, the others by name as far as 64 KiB hold them, the
// rest as a number. Also a pipeline that pipeline/lanes.h refuses, a parameter
// of a stage that is not there, and leaves that the ranks of a group do not
// divide.
//
// Ranks may register in different orders: the order of the lowest rank holds.
absl::StatusOr<Plan> Compile(const PlanInput& input);

// The order of the parameters in the buckets of `plan`: the observed_order of
// its revision, if that is after the first.
std::vector<uint32_t> OrderOf(const Plan& plan);

// The next revision of `plan`: its buckets cut anew in `observed_order`. Equal
// to what Compile makes of the plan's input with that order and revision.
// InvalidArgument: as Compile, for the order.
absl::StatusOr<Plan> Recut(const Plan& plan, const BucketPolicy& policy,
                           const std::vector<uint32_t>& observed_order);

// Do the same parameters travel together, bucket after bucket? Then to switch
// from one to the other changes nothing that a network could see. For two
// revisions of one epoch.
bool CutAlike(const Plan& a, const Plan& b);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_COMPILE_H_
