#include "examples/digits/progress_report.h"

#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace lockstep::digits {

std::string ToMachineLine(const Progress& progress) {
  return absl::StrFormat("progress %d %.3f %.6g", progress.done,
                         progress.seconds, progress.loss);
}

std::optional<Progress> FromMachineLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  Progress progress;
  if (words.size() != 4 || words[0] != "progress" ||
      !absl::SimpleAtoi(words[1], &progress.done) ||
      !absl::SimpleAtod(words[2], &progress.seconds) ||
      !absl::SimpleAtod(words[3], &progress.loss)) {
    return std::nullopt;
  }
  return progress;
}

void ProgressReport::Passed(int64_t step, double loss) const {
  const Progress progress{step + 1, steps_, seconds(), loss};
  if (!for_machines_) return printer_.Show(progress);
  std::printf("%s\n", ToMachineLine(progress).c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::digits
