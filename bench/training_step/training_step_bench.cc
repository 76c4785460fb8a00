// The communication of a training step: `./run bench training-step`.
//
//   training_step_bench [ROUNDS [PART ...]]
//
// Default: 7 rounds, all parts:
//   overhead   a step of 50 ms with 1,000 parameters, with the library and with
//              a barrier in its place
//   overlap    the share of a step's communication that is hidden behind a
//              backward pass that sleeps
//   cores      the same behind one that computes on all cores, in each form
//   ddp        ResNet-50's and GPT-2 small's gradients, compared to PyTorch DDP
//              with Gloo
//
// Every round runs all sides of a part in turn, in separate processes; the
// result is the median over the rounds. With PARTs, for tuning, no file is
// written. The exit code is 0 whether or not figures are reached; the output
// states it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/figures.h"
#include "bench/training_step/ddp.h"
#include "bench/training_step/inventory.h"
#include "bench/training_step/steps.h"
#include "tools/launch/local_daemon.h"

namespace lockstep::bench {
namespace {

using Kind = Backward::Kind;

// The measurements of each round, by name; seconds.
class Rounds {
 public:
  void Add(const std::string& what, double seconds) {
    if (all_.count(what) == 0) order_.push_back(what);
    all_[what].push_back(seconds);
  }
  bool Has(const std::string& what) const { return all_.count(what) > 0; }
  double Of(const std::string& what) const { return Median(all_.at(what)); }
  const std::vector<std::string>& order() const { return order_; }

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> all_;
};

struct Run {
  std::string daemon;
  std::string token;
  Rounds rounds;
  std::vector<Figure> figures;
  std::string torch = "not there";

