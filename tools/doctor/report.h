// The findings of `lockstepctl doctor`, for people and for programs.

#ifndef LOCKSTEP_TOOLS_DOCTOR_REPORT_H_
#define LOCKSTEP_TOOLS_DOCTOR_REPORT_H_

#include <string>

#include "tools/doctor/finding.h"

namespace lockstep::doctor {

// "ok", "warning", "error" or "skipped".
const char* NameOf(Severity severity);

int CountOf(const Findings& findings, Severity severity);

// A line for each finding, with its reason and its fix below, and a last line
// with their numbers. Ends with a newline.
std::string ReportAsText(const Findings& findings);

// docs/lockstepctl.md has the fields. Ends with a newline.
std::string ReportAsJson(const Findings& findings);

// All of a finding in one line, without a newline: for the log of another
// command.
std::string FindingAsLine(const Finding& finding);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_TOOLS_DOCTOR_REPORT_H_
