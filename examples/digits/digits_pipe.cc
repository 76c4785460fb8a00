// One worker of the digits job as a pipeline: run it under `lockstepctl run`
// with a spec whose mesh has the axes data and pipe, and a pipeline.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/command_line.h"
#include "client/session/identity.h"
#include "examples/digits/device/cuda_device.h"
#include "examples/digits/flags.h"
#include "examples/digits/pipe_worker.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/traffic_report.h"
#include "examples/digits/weights_file.h"
#include "lockstep/session.h"

namespace lockstep::digits {
namespace {

struct PipeFlags {
  TrainingFlags training;
  std::string device = "cpu";
  bool without_halos = false;
  SaveOptions save;
};

// The job of the environment; with GPUs its transport is nccl.
absl::StatusOr<JoinOptions> OptionsFor(const PipeFlags& flags) {
  absl::StatusOr<JoinOptions> options = session::Complete(
      {}, session::ProcessEnvironment, session::ThisProcess());
  if (!options.ok() || !options->spec) return options;
  if (flags.device == "cuda") options->spec->transport = "nccl";
  return options;
}

absl::Status Run(const PipeFlags& flags) {
  if (absl::Status can = CheckSave(flags.save, flags.device); !can.ok()) {
    return can;
  }
  const absl::StatusOr<JoinOptions> join = OptionsFor(flags);
  if (!join.ok()) return join.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Join(*join);
  if (!session.ok()) return session.status();
  const bool on_gpu = flags.device == "cuda";
  if (!on_gpu && (*session)->spec().transport == "nccl") {
    return absl::InvalidArgumentError(
        "the job's messages are in GPU memory: this worker needs --device "
        "cuda");
  }
  std::unique_ptr<Device> device;
  if (on_gpu) {
    absl::StatusOr<std::unique_ptr<Device>> made = MakeCudaDevice(**session);
    if (!made.ok()) return made.status();
    device = *std::move(made);
  }
  const Recipe& recipe = flags.training.recipe;
  const ProgressReport report(recipe.steps, flags.training.machine_progress);
  const auto trained = TrainPipe(
      {.recipe = recipe,
       .device = device.get(),
       .without_halos = flags.without_halos,
       .save = flags.save,
       .after_update = [&](int64_t step,
                           double loss) { report.Passed(step, loss); }},
      **session);
  if (!trained.ok()) return trained.status();
  if (flags.training.machine_progress) ReportTraffic((*session)->lane_bytes());
  const std::string& file = flags.training.save;
  absl::Status saved;
  if (!file.empty()) saved = WriteWeights(file, *trained);
  return saved.ok() ? (*session)->Leave() : saved;
}

int Main(int argc, char** argv) {
  PipeFlags flags;
  CommandLine line("A worker that trains a part of the digits' network.",
                   "digits_pipe");
  Declare(line, flags.training);
  line.Add("--device", &flags.device,
           "where activations and gradients are; cuda makes the job one "
           "of transport nccl")
      .OneOf({"cpu", "cuda"})
      .ShowDefault();
  line.AddFlag("--no-halo", &flags.without_halos,
               "with an axis domain: leave out the rows of the neighbours, "
               "which makes the training wrong");
  Declare(line, flags.save);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits_pipe: %s\n",
               std::string(status.message()).c_str());
  return ExitCodeOf(status);
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
