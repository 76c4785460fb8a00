// A job spec as text: YAML, or JSON (which YAML reads).
//
//   name: digits
//   mesh: data=4                 # or a map: {data: 4}
//   transport: gloo
//   buckets: {first_bytes_max: 1MiB, bytes_max: 25MiB}
//   timeouts: {join: 5m, lease: 10s}
//
// docs/spec.md lists every field. Errors are InvalidArgument of the form
// "FILE:LINE: FIELD: what is wrong", for: an unknown or repeated key (with the
// nearest known one), a value of the wrong form or out of its domain, a missing
// field; and "FILE:LINE: what is wrong" for text that is not YAML, is not
// one map, or is longer than 1 MiB. These functions do not throw.

#ifndef LOCKSTEP_SPEC_SPEC_TEXT_H_
#define LOCKSTEP_SPEC_SPEC_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/job_spec.h"
#include "spec/parameter_list.h"

namespace lockstep::spec {

// `file` is used only in messages. The declared parameters are validated but
// not returned: workers register theirs.
absl::StatusOr<JobSpec> ParseJobSpec(absl::string_view text,
                                     absl::string_view file);

// Returns the declared parameters too.
absl::StatusOr<SpecFile> ParseSpecFile(absl::string_view text,
                                       absl::string_view file);

// Whether the text is meant as a job spec, valid or not: a map with a job's
// name and without a plan's ranks. For messages about mistaken files.
bool LooksLikeJobSpec(absl::string_view text);

// The spec as YAML that ParseJobSpec reads back to an equal spec.
std::string ToYaml(const JobSpec& spec);

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_SPEC_TEXT_H_
