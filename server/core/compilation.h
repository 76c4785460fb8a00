// Plan compilation, which runs outside the state machine: compile, verify,
// digest.
//
//   Step ──▶ effect Compile(id, input) ─▶ MakePlan(input), on any thread
//   Step ◀── event  Compiled(id, result) ◀──────┘
//
// A large plan takes seconds, during which other events are applied. The result
// is ignored if its epoch has ended.
//
// MakePlan is pure and deterministic. Threads: any; inputs are values.

#ifndef LOCKSTEP_SERVER_CORE_COMPILATION_H_
#define LOCKSTEP_SERVER_CORE_COMPILATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_options.h"
#include "plan/compile.h"
#include "plan/ir.h"
#include "protocol/ids.h"

namespace lockstep::core {

// The coordinator assigns the numbers and never reuses one in a run. 0: none.
using CompilationId = Id<struct CompilationTag, uint64_t>;

// The next revision of a plan, with its buckets in another order.
struct RecutInput {
  std::shared_ptr<const plan::Plan> plan;
  BucketPolicy policy;
  std::vector<uint32_t> order;
};

using CompileInput = std::variant<plan::PlanInput, RecutInput>;

struct CompiledPlan {
  std::shared_ptr<const plan::Plan> plan;
  std::string digest;
};

// Returns a verified plan. Errors: as plan::Compile, plan::Recut, plan::Verify
// and plan::CheckSync.
absl::StatusOr<CompiledPlan> MakePlan(const CompileInput& input);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COMPILATION_H_
