// What a worker sent during its training, as a line for a program.
//
//   moved 1203456 98304 24576     bytes of gradients, activations, halos

#ifndef LOCKSTEP_EXAMPLES_DIGITS_TRAFFIC_REPORT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_TRAFFIC_REPORT_H_

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lockstep/session.h"

namespace lockstep::digits {

inline std::string ToMachineLine(const LaneBytes& bytes) {
  return absl::StrCat("moved ", bytes.gradient, " ", bytes.pipeline, " ",
                      bytes.halo);
}

// Empty for any other line.
inline std::optional<LaneBytes> TrafficFromMachineLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  LaneBytes bytes;
  if (words.size() != 4 || words[0] != "moved" ||
      !absl::SimpleAtoi(words[1], &bytes.gradient) ||
      !absl::SimpleAtoi(words[2], &bytes.pipeline) ||
      !absl::SimpleAtoi(words[3], &bytes.halo)) {
    return std::nullopt;
  }
  return bytes;
}

inline void ReportTraffic(const LaneBytes& bytes) {
  std::printf("%s\n", ToMachineLine(bytes).c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_TRAFFIC_REPORT_H_
