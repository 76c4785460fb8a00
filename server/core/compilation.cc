#include "server/core/compilation.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "plan/digest.h"
#include "plan/verify/verify.h"
#include "server/core/token.h"

namespace lockstep::core {
namespace {

absl::StatusOr<plan::Plan> Make(const plan::PlanInput& input,
                                const PlanCodec&) {
  absl::StatusOr<plan::Plan> plan = plan::Compile(input);
  absl::Status status = plan.status();
  if (status.ok()) status = plan::Verify(*plan);
  if (status.ok()) status = plan::CheckSync(*plan, input.sync);
  if (!status.ok()) return status;
  return plan;
}

absl::StatusOr<plan::Plan> Make(const RecutInput& input, const PlanCodec&) {
  absl::StatusOr<plan::Plan> plan =
      plan::Recut(*input.plan, input.policy, input.order);
  absl::Status status = plan.status();
  if (status.ok()) status = plan::Verify(*plan);
  if (!status.ok()) return status;
  return plan;
}

record::PlanImage ImageOf(const std::string& bytes) {
  return {bytes.size(), Sha256(bytes)};
}

// The digest is no defence against forgery, and a plan of another version of
// lockstepd may have another one.
absl::StatusOr<plan::Plan> Make(const RecalledPlan& input,
                                const PlanCodec& codec) {
  const record::PlanImage image = ImageOf(*input.bytes);
  if (image != input.image) {
    return absl::DataLossError(absl::StrFormat(
        "%d bytes with SHA-256 %s; the journal has %d bytes with SHA-256 %s",
        image.bytes, image.sha256, input.image.bytes, input.image.sha256));
  }
  absl::StatusOr<plan::Plan> plan = codec.parse(*input.bytes);
  if (!plan.ok()) return plan;
  const std::string digest = plan::DigestOf(*plan);
  if (digest != input.digest || plan->revision != input.revision ||
      plan->mesh != input.mesh) {
    return absl::DataLossError(absl::StrFormat(
        "revision %d for mesh %s with digest %s; the adopted one is revision "
        "%d for mesh %s with digest %s",
        plan->revision.value, ToString(plan->mesh), digest,
        input.revision.value, ToString(input.mesh), input.digest));
  }
  absl::Status status = plan::Verify(*plan);
  if (status.ok()) status = plan::CheckSync(*plan, input.sync);
  if (!status.ok()) return status;
  return plan;
}

record::PlanImage ImageOf(const CompileInput& input, const plan::Plan& plan,
                          const PlanCodec& codec) {
  const auto* recalled = std::get_if<RecalledPlan>(&input);
  return recalled != nullptr ? recalled->image : ImageOf(codec.bytes(plan));
}

}  // namespace

absl::StatusOr<CompiledPlan> MakePlan(const CompileInput& input,
                                      const PlanCodec& codec) {
  absl::StatusOr<plan::Plan> plan =
      std::visit([&](const auto& i) { return Make(i, codec); }, input);
  if (!plan.ok()) return plan.status();
  std::string digest = plan::DigestOf(*plan);
  record::PlanImage image = ImageOf(input, *plan, codec);
  return CompiledPlan{std::make_shared<const plan::Plan>(*std::move(plan)),
                      std::move(digest), std::move(image)};
}

}  // namespace lockstep::core
