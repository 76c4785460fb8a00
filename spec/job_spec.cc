#include "lockstep/job_spec.h"

#include "absl/strings/str_cat.h"
#include "spec/field.h"

namespace lockstep {

using spec::SpecFieldRule;
using spec::SpecFields;

std::vector<SpecField> FieldsOf(const JobSpec& spec) {
  std::vector<SpecField> fields;
  for (const SpecFieldRule& rule : SpecFields()) {
    fields.push_back({rule.name, spec::OneLine(rule.print(spec))});
  }
  return fields;
}

std::vector<SpecDifference> Differences(const JobSpec& a, const JobSpec& b) {
  std::vector<SpecDifference> differences;
  for (const SpecFieldRule& rule : SpecFields()) {
    std::string in_a = spec::OneLine(rule.print(a));
    std::string in_b = spec::OneLine(rule.print(b));
    if (in_a != in_b) {
      differences.push_back({rule.name, std::move(in_a), std::move(in_b)});
    }
  }
  return differences;
}

absl::Status Validate(const JobSpec& spec) {
  for (const SpecFieldRule& rule : SpecFields()) {
    const std::string fault = rule.fault(spec);
    if (!fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(rule.name, ": ", fault));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
