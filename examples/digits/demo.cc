// `./run demo`: a coordinator and its workers, and a comparison with the
// training of one process.
//
//   lockstepd ── worker-0 .. worker-3 ──▶ weights of every worker ─┐
//   digits_local, same seed and steps ──▶ weights of one process ──┴─▶ compare
//
// Passes if no weight differs by more than 1e-9 (sums have another order), and
// 95 % of the test images are classified correctly; short runs are exempt from
// the second condition. A job that an operator ends (lockstepctl stop or drain)
// also passes if its workers end at one step with the same weights. With halves
// on the wire, every worker instead compares every step's gradients with those
// of one process, from equal weights, within the bound of rounding
// (wire_bound.h). With --device cuda the workers train on the GPUs of this
// machine (gpu_workers.h), the one process still on the host. With an axis
// domain images are cut over rows, so that halos move as well (row_domain.h).
//
// With --state the workers save checkpoints. --kill-all kills all processes in
// the middle of the training (exit 3); --resume goes on from the newest
// checkpoint, and passes only if it ends with the weights of a training that
// nothing interrupted (demo/saved_run.h).

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/standard_streams.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/demo/job_files.h"
#include "examples/digits/demo/judgement.h"
#include "examples/digits/demo/saved_run.h"
#include "examples/digits/demo/screen.h"
#include "examples/digits/demo/training.h"
#include "examples/digits/flags.h"

namespace lockstep::digits {
namespace {

bool WasInterrupted(int code) {
  return code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP;
}

int Fail() {
  absl::PrintF("demo: FAIL\n");
  return 1;
}

int Fail(const absl::Status& why) {
  absl::FPrintF(stderr, "demo: %s\n", std::string(why.message()));
  return Fail();
}

int End() {
  absl::PrintF("demo: ENDED by an operator\n");
  return 0;
}

// `lockstepctl stop --now`: the workers returned errors, as expected.
int EndedAtOnce(const Screen& screen) {
  absl::PrintF(
      "ended by an operator, at once, after %d steps\n"
      "not compared: the workers dropped the step in progress and keep no "
      "weights\n",
      screen.steps_done());
  return End();
}

// `lockstepctl stop` or `drain`: all workers left after the same step.
int EndedAfterAStep(const Flags& flags, const JobFiles& files,
                    const Screen& screen) {
  absl::PrintF("ended by an operator after %d steps: all %d workers left\n",
               screen.steps_done(), flags.workers);
  const absl::StatusOr<double> difference = CompareReplicas(flags, files);
  if (!difference.ok()) return Fail(difference.status());
  absl::PrintF(
      "largest weight difference between workers: %.3g (at most %.3g)\n"
      "not compared with one process, and no accuracy is promised: the "
      "training was to go on\n",
      *difference, kLargestDifference);
  return *difference <= kLargestDifference ? End() : Fail();
}

int EndKilled(const Flags& flags, const Screen& screen) {
  absl::PrintF(
      "demo: KILLED after %d steps; to go on: ./run demo --state %s --resume\n",
      screen.steps_done(), flags.state);
  return kExitKilled;
}

int RunDemo(const Flags& flags) {
  std::optional<SavedRun> saved;
  if (!flags.state.empty()) {
    const auto found = FindSavedRun(flags);
    if (!found.ok()) return Fail(found.status());
    saved = *found;
    const absl::Status fits = CheckSavedRun(flags, saved);
    if (!fits.ok()) return Fail(fits);
  }
  const JobFiles files;
  if (!files.status().ok()) {
    absl::FPrintF(stderr, "demo: %s\n", files.status().message());
    return 1;
  }
  Screen screen(flags);
  absl::PrintF("training with a coordinator and %d workers%s\n", flags.workers,
               flags.on_gpus() ? flags.gpus.Describe() : "");
  const int together = TrainTogether(flags, files, screen);
  if (together == kExitKilled && flags.kill_all) {
    return EndKilled(flags, screen);
  }
  if (WasInterrupted(together)) return together;
  if (together == kExitCancelled) return EndedAtOnce(screen);
  if (together != 0) return Fail();
  if (screen.steps_done() < flags.steps) {
    return EndedAfterAStep(flags, files, screen);
  }
  const double accuracy_together = screen.accuracy();

  if (flags.resume) {
    const int compared = CompareWithUninterrupted(flags, *saved, files);
    if (WasInterrupted(compared)) return compared;
    if (compared != 0) return Fail();
  }

  absl::PrintF("training the same in one process\n");
  const int alone = TrainAlone(flags, files, screen);
  if (WasInterrupted(alone)) return alone;
  if (alone != 0) return Fail();

  // A single stage cannot classify images, but equal weights classify equally.
  const double accuracy =
      flags.has_stages() ? screen.accuracy() : accuracy_together;
  const absl::StatusOr<double> difference = CompareWithOneProcess(flags, files);
  if (!difference.ok()) return Fail(difference.status());
  const bool same = IsTheSame(flags, screen, *difference);
  const bool moved = MovedAll(flags, screen);
  const bool reads_enough = ReadsEnough(flags, accuracy);
  if (!same || !moved || !reads_enough) return Fail();
  absl::PrintF("demo: PASS\n");
  return 0;
}

int Main(int argc, char** argv) {
  // Line-buffered, to keep the order with stderr if both go into one pipe.
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Flags flags;
  if (const std::optional<int> code = ReadFlags(argc, argv, &flags)) {
    return *code;
  }
  return RunDemo(flags);
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
