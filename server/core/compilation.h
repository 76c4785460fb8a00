// Plan compilation, which runs outside the state machine: compile, verify,
// digest. So does the check of a plan that a worker gave back.
//
//   Step ──▶ effect Compile(id, input) ─▶ MakePlan, on any thread
//   Step ◀── event  Compiled(id, result) ◀──────┘
//
// A large plan takes seconds, during which other events are applied. The result
// is ignored if its epoch has ended.
//
// MakePlan is pure and deterministic. Threads: any; inputs are values.

#ifndef LOCKSTEP_SERVER_CORE_COMPILATION_H_
#define LOCKSTEP_SERVER_CORE_COMPILATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_options.h"
#include "plan/compile.h"
#include "plan/ir.h"
#include "protocol/ids.h"
#include "protocol/record.h"

namespace lockstep::core {

// The coordinator assigns the numbers and never reuses one in a run. 0: none.
using CompilationId = Id<struct CompilationTag, uint64_t>;

// The next revision of a plan, with its buckets in another order.
struct RecutInput {
  std::shared_ptr<const plan::Plan> plan;
  BucketPolicy policy;
  std::vector<uint32_t> order;
};

// A plan that this job has adopted, as a worker sent it after a restart.
struct RecalledPlan {
  std::shared_ptr<const std::string> bytes;
  // The plan must have all of these.
  record::PlanImage image;
  std::string digest;
  Revision revision;
  Mesh mesh;
  SyncMode sync = SyncMode::kStatic;
};

using CompileInput = std::variant<plan::PlanInput, RecutInput, RecalledPlan>;

struct CompiledPlan {
  std::shared_ptr<const plan::Plan> plan;
  std::string digest;
  record::PlanImage image;
};

// proto's codec of plans, as functions: this module does not link it.
struct PlanCodec {
  std::function<std::string(const plan::Plan&)> bytes;
  std::function<absl::StatusOr<plan::Plan>(const std::string&)> parse;
};

// Returns a verified plan. Errors: as plan::Compile, plan::Recut, plan::Verify
// and plan::CheckSync; DataLoss for a recalled plan that is another one. Bytes
// that do not have the SHA-256 are not parsed.
absl::StatusOr<CompiledPlan> MakePlan(const CompileInput& input,
                                      const PlanCodec& codec);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COMPILATION_H_
