#include "examples/digits/progress.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_format.h"

namespace lockstep::digits {
namespace {

bool IsTenth(const Progress& progress) {
  return progress.done * 10 / progress.steps !=
         (progress.done - 1) * 10 / progress.steps;
}

}  // namespace

std::string ProgressLine(const Progress& progress) {
  constexpr int64_t kWidth = 30;
  const int64_t filled = kWidth * progress.done / progress.steps;
  std::string bar(filled, '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  const double rate =
      progress.seconds > 0
          ? static_cast<double>(progress.done) / progress.seconds
          : 0;
  return absl::StrFormat("[%s] %d/%d   %.1f steps/s   loss %.4f", bar,
                         progress.done, progress.steps, rate, progress.loss);
}

ProgressPrinter::ProgressPrinter() : terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressPrinter::Show(const Progress& progress) const {
  const std::string line = ProgressLine(progress);
  if (terminal_) {
    const char* end = progress.done < progress.steps ? "" : "\n";
    std::fprintf(stderr, "\r%s\x1b[K%s", line.c_str(), end);
  } else if (IsTenth(progress)) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

}  // namespace lockstep::digits
