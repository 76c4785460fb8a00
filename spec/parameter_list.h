// Parameters that a spec file declares, for plans that are made without workers
// (`lockstepctl plan compile`): what each rank would register.
//
//   parameters:
//   - {name: embed, shape: [50257, 768], dtype: bf16, stage: 0}
//   - {name: head, shape: [768, 50257], stage: [3]}
//
// A stage's parameter is held by the ranks of that stage, and reduced over all
// axes of the mesh but the pipeline's; one without a stage by all ranks.

#ifndef LOCKSTEP_SPEC_PARAMETER_LIST_H_
#define LOCKSTEP_SPEC_PARAMETER_LIST_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"
#include "protocol/parameter.h"
#include "spec/yaml_tree.h"

namespace lockstep::spec {

struct DeclaredParameter {
  Parameter parameter;
  std::vector<int> stages;  // that hold it; none: all ranks do
  int line = 0;             // where the file has it
  bool operator==(const DeclaredParameter&) const = default;
};

struct SpecFile {
  JobSpec spec;
  std::vector<DeclaredParameter> parameters;
};

// Errors say the line, the field and what is wrong with it, or the known field
// that is nearest to an unknown one.
std::variant<std::vector<DeclaredParameter>, YamlError> ReadParameters(
    const YamlNode& list);

// What each rank of the spec's mesh registers. InvalidArgument, beginning with
// the line: a stage that the spec's pipeline does not have; a parameter of a
// stage in a mesh that has no other axis than the pipeline's; more parameters
// of a rank than limits.parameters_max.
absl::StatusOr<std::vector<std::vector<Parameter>>> RegistrationsOf(
    const SpecFile& file);

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_PARAMETER_LIST_H_
