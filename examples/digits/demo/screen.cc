#include "examples/digits/demo/screen.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace lockstep::digits {
namespace {

constexpr char kAccuracyPrefix[] = "test accuracy: ";
constexpr char kErrorPrefix[] = "gradient error: ";

// Without a last step there is no bar.
void ShowEndless(const Progress& progress) {
  if (isatty(STDERR_FILENO) != 1) return;
  absl::FPrintF(
      stderr, "\rstep %d   %.1f steps/s   loss %.4f\x1b[K", progress.done,
      static_cast<double>(progress.done) / progress.seconds, progress.loss);
}

}  // namespace

void Screen::Take(const std::string& name, absl::string_view line) {
  if (std::optional<Progress> progress = FromMachineLine(line)) {
    progress->steps = flags_.steps;
    steps_done_ = progress->done;
    return flags_.hold ? ShowEndless(*progress) : printer_.Show(*progress);
  }
  if (const std::optional<LaneBytes> bytes = TrafficFromMachineLine(line)) {
    bytes_moved_.gradient += bytes->gradient;
    bytes_moved_.pipeline += bytes->pipeline;
    bytes_moved_.halo += bytes->halo;
    return;
  }
  absl::string_view rest = line;
  if (absl::ConsumePrefix(&rest, kAccuracyPrefix)) {
    absl::ConsumeSuffix(&rest, " %");
    if (!absl::SimpleAtod(rest, &accuracy_)) accuracy_ = 0;
    return;
  }
  if (absl::ConsumePrefix(&rest, kErrorPrefix)) {
    double error = 0;
    if (!absl::SimpleAtod(rest, &error)) return;
    audits_ += 1;
    gradient_error_ = std::max(gradient_error_, error);
    return;
  }
  absl::PrintF("%s: %s\n", name, line);
}

}  // namespace lockstep::digits
