#include "server/core/compilation.h"

#include <utility>

#include "plan/digest.h"
#include "plan/verify/verify.h"

namespace lockstep::core {
namespace {

absl::StatusOr<plan::Plan> Make(const plan::PlanInput& input) {
  absl::StatusOr<plan::Plan> plan = plan::Compile(input);
  absl::Status status = plan.status();
  if (status.ok()) status = plan::Verify(*plan);
  if (status.ok()) status = plan::CheckSync(*plan, input.sync);
  if (!status.ok()) return status;
  return plan;
}

absl::StatusOr<plan::Plan> Make(const RecutInput& input) {
  absl::StatusOr<plan::Plan> plan =
      plan::Recut(*input.plan, input.policy, input.order);
  absl::Status status = plan.status();
  if (status.ok()) status = plan::Verify(*plan);
  if (!status.ok()) return status;
  return plan;
}

}  // namespace

absl::StatusOr<CompiledPlan> MakePlan(const CompileInput& input) {
  absl::StatusOr<plan::Plan> plan =
      std::visit([](const auto& i) { return Make(i); }, input);
  if (!plan.ok()) return plan.status();
  std::string digest = plan::DigestOf(*plan);
  return CompiledPlan{std::make_shared<const plan::Plan>(*std::move(plan)),
                      std::move(digest)};
}

}  // namespace lockstep::core
