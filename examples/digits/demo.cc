// `./run demo`: a coordinator, its workers, and the proof that they train what
// one process would have trained.
//
//   lockstepd ── worker-0 .. worker-3 ──▶ weights of every worker ─┐
//   digits_local, same seed and steps ──▶ weights of one process ──┴─▶ compare
//
// Passes if no weight differs by more than 1e-9 and 95 % of the test images are
// read correctly.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::digits {
namespace {

namespace fs = std::filesystem;

constexpr double kLargestDifference = 1e-9;
constexpr double kLeastAccuracy = 95;  // percent
constexpr char kAccuracyPrefix[] = "test accuracy: ";
// As good as for ever: a step takes milliseconds.
constexpr int64_t kStepsOnHold = int64_t{1} << 40;

struct Flags {
  int workers = 4;
  int64_t steps = Recipe{}.steps;
  uint64_t seed = 1;
  std::string sync = "static";
  std::string transport = "gloo";
  bool hold = false;
};

// Where the weights are written; goes away with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = fs::temp_directory_path() / "lockstep-demo-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  std::string File(const std::string& name) const { return path_ / name; }

  // A job whose buckets are as small as its network, so that the first travel
  // while the backward pass is still at work.
  std::string WriteSpec(const Flags& flags) const {
    const std::string path = File("spec.yaml");
    std::ofstream(path) << absl::StrFormat(
        "name: digits\n"
        "mesh: data=%d\n"
        "sync: %s\n"
        "transport: %s\n"
        "buckets: {first_bytes_max: 8KiB, bytes_max: 32KiB}\n",
        flags.workers, flags.sync, flags.transport);
    return path;
  }

 private:
  fs::path path_;
};

// Shows what the children print: progress as a bar, the rest as it is.
class Screen {
 public:
  explicit Screen(const Flags& flags) : flags_(flags) {}

  void Take(const std::string& name, absl::string_view line) {
    if (std::optional<Progress> progress = FromMachineLine(line)) {
      progress->steps = flags_.steps;
      return flags_.hold ? ShowEndless(*progress) : printer_.Show(*progress);
    }
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, kAccuracyPrefix)) {
      absl::ConsumeSuffix(&rest, " %");
      if (!absl::SimpleAtod(rest, &accuracy_)) accuracy_ = 0;
      return;
    }
    absl::PrintF("%s: %s\n", name, line);
  }

  double accuracy() const { return accuracy_; }

 private:
  // There is no end to draw a bar to.
  static void ShowEndless(const Progress& progress) {
    if (isatty(STDERR_FILENO) != 1) return;
    absl::FPrintF(
        stderr, "\rstep %d   %.1f steps/s   loss %.4f\x1b[K", progress.done,
        static_cast<double>(progress.done) / progress.seconds, progress.loss);
  }

  const Flags& flags_;
  const ProgressPrinter printer_;
  double accuracy_ = 0;
};

launch::SupervisorOptions ShowOn(Screen& screen) {
  return {
      .on_ending =
          [](const std::string& name, pid_t pid, const launch::Ending& ending) {
            if (!ending.ok() && name != "lockstepd") {
              absl::FPrintF(stderr, "%s (process %d) %s\n", name, pid,
                            Describe(ending));
            }
          },
      .on_output = [&screen](
                       const std::string& name,
                       absl::string_view line) { screen.Take(name, line); },
  };
}

std::vector<std::string> Training(const Flags& flags,
                                  const std::string& program) {
  return {absl::StrCat(launch::OwnFolder(), "/", program),
          "--steps",
          absl::StrCat(flags.steps),
          "--seed",
          absl::StrCat(flags.seed),
          "--machine_progress"};
}

std::string WorkerName(int worker) { return absl::StrCat("worker-", worker); }

