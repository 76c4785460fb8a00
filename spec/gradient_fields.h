// The forms (value_format.h) of the fields about gradient transfers, whose
// domains depend on each other.

#ifndef LOCKSTEP_SPEC_GRADIENT_FIELDS_H_
#define LOCKSTEP_SPEC_GRADIENT_FIELDS_H_

#include <optional>
#include <string>

#include "lockstep/dtype.h"
#include "spec/value_format.h"

namespace lockstep::spec {

// A half, or "none".
struct WireDTypeForm {
  std::string Type() const { return "word"; }
  std::string Domain() const { return "none, bf16, f16"; }
  Written Print(std::optional<DType> value) const;
  absl::StatusOr<std::optional<DType>> Read(const Written& written) const;
  std::string Fault(std::optional<DType> value, const JobSpec& spec) const;
};

// True is allowed only if gradients are cast, in an order that the plan fixes.
struct ErrorFeedbackForm : BoolForm {
  std::string Fault(bool value, const JobSpec& spec) const;
};

// The number of leaves of the reduction tree, or none.
// Buckets in turn, of which one is spare.
struct WindowsForm : BoolForm {
  std::string Fault(bool value, const JobSpec& spec) const;
};

struct LeavesForm {
  std::string Type() const { return "number"; }
  std::string Domain() const { return "0, or a power of two, up to 1024"; }
  Written Print(int value) const { return std::to_string(value); }
  absl::StatusOr<int> Read(const Written& written) const;
  std::string Fault(int value, const JobSpec& spec) const;
};

// Steps in flight share nothing, and devices decide their verdicts.
struct RunAheadForm : NumberForm<int> {
  std::string Fault(int value, const JobSpec& spec) const;
};

}  // namespace lockstep::spec

#endif  // LOCKSTEP_SPEC_GRADIENT_FIELDS_H_
