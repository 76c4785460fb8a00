// The table of a job spec's fields. FieldsOf, Differences, Validate, the reader
// and the writer of spec files and the test of docs/spec.md all use it. To add
// a field, add a line to the table.

#ifndef LOCKSTEP_SPEC_FIELD_H_
#define LOCKSTEP_SPEC_FIELD_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"
#include "spec/value_format.h"

namespace lockstep::spec {

struct SpecFieldRule {
  std::string name;       // "buckets.bytes_max": at most one section
  std::string type;       // "size"
  std::string domain;     // "1 to 1TiB"
  bool required = false;  // a spec file must have it
  std::function<Written(const JobSpec&)> print;
  // InvalidArgument says why the text is invalid; it does not name the field.
  std::function<absl::Status(const Written&, JobSpec*)> read;
  // Why the field is out of its domain; empty if it is not.
  std::function<std::string(const JobSpec&)> fault;
};

// In the order in which a spec is printed; fields of a section are adjacent.
const std::vector<SpecFieldRule>& SpecFields();

// The value of a field on one line: "data=2,pipe=4", "[a, b]".
std::string OneLine(const Written& written);

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_FIELD_H_