// Runs the job; the exit code of its workers.
int TrainTogether(const Flags& flags, const ScratchFolder& scratch,
                  Screen& screen) {
  launch::Supervisor supervisor(ShowOn(screen));
  const absl::StatusOr<std::string> address =
      launch::StartLocalDaemon(supervisor);
  if (!address.ok()) {
    absl::FPrintF(stderr, "demo: %s\n",
                  std::string(address.status().message()));
    return 1;
  }
  absl::PrintF("coordinator: %s\njob: digits\n", *address);
  std::fflush(stdout);
  const std::string spec = scratch.WriteSpec(flags);
  for (int worker = 0; worker < flags.workers; ++worker) {
    std::vector<std::string> command = Training(flags, "digits");
    command.insert(command.end(), {"--save", scratch.File(WorkerName(worker))});
    absl::Status started = supervisor.Start(
        WorkerName(worker),
        {.argv = command,
         .environment = launch::EnvironmentOf({.address = *address,
                                               .job = "digits",
                                               .worker = WorkerName(worker),
                                               .world_size = flags.workers,
                                               .spec_file = spec}),
         .capture_output = true});
    if (!started.ok()) {
      absl::FPrintF(stderr, "demo: %s\n", std::string(started.message()));
      return 1;
    }
  }
  return supervisor.Run();
}

int TrainAlone(const Flags& flags, const ScratchFolder& scratch,
               Screen& screen) {
  launch::Supervisor supervisor(ShowOn(screen));
  std::vector<std::string> command = Training(flags, "digits_local");
  command.insert(command.end(), {"--save", scratch.File("one")});
  absl::Status started = supervisor.Start(
      "one process", {.argv = command, .capture_output = true});
  if (!started.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(started.message()));
    return 1;
  }
  return supervisor.Run();
}

// The largest difference between any worker's weights and the one process's.
absl::StatusOr<double> Compare(const Flags& flags,
                               const ScratchFolder& scratch) {
  const absl::StatusOr<std::vector<NamedWeights>> one =
      ReadWeights(scratch.File("one"));
  if (!one.ok()) return one.status();
  double largest = 0;
  for (int worker = 0; worker < flags.workers; ++worker) {
    const absl::StatusOr<std::vector<NamedWeights>> weights =
        ReadWeights(scratch.File(WorkerName(worker)));
    if (!weights.ok()) return weights.status();
    const absl::StatusOr<double> difference = LargestDifference(*one, *weights);
    if (!difference.ok()) return difference.status();
    largest = std::max(largest, *difference);
  }
  return largest;
}

bool WasInterrupted(int code) {
  return code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP;
}

int Fail() {
  absl::PrintF("demo: FAIL\n");
  return 1;
}

int RunDemo(const Flags& flags) {
  const ScratchFolder scratch;
  Screen screen(flags);
  absl::PrintF("training with a coordinator and %d workers\n", flags.workers);
  const int together = TrainTogether(flags, scratch, screen);
  if (WasInterrupted(together)) return together;
  if (together != 0 || flags.hold) return Fail();
  const double accuracy = screen.accuracy();

  absl::PrintF("training the same in one process\n");
  const int alone = TrainAlone(flags, scratch, screen);
  if (WasInterrupted(alone)) return alone;
  if (alone != 0) return Fail();

  const absl::StatusOr<double> difference = Compare(flags, scratch);
  if (!difference.ok()) {
    absl::FPrintF(stderr, "demo: %s\n",
                  std::string(difference.status().message()));
    return Fail();
  }
  absl::PrintF("largest weight difference: %.3g (at most %.3g)\n", *difference,
               kLargestDifference);
  absl::PrintF("test accuracy: %.2f %% (at least %.0f %%)\n", accuracy,
               kLeastAccuracy);
  if (*difference > kLargestDifference || accuracy < kLeastAccuracy)
    return Fail();
  absl::PrintF("demo: PASS\n");
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Trains the hand-written digits with a coordinator and workers on this "
      "machine, and compares with one process.",
      "demo");
  app.add_option("--workers", flags.workers, "how many")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps", flags.steps, "optimizer steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "of weights and samples")
      ->capture_default_str();
  app.add_option("--sync", flags.sync,
                 "who decides when a gradient moves: the plan alone, or the "
                 "coordinator pass by pass")
      ->check(CLI::IsMember({"static", "negotiated"}))
      ->capture_default_str();
  app.add_option("--transport", flags.transport,
                 "how gradients travel: TCP, or shared memory")
      ->check(CLI::IsMember({"gloo", "shm"}))
      ->capture_default_str();
  app.add_flag("--hold", flags.hold, "train until interrupted");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (flags.hold) flags.steps = kStepsOnHold;
  return RunDemo(flags);
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