  StepSeconds Measure(const std::string& what, const StepsOptions& options) {
    std::printf("\r%-50s", what.c_str());
    std::fflush(stdout);
    const StepSeconds seconds = MeasureSteps(daemon, token, options);
    rounds.Add(what + ": step", seconds.step);
    rounds.Add(what + ": exposed", seconds.exposed);
    return seconds;
  }
};

// A part: its measurement in a round, and its targets.
struct Part {
  std::string name;
  std::function<void(Run&)> measure;
  std::function<void(Run&)> judge;
};

// --- Overhead
// ---------------------------------------------------------------

const char kSteady[] = "1,000 parameters, 50 ms";

void MeasureOverhead(Run& run) {
  const StepSeconds seconds =
      run.Measure(kSteady, {.inventory = Equal(1000, 1024),
                            .backward = {Kind::kComputes, 0.050},
                            .also_bare = true,
                            .steps = 25});
  run.rounds.Add(absl::StrCat(kSteady, ": with a barrier"), seconds.bare);
}

void JudgeOverhead(Run& run) {
  const double bare = run.rounds.Of(absl::StrCat(kSteady, ": with a barrier"));
  run.figures.push_back(
      {"library overhead of a 50 ms step, 1,000 parameters, %", 1,
       100 * (run.rounds.Of(absl::StrCat(kSteady, ": step")) / bare - 1),
       true});
}

// --- Overlap
// ----------------------------------------------------------------

// A model without a large gradient, because the last one cannot be hidden.
StepsOptions Asleep(Overlap overlap) {
  return {.inventory = Equal(512, 1 << 18),
          .overlap = overlap,
          .buckets = {.first_bytes_max = 1 << 20, .bytes_max = 4 << 20},
          .backward = {Kind::kSleeps, 0.250}};
}

void MeasureOverlap(Run& run) {
  run.Measure("512 MiB, asleep, inline", Asleep(Overlap::kInline));
  run.Measure("512 MiB, asleep, auto", Asleep(Overlap::kAuto));
}

void JudgeOverlap(Run& run) {
  const double all = run.rounds.Of("512 MiB, asleep, inline: exposed");
  const double left = run.rounds.Of("512 MiB, asleep, auto: exposed");
  run.figures.push_back({"communication hidden behind a sleeping backward, %",
                         95, 100 * (1 - left / all)});
}

// --- Real compute on all cores
// ----------------------------------------------

void MeasureCores(Run& run) {
  for (const auto& [name, overlap] : {std::pair{"inline", Overlap::kInline},
                                      std::pair{"auto", Overlap::kAuto},
                                      std::pair{"thread", Overlap::kThread}}) {
    run.Measure(absl::StrCat("ResNet-50, computing 100 ms, ", name),
                {.inventory = ResNet50(),
                 .overlap = overlap,
                 .backward = {Kind::kComputes, 0.100},
                 .steps = 25});
  }
}

void JudgeCores(Run& run) {
  const auto step = [&](const char* form) {
    return run.rounds.Of(
        absl::StrCat("ResNet-50, computing 100 ms, ", form, ": step"));
  };
  run.figures.push_back({"a computing step / its inline form", 1.02,
                         step("auto") / step("inline"), true});
  run.figures.push_back({"  with a helper, whatever it costs", 0,
                         step("thread") / step("inline")});
}

// --- Beside DDP
// -------------------------------------------------------------

struct Model {
  const char* name;
  Inventory inventory;
  double in_arena, from_private;  // target speedup; 0: report only
};

std::vector<Model> Models() {
  return {{"ResNet-50", ResNet50(), 0, 0}, {"GPT-2 small", Gpt2Small(), 10, 3}};
}

// The path of the script in the repository.
std::string Script() { return "bench/training_step/ddp_side.py"; }

void MeasureDdpRound(Run& run) {
  for (const Model& model : Models()) {
    for (const bool in_arena : {true, false}) {
      run.Measure(absl::StrCat(model.name, in_arena ? ", arena" : ", private"),
                  {.inventory = model.inventory, .in_arena = in_arena});
    }
    const auto ddp = MeasureDdp(Script(), model.inventory, 9);
    if (!ddp.has_value()) continue;
    run.torch = ddp->version;
    const std::string name = absl::StrCat(model.name, ", DDP: ");
    run.rounds.Add(name + "backward", ddp->synchronised);
    run.rounds.Add(name + "backward without synchronisation", ddp->alone);
    run.rounds.Add(name + "synchronisation", ddp->synchronisation());
  }
}

void JudgeDdp(Run& run) {
  for (const Model& model : Models()) {
    const std::string ddp = absl::StrCat(model.name, ", DDP: synchronisation");
    if (!run.rounds.Has(ddp)) {
      std::printf("\nthere is no PyTorch with Gloo: no column for DDP\n");
      return;
    }
    const auto faster = [&](const char* memory) {
      return run.rounds.Of(ddp) /
             run.rounds.Of(absl::StrCat(model.name, ", ", memory, ": step"));
    };
    run.figures.push_back(
        {absl::StrCat(model.name, " in the arena, times faster than DDP"),
         model.in_arena, faster("arena")});
    run.figures.push_back({absl::StrCat(model.name, " from private buffers"),
                           model.from_private, faster("private")});
  }
}

// --- All of it
// --------------------------------------------------------------

std::vector<Part> Parts() {
  return {{"overhead", MeasureOverhead, JudgeOverhead},
          {"overlap", MeasureOverlap, JudgeOverlap},
          {"cores", MeasureCores, JudgeCores},
          {"ddp", MeasureDdpRound, JudgeDdp}};
}

void Print(const Run& run, int rounds) {
  std::printf("\r%-66s %12s\n",
              absl::StrCat("medians of ", rounds, " rounds, 2 ranks").c_str(),
              "ms");
  for (const std::string& what : run.rounds.order()) {
    std::printf("%-66s %12.3f\n", what.c_str(), 1e3 * run.rounds.Of(what));
  }
  Print(run.figures);
}

bool Write(const Run& run, int rounds, const std::string& path) {
  nlohmann::ordered_json json;
  json["machine"] = Machine();
  json["machine"]["torch"] = run.torch;
  json["rounds"] = rounds;
  json["ranks"] = 2;
  for (const Model& model : Models()) {
    json["inventories"][model.name] = {
        {"tensors", model.inventory.size()},
        {"elements", ElementsOf(model.inventory)}};
  }
  for (const std::string& what : run.rounds.order()) {
    json["times_ms"][what] = 1e3 * run.rounds.Of(what);
  }
  json["figures"] = ToJson(run.figures);
  std::ofstream file(path);
  file << json.dump(1) << "\n";
  file.close();
  return file.good();
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const std::vector<std::string> wanted(argv + std::min(argc, 2), argv + argc);
  std::vector<Part> parts = Parts();
  std::erase_if(parts, [&](const Part& part) {
    return !wanted.empty() &&
           std::find(wanted.begin(), wanted.end(), part.name) == wanted.end();
  });
  if (rounds < 1 || parts.empty()) {
    std::fprintf(stderr, "usage: training_step_bench [ROUNDS [PART ...]]\n");
    return 2;
  }
  launch::Supervisor supervisor({});
  const auto daemon = launch::StartLocalDaemon(supervisor);
  if (!daemon.ok()) {
    std::fprintf(stderr, "%s\n", daemon.status().ToString().c_str());
    return 1;
  }
  Run run{.daemon = daemon->address, .token = daemon->worker_token};
  for (int round = 0; round < rounds; ++round) {
    for (const Part& part : parts) part.measure(run);
  }
  for (const Part& part : parts) part.judge(run);
  Print(run, rounds);
  if (!wanted.empty() || !std::filesystem::exists("bench")) return 0;
  const std::string path = "bench/results/training_step.json";
  std::filesystem::create_directories("bench/results");
  if (!Write(run, rounds, path)) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return 1;
  }
  std::printf("\nwritten: %s\n", path.c_str());
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::Main(argc, argv); }
