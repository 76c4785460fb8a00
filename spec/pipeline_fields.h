// The forms (value_format.h) of the fields of `pipeline`, whose domains depend
// on each other and on the mesh.

#ifndef LOCKSTEP_SPEC_PIPELINE_FIELDS_H_
#define LOCKSTEP_SPEC_PIPELINE_FIELDS_H_

#include <string>
#include <vector>

#include "spec/value_format.h"

namespace lockstep::spec {

// An axis of the mesh.
struct PipelineAxisForm {
  std::string Type() const { return "axis"; }
  std::string Domain() const { return "an axis of the mesh"; }
  Written Print(const std::string& value) const { return value; }
  absl::StatusOr<std::string> Read(const Written& written) const;
  std::string Fault(const std::string& value, const JobSpec& spec) const;
};

struct PipelineScheduleForm : ChoiceForm<PipelineSchedule> {
  PipelineScheduleForm();
  std::string Fault(PipelineSchedule value, const JobSpec& spec) const;
};

// f32[4,128], with a + between parts; a single activation needs no list.
struct ActivationsForm {
  std::string Type() const { return "list of types"; }
  std::string Domain() const;
  Written Print(const std::vector<Activation>& value) const;
  absl::StatusOr<std::vector<Activation>> Read(const Written& written) const;
  std::string Fault(const std::vector<Activation>& value,
                    const JobSpec& spec) const;
};

struct PipelineTagsForm : ChoiceForm<PipelineTags> {
  PipelineTagsForm();
  std::string Fault(PipelineTags value, const JobSpec& spec) const;
};

// Distinct names of parameters.
struct ParameterNamesForm {
  std::string Type() const { return "list of names"; }
  std::string Domain() const { return "distinct names of parameters"; }
  Written Print(const std::vector<std::string>& value) const { return value; }
  absl::StatusOr<std::vector<std::string>> Read(const Written& written) const;
  std::string Fault(const std::vector<std::string>& value,
                    const JobSpec& spec) const;
};

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_PIPELINE_FIELDS_H_
