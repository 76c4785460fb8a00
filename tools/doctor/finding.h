// What `lockstepctl doctor` says about one thing that it has checked.

#ifndef LOCKSTEP_TOOLS_DOCTOR_FINDING_H_
#define LOCKSTEP_TOOLS_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace lockstep::doctor {

enum class Severity {
  kSkipped,  // there was nothing to check
  kOk,
  kWarning,  // works now, or only in some jobs does not
  kError,    // will not work
};

struct Finding {
  Severity severity = Severity::kOk;
  std::string what;   // with the object and both values
  std::string why;    // it matters: what will happen
  std::string fix;    // a command, or a setting
  std::string check;  // its name, which Diagnose fills in
};
using Findings = std::vector<Finding>;

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_TOOLS_DOCTOR_FINDING_H_
