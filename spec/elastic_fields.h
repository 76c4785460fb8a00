// The forms (value_format.h) of the fields of `elastic`, whose domains depend
// on each other and on the mesh.

#ifndef LOCKSTEP_SPEC_ELASTIC_FIELDS_H_
#define LOCKSTEP_SPEC_ELASTIC_FIELDS_H_

#include <string>

#include "spec/value_format.h"

namespace lockstep::spec {

// An axis of the mesh, or "none".
struct ElasticAxisForm {
  std::string Type() const { return "axis"; }
  std::string Domain() const {
    return "none, or an axis of the mesh, not the pipeline's";
  }
  Written Print(const std::string& value) const;
  absl::StatusOr<std::string> Read(const Written& written) const;
  std::string Fault(const std::string& value, const JobSpec& spec) const;
};

// A number of workers; 0: those of one replica.
struct MinWorkersForm : NumberForm<int> {
  std::string Fault(int value, const JobSpec& spec) const;
};

struct ElasticWaitForm : DurationForm {
  std::string Fault(absl::Duration value, const JobSpec& spec) const;
};

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_ELASTIC_FIELDS_H_
