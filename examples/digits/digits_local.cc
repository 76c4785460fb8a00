// Trains the digits in one process, for comparison with a job of many workers.
//
//   digits_local --save one.txt
//   digits_local --compare many.txt
//
// Exit codes: 0; 1 for an error or weights that differ; 2 for wrong usage.

#include <cstdio>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "examples/digits/dataset.h"
#include "examples/digits/flags.h"
#include "examples/digits/network.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "lockstep/samples.h"

namespace lockstep::digits {
namespace {

struct Flags {
  TrainingFlags training;
  std::string data;
  std::string compare;
  double tolerance = 1e-9;
};

void Declare(CommandLine& line, Flags& flags) {
  Declare(line, flags.training);
  line.Add("--data", &flags.data, "a CSV file instead of the built-in one");
  line.Add("--compare", &flags.compare,
           "compare with the weights in this file");
  line.Add("--tolerance", &flags.tolerance,
           "the largest weight difference that passes --compare")
      .ShowDefault();
}

// The files that the flags name, read before the training begins.
struct Inputs {
  Dataset dataset;
  Split split;
  std::optional<std::vector<NamedWeights>> others;
};

absl::StatusOr<Inputs> Read(const Flags& flags) {
  Inputs inputs;
  auto dataset =
      flags.data.empty() ? ParseDigits(EmbeddedCsv()) : ReadDigits(flags.data);
  if (!dataset.ok()) return dataset.status();
  inputs.dataset = *std::move(dataset);

  auto split = SplitRows(static_cast<int>(inputs.dataset.size()));
  if (!split.ok()) return split.status();
  inputs.split = *std::move(split);

  if (!flags.compare.empty()) {
    auto others = ReadWeights(flags.compare);
    if (!others.ok()) return others.status();
    inputs.others = *std::move(others);
  }
  return inputs;
}

// Returns the trained weights.
template <typename T>
absl::StatusOr<std::vector<NamedWeights>> Train(const TrainingFlags& flags,
                                                const Inputs& inputs) {
  const Recipe& recipe = flags.recipe;
  const SampleStream stream{
      .seed = recipe.seed,
      .dataset_size = static_cast<int64_t>(inputs.split.train.size()),
      .global_batch = recipe.global_batch};
  const auto samples = [&](int64_t step) {
    return SamplesOfStep(stream, step);
  };
  const ProgressReport report(recipe.steps, flags.machine_progress);
  const auto show = [&](int64_t step, double loss) {
    report.Passed(step, loss);
  };

  Network<T> network = DigitsNetwork<T>(recipe.seed);
  Trainer<T> trainer(network, recipe, {inputs.dataset, inputs.split.train},
                     samples, {.after_update = show});
  const absl::Status trained = trainer.Run(0, recipe.steps);
  if (!trained.ok()) return trained;

  std::printf("trained %lld steps in %.1f s\n",
              static_cast<long long>(recipe.steps), report.seconds());
  std::printf("test accuracy: %.2f %%\n",
              100 * Accuracy(network, inputs.dataset, inputs.split.test));
  return Snapshot<T>(network.parameters());
}

// Returns whether the weights are within the tolerance of the other file.
absl::StatusOr<bool> Run(const Flags& flags) {
  const auto inputs = Read(flags);
  if (!inputs.ok()) return inputs.status();
  const auto weights = flags.training.dtype == "f64"
                           ? Train<double>(flags.training, *inputs)
                           : Train<float>(flags.training, *inputs);
  if (!weights.ok()) return weights.status();

  if (!flags.training.save.empty()) {
    const absl::Status saved = WriteWeights(flags.training.save, *weights);
    if (!saved.ok()) return saved;
  }
  if (!inputs->others.has_value()) return true;
  const auto difference = LargestDifference(*weights, *inputs->others);
  if (!difference.ok()) return difference.status();
  std::printf("largest weight difference: %.3g (at most %.3g)\n", *difference,
              flags.tolerance);
  return *difference <= flags.tolerance;
}

int Main(int argc, char** argv) {
  // Line-buffered, to keep the order with stderr if both go into one pipe.
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  Flags flags;
  CommandLine line("Trains the hand-written digits in one process.",
                   "digits_local");
  Declare(line, flags);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const absl::StatusOr<bool> passed = Run(flags);
  if (!passed.ok()) {
    std::fprintf(stderr, "digits_local: %s\n",
                 passed.status().ToString().c_str());
    return 1;
  }
  return *passed ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
