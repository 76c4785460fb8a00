// Compiles the registrations of all ranks into a plan.
//
//   mesh, registrations ─▶ Merge ─▶ order, policy ─▶ CutBuckets ─▶
//   pipeline ─▶ BuildLanes ─▶ Plan
//
// Pure and deterministic: the same input gives a plan with the same digest on
// every machine.

#ifndef LOCKSTEP_PLAN_COMPILE_H_
#define LOCKSTEP_PLAN_COMPILE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/halo_spec.h"
#include "lockstep/job_spec.h"
#include "lockstep/state_spec.h"
#include "plan/ir.h"
#include "protocol/axis_group.h"
#include "protocol/transport_facts.h"

namespace lockstep::plan {

// In negotiated mode one message of a rank has the decisions of two passes
// (protocol::Held). With this many parameters it is below gRPC's limit of 4
// MiB.
inline constexpr size_t kNegotiatedParametersMax = 100'000;

struct PlanInput {
  Mesh mesh;
  // kNegotiated: each parameter has a separate bucket, whatever the policy's
  // bounds. kReduceScatter: buckets are sharded.
  SyncMode sync = SyncMode::kStatic;
  BucketPolicy policy;
  Revision revision{1};
  // registrations[rank]: the parameters of that rank, in registration order.
  std::vector<std::vector<Parameter>> registrations;
  // transports[rank]: the abilities of that rank's transport. Empty: unknown.
  std::vector<TransportFacts> transports;
  // groups[rank]: the groups that this rank declares. Empty: none.
  std::vector<std::vector<protocol::AxisGroupDeclaration>> groups;
  // halos[rank]: the halo exchanges that this rank declares. Empty: none.
  std::vector<std::vector<HaloSpec>> halos;
  // states[rank]: the state that this rank registers. Empty: none.
  std::vector<std::vector<StateSpec>> states;
  // Indices of the plan's parameters in the order in which gradients became
  // ready in an earlier revision: a permutation, or empty. Empty: the reverse
  // of the registration order, the usual order of a backward pass. (Parameters
  // and communicators are the same in every revision.)
  std::vector<uint32_t> observed_order;
  PipelineSpec pipeline;
  int leaves = 0;  // of every bucket; 0: no reduction tree
};

// InvalidArgument:
// - a world of another size than registrations.size()
// - an observed_order that is not a permutation
// - in negotiated mode, more than kNegotiatedParametersMax parameters
// - a malformed parameter (names the field), or one that a rank registers twice
// - a parameter that ranks of its group register differently or not at all. The
//   message groups the ranks by their registration: `w: ranks 0-2: [128,64] f32
//   mean; rank 3: missing`. It has the first 20 parameters in full, the names
//   of others up to 64 KiB, and the number of the rest.
// - a pipeline that pipeline/lanes.h refuses, a parameter of a stage that does
//   not exist, or leaves that the ranks of a group do not divide
// - groups that AddDeclaredGroups refuses, exchanges that AddDeclaredHalos
//   refuses, or routes of theirs that RoutesOf does; in negotiated mode any
// - state that AddDeclaredState refuses
//
// Ranks may register in different orders: the order of the lowest rank is used.
absl::StatusOr<Plan> Compile(const PlanInput& input);

// The order of the parameters in the buckets of `plan`: from the second
// revision on, the observed_order of its revision.
std::vector<uint32_t> OrderOf(const Plan& plan);

// The next revision of `plan`, with new buckets by `observed_order`. Equal to
// the result of Compile on the plan's input with that order and revision.
// InvalidArgument: as Compile, for the order. FailedPrecondition: slices of the
// state would move to other ranks, with those of sharded buckets.
absl::StatusOr<Plan> Recut(const Plan& plan, const BucketPolicy& policy,
                           const std::vector<uint32_t>& observed_order);

// Whether both revisions of one epoch have the same parameters in each bucket.
// Then a switch between them changes nothing on the network.
bool CutAlike(const Plan& a, const Plan& b);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_COMPILE_H_
