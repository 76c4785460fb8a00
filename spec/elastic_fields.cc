#include "spec/elastic_fields.h"

#include <bit>

#include "absl/strings/str_format.h"
#include "plan/schedule/pipeline_shape.h"

namespace lockstep::spec {
namespace {

constexpr char kNoAxis[] = "none";
constexpr char kNeedsAxis[] =
    "is about an elastic axis, and there is none: set elastic.axis";

}  // namespace

Written ElasticAxisForm::Print(const std::string& value) const {
  return value.empty() ? kNoAxis : value;
}

absl::StatusOr<std::string> ElasticAxisForm::Read(
    const Written& written) const {
  absl::StatusOr<std::string> word = WordOf(written);
  if (word.ok() && *word == kNoAxis) word->clear();
  return word;
}

std::string ElasticAxisForm::Fault(const std::string& value,
                                   const JobSpec& spec) const {
  if (value.empty()) return "";
  const int axis = spec.mesh.AxisIndex(value);
  if (axis < 0 || value == kNoAxis) {
    return absl::StrFormat("%s is no axis of mesh %s that can be elastic",
                           value, ToString(spec.mesh));
  }
  if (plan::HasPipeline(spec.pipeline) && spec.pipeline.axis == value) {
    return absl::StrFormat(
        "%s is the pipeline's axis, whose stages cannot become fewer", value);
  }
  const int size = spec.mesh.axes[static_cast<size_t>(axis)].size;
  if (spec.reproducible.leaves > 0 &&
      !std::has_single_bit(static_cast<unsigned>(size))) {
    return absl::StrFormat(
        "%s has %d ranks: with reproducible.leaves the size of an elastic axis "
        "must be a power of two",
        value, size);
  }
  return "";
}

std::string MinWorkersForm::Fault(int value, const JobSpec& spec) const {
  std::string outside = NumberForm<int>::Fault(value, spec);
  if (!outside.empty() || value == 0) return outside;
  if (spec.elastic.axis.empty()) return kNeedsAxis;
  if (value <= spec.mesh.WorldSize()) return "";
  return absl::StrFormat("%d workers are more than mesh %s has ranks", value,
                         ToString(spec.mesh));
}

std::string ElasticWaitForm::Fault(absl::Duration value,
                                   const JobSpec& spec) const {
  const std::string outside = DurationForm::Fault(value, spec);
  if (!outside.empty() || value == absl::ZeroDuration()) return outside;
  return spec.elastic.axis.empty() ? kNeedsAxis : "";
}

}  // namespace lockstep::spec
