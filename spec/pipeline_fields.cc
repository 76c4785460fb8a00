#include "spec/pipeline_fields.h"

#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"
#include "plan/schedule/pipeline_shape.h"
#include "protocol/parameter.h"
#include "protocol/tensor_type.h"

namespace lockstep::spec {

absl::StatusOr<std::string> PipelineAxisForm::Read(
    const Written& written) const {
  return WordOf(written);
}

std::string PipelineAxisForm::Fault(const std::string&,
                                    const JobSpec& spec) const {
  return plan::AxisFault(spec.pipeline, spec.mesh);
}

PipelineScheduleForm::PipelineScheduleForm() {
  for (const PipelineSchedule schedule : kAllPipelineSchedules) {
    choices.emplace_back(std::string(Name(schedule)), schedule);
  }
}

std::string PipelineScheduleForm::Fault(PipelineSchedule value,
                                        const JobSpec& spec) const {
  const std::string unknown = ChoiceForm<PipelineSchedule>::Fault(value, spec);
  if (!unknown.empty()) return unknown;
  if (plan::HasPipeline(spec.pipeline) && spec.sync == SyncMode::kNegotiated) {
    return "sync: negotiated takes no pipeline";
  }
  return plan::ScheduleFault(spec.pipeline, spec.mesh);
}

std::string ActivationsForm::Domain() const {
  return "one for each boundary between stages, or one for all, such as "
         "f32[4,128] or f32[4,128]+i32[4]";
}

Written ActivationsForm::Print(const std::vector<Activation>& value) const {
  WrittenList list;
  for (const Activation& activation : value) {
    list.push_back(TypeText(activation));
  }
  return list;
}

absl::StatusOr<std::vector<Activation>> ActivationsForm::Read(
    const Written& written) const {
  WrittenList words;
  if (const auto* list = std::get_if<WrittenList>(&written)) {
    words = *list;
  } else {
    absl::StatusOr<std::string> word = WordOf(written);
    if (!word.ok()) return word.status();
    words.push_back(*std::move(word));
  }
  std::vector<Activation> activations;
  for (const std::string& word : words) {
    std::optional<Activation> activation = ParseActivation(word);
    if (!activation.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::Utf8SafeCEscape(word),
                       "\" is not a type such as f32[4,128], or several with "
                       "a + between"));
    }
    activations.push_back(*std::move(activation));
  }
  return activations;
}

std::string ActivationsForm::Fault(const std::vector<Activation>&,
                                   const JobSpec& spec) const {
  return plan::ActivationsFault(spec.pipeline, spec.mesh);
}

PipelineTagsForm::PipelineTagsForm()
    : ChoiceForm<PipelineTags>{
          {{"safe", PipelineTags::kSafe}, {"paired", PipelineTags::kPaired}}} {}

std::string PipelineTagsForm::Fault(PipelineTags value,
                                    const JobSpec& spec) const {
  const std::string unknown = ChoiceForm<PipelineTags>::Fault(value, spec);
  if (!unknown.empty()) return unknown;
  return plan::TagsFault(spec.pipeline, spec.mesh);
}

absl::StatusOr<std::vector<std::string>> ParameterNamesForm::Read(
    const Written& written) const {
  if (const auto* list = std::get_if<WrittenList>(&written)) return *list;
  return absl::InvalidArgumentError("is not a list, such as [a, b]");
}

std::string ParameterNamesForm::Fault(const std::vector<std::string>& value,
                                      const JobSpec&) const {
  std::set<absl::string_view> seen;
  for (const std::string& name : value) {
    const bool good = !name.empty() && name.size() <= kParameterNameBytesMax &&
                      IsPrintableUtf8(name);
    if (!good || !seen.insert(name).second) {
      return absl::StrCat("\"", absl::CEscape(name),
                          "\" is there twice, or no name of a parameter");
    }
  }
  return "";
}

}  // namespace lockstep::spec
