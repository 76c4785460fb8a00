#include "plan/schedule/pipeline_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "protocol/tensor_type.h"

namespace lockstep::plan {
namespace {

size_t PartsMax(const PipelineSpec& spec) {
  size_t parts = 1;
  for (const Activation& activation : spec.activations) {
    parts = std::max(parts, activation.parts.size());
  }
  return parts;
}

// Both are at most kTagMax, so the sum does not overflow.
absl::StatusOr<uint64_t> Bounded(uint64_t base, uint64_t number) {
  const uint64_t tag = base + number;
  if (base <= kTagMax && number <= kTagMax && tag <= kTagMax) return tag;
  return absl::OutOfRangeError(absl::StrFormat(
      "tag %d + %d is beyond the largest, %d", base, number, kTagMax));
}

// The limits of a spec bound stages, micro-batches and parts: less than 2^20
// messages per direction, and parts that fit in a text of 1 MiB.
uint64_t SafeNumber(const PipelineSpec& spec, const MessageName& message) {
  const uint64_t of_boundary =
      static_cast<uint64_t>(message.boundary) * spec.micro_batches;
  const uint64_t exchange = of_boundary + message.micro_batch;
  const uint64_t one_way = exchange * 2 + (message.is_gradient ? 1 : 0);
  return one_way * PartsMax(spec) + message.part;
}

MessageName LastMessage(const PipelineSpec& spec, int stages) {
  return {.boundary = stages - 2,
          .micro_batch = spec.micro_batches - 1,
          .is_gradient = true,
          .part = static_cast<int>(PartsMax(spec)) - 1};
}

}  // namespace

ScheduleShape ShapeOf(const PipelineSpec& spec, const Mesh& mesh) {
  return {.kind = spec.schedule,
          .ranks = mesh.axes[mesh.AxisIndex(spec.axis)].size,
          .micro_batches = spec.micro_batches,
          .virtual_stages = spec.virtual_stages};
}

const Activation& ActivationAt(const PipelineSpec& spec, int boundary) {
  return spec.activations.size() == 1 ? spec.activations[0]
                                      : spec.activations[boundary];
}

absl::StatusOr<uint64_t> TagOf(const PipelineSpec& spec,
                               const MessageName& message) {
  if (spec.tags == PipelineTags::kSafe) {
    return Bounded(spec.tag_base, SafeNumber(spec, message));
  }
  const uint64_t micro_batch = static_cast<uint64_t>(message.micro_batch);
  return Bounded(spec.tag_base,
                 2 * micro_batch + (message.is_gradient ? 1 : 0));
}

std::string AxisFault(const PipelineSpec& spec, const Mesh& mesh) {
  if (!HasPipeline(spec) || mesh.AxisIndex(spec.axis) >= 0) return "";
  return absl::StrFormat("%s is no axis of mesh %s", spec.axis, ToString(mesh));
}

std::string ScheduleFault(const PipelineSpec& spec, const Mesh& mesh) {
  if (!HasPipeline(spec)) return "";
  return std::string(ValidateShape(ShapeOf(spec, mesh)).message());
}

std::string ActivationsFault(const PipelineSpec& spec, const Mesh& mesh) {
  if (!HasPipeline(spec)) return "";
  const size_t boundaries =
      static_cast<size_t>(ShapeOf(spec, mesh).stages()) - 1;
  const size_t given = spec.activations.size();
  if (given != boundaries && !(given == 1 && boundaries > 0)) {
    return absl::StrFormat(
        "has %d entries, but there are %d boundaries between stages: give one "
        "for each, or one for all",
        given, boundaries);
  }
  for (const Activation& activation : spec.activations) {
    if (activation.parts.empty()) return "has an entry without a part";
    for (const TensorType& part : activation.parts) {
      const std::string fault = FaultOf(part);
      if (!fault.empty()) return absl::StrCat("has a part that ", fault);
    }
    if (GradientOf(activation).parts.empty()) {
      return absl::StrCat(TypeText(activation),
                          " has no part that is floating point");
    }
  }
  return "";
}

std::string TagsFault(const PipelineSpec& spec, const Mesh& mesh) {
  if (!HasPipeline(spec)) return "";
  const ScheduleShape shape = ShapeOf(spec, mesh);
  const bool one_each = shape.virtual_stages == 1 && PartsMax(spec) == 1;
  if (spec.tags == PipelineTags::kPaired && !one_each) {
    return "paired tags do not tell virtual stages or parts apart: use safe";
  }
  if (shape.stages() == 1) return "";
  return std::string(
      TagOf(spec, LastMessage(spec, shape.stages())).status().message());
}

absl::Status Validate(const PipelineSpec& spec, const Mesh& mesh) {
  const std::pair<const char*,
                  std::string (*)(const PipelineSpec&, const Mesh&)>
      rules[] = {{"axis", AxisFault},
                 {"schedule", ScheduleFault},
                 {"activations", ActivationsFault},
                 {"tags", TagsFault}};
  for (const auto& [field, fault_of] : rules) {
    const std::string fault = fault_of(spec, mesh);
    if (fault.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("pipeline.", field, ": ", fault));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan
