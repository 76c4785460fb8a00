#include "tools/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/text/count.h"
#include "base/text/utf8.h"

namespace lockstep::doctor {

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kSkipped: return "skipped";
    case Severity::kOk: return "ok";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  Fatal("no severity of a finding");
}

int CountOf(const Findings& findings, Severity severity) {
  return static_cast<int>(std::count_if(
      findings.begin(), findings.end(),
      [severity](const Finding& one) { return one.severity == severity; }));
}

std::string ReportAsText(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-8s %-14s %s\n", NameOf(finding.severity),
                          finding.check, Printable(finding.what));
    if (finding.severity < Severity::kWarning) continue;
    absl::StrAppendFormat(&text, "%24swhy: %s\n%24sfix: %s\n", "",
                          Printable(finding.why), "", Printable(finding.fix));
  }
  absl::StrAppend(&text, Count(CountOf(findings, Severity::kError), "error"),
                  ", ", Count(CountOf(findings, Severity::kWarning), "warning"),
                  "\n");
  return text;
}

std::string ReportAsJson(const Findings& findings) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"severity", NameOf(finding.severity)},
                    {"what", Printable(finding.what)},
                    {"why", Printable(finding.why)},
                    {"fix", Printable(finding.fix)}});
  }
  const Json report = {{"errors", CountOf(findings, Severity::kError)},
                       {"warnings", CountOf(findings, Severity::kWarning)},
                       {"findings", std::move(list)}};
  return absl::StrCat(report.dump(2), "\n");
}

std::string FindingAsLine(const Finding& finding) {
  return Printable(absl::StrCat(NameOf(finding.severity), ": ", finding.check,
                                ": ", finding.what, ": ", finding.why,
                                "; fix: ", finding.fix));
}

}  // namespace lockstep::doctor
