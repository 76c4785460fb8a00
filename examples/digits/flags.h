// The flags that the worker and the single process share.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_FLAGS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_FLAGS_H_

#include <string>

#include "absl/status/status.h"
#include "base/command_line.h"
#include "examples/digits/save_options.h"
#include "examples/digits/trainer.h"

namespace lockstep::digits {

// A worker's exit code after `lockstepctl stop --now`, which is not a failure.
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

inline void Declare(CommandLine& line, TrainingFlags& flags) {
  line.Add("--steps", &flags.recipe.steps, "optimizer steps")
      .Positive()
      .ShowDefault();
  line.Add("--seed", &flags.recipe.seed, "of weights and samples")
      .Between(0, 1'000'000'000)
      .ShowDefault();
  line.Add("--batch", &flags.recipe.global_batch,
           "samples a step, on all workers together")
      .Between(1, 1 << 16)
      .ShowDefault();
  line.Add("--dtype", &flags.dtype, "of weights and arithmetic")
      .OneOf({"f64", "f32"})
      .ShowDefault();
  line.Add("--save", &flags.save, "write the weights to this file");
  line.AddFlag("--machine_progress", &flags.machine_progress,
               "progress as lines for a program to read");
}

inline void Declare(CommandLine& line, SaveOptions& save) {
  line.Add("--state", &save.directory,
           "save checkpoints here: a folder that all workers share");
  line.Add("--save-every", &save.save_every, "steps between two of them")
      .Positive()
      .ShowDefault();
  line.AddFlag("--resume", &save.resume, "begin with the newest checkpoint");
  line.AddFlag("--if-saved", &save.if_saved,
               "with --resume: begin with step 0 if there is none");
}

inline absl::Status CheckSave(const SaveOptions& save,
                              const std::string& device) {
  if (save.resume && save.directory.empty()) {
    return absl::InvalidArgumentError("--resume wants --state");
  }
  if (save.if_saved && !save.resume) {
    return absl::InvalidArgumentError("--if-saved wants --resume");
  }
  if (save.directory.empty() || device == "cpu") return absl::OkStatus();
  return absl::InvalidArgumentError("--state wants --device cpu");
}

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_FLAGS_H_
