// The flags that the worker and the single process have in common.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_FLAGS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "examples/digits/trainer.h"

namespace lockstep::digits {

// A worker's exit code when an operator ended the job at once (`lockstepctl
// stop
// --now`), which is no failure.
inline constexpr int kExitCancelled = 4;

inline int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  return absl::IsCancelled(status) ? kExitCancelled : 1;
}

struct TrainingFlags {
  Recipe recipe;
  std::string dtype = "f64";
  std::string save;
  bool machine_progress = false;
};

inline void Declare(CLI::App& app, TrainingFlags& flags) {
  app.add_option("--steps", flags.recipe.steps, "optimizer steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", flags.recipe.seed, "of weights and samples")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--batch", flags.recipe.global_batch,
                 "samples a step, on all workers together")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--dtype", flags.dtype, "of weights and arithmetic")
      ->check(CLI::IsMember({"f64", "f32"}))
      ->capture_default_str();
  app.add_option("--save", flags.save, "write the weights to this file");
  app.add_flag("--machine_progress", flags.machine_progress,
               "progress as lines for a program to read");
}

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_FLAGS_H_
