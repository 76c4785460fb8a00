// Parameters that a spec file declares, for plans that are compiled without
// workers (`lockstepctl plan compile`): the parameters that each rank would
// register.
//
//   parameters:
//   - {name: embed, shape: [50257, 768], dtype: bf16, stage: 0}
//   - {name: head, shape: [768, 50257], stage: [3]}
//
// The ranks of a stage have its parameters and reduce them over all axes of the
// mesh but the pipeline's. All ranks have the parameters without a stage.

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
  std::vector<int> stages;  // that have it; none: all ranks do
  int line = 0;             // in the file
  bool operator==(const DeclaredParameter&) const = default;
};

struct SpecFile {
  JobSpec spec;
  std::vector<DeclaredParameter> parameters;
};

// Errors name the line, the field and the fault, or the known field that is
// nearest to an unknown one.
std::variant<std::vector<DeclaredParameter>, YamlError> ReadParameters(
    const YamlNode& list);

// The registrations of each rank of the spec's mesh. InvalidArgument, starting
// with the line: a stage that the spec's pipeline does not have; a parameter of
// a stage in a mesh without an axis besides the pipeline's; more parameters of
// a rank than limits.parameters_max.
absl::StatusOr<std::vector<std::vector<Parameter>>> RegistrationsOf(
    const SpecFile& file);

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_PARAMETER_LIST_H_
