// One worker of the digits job: run it under `lockstepctl run`.
//
//   lockstepctl run -n 4 -- digits --steps 20
//
// Each worker trains the same network on its share of every step's samples.
// Gradients are stored in Lockstep's buckets. The backward pass submits each as
// soon as it is complete, and the update waits for the sum over all workers.
// Buckets may move during the training: then the gradients are bound again. In
// a job with sync: negotiated, each step announces its gradients first; with
// sync: reduce_scatter each worker updates its slices of the parameters, and a
// step begins with the gather of the other slices. With --audit each worker
// also computes the gradients of all others, and proves that gradients that
// were sent as halves differ by rounding only. With --device cuda network and
// buckets are in GPU memory. With --state the training is saved every few
// steps, and with --resume it begins with the newest checkpoint. In a job with
// limits.max_restarts the workers go on when one is lost (host_training.h,
// device_training.h).

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/command_line.h"
#include "client/session/identity.h"
#include "examples/digits/dataset.h"
#include "examples/digits/device/cuda_device.h"
#include "examples/digits/device/device_training.h"
#include "examples/digits/flags.h"
#include "examples/digits/gradient_audit.h"
#include "examples/digits/host_training.h"
#include "examples/digits/network.h"
#include "examples/digits/progress_report.h"
#include "examples/digits/save_options.h"
#include "examples/digits/traffic_report.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/samples.h"
#include "lockstep/session.h"

namespace lockstep::digits {
namespace {

struct WorkerFlags {
  TrainingFlags training;
  std::string sync;  // empty: the value in the job's spec
  std::string device = "cpu";
  bool audit = false;
  int64_t pause_ms = 0;
  SaveOptions save;
};

// `session` is the last one afterwards.
template <typename T>
absl::Status Train(const WorkerFlags& worker, const JoinOptions& options,
                   std::unique_ptr<Session>* session) {
  const TrainingFlags& flags = worker.training;
  const absl::StatusOr<Dataset> dataset = ParseDigits(EmbeddedCsv());
  if (!dataset.ok()) return dataset.status();
  const absl::StatusOr<Split> split =
      SplitRows(static_cast<int>(dataset->size()));
  if (!split.ok()) return split.status();
  const SampleStream stream{
      .seed = flags.recipe.seed,
      .dataset_size = static_cast<int64_t>(split->train.size()),
      .global_batch = flags.recipe.global_batch};
  const auto samples_of = [&](int64_t step, int rank) {
    return ShareOfStep(stream, step, rank, (*session)->world_size());
  };
  const auto samples = [&](int64_t step) {
    return samples_of(step, (*session)->rank());
  };
  const TrainingSet training_set{*dataset, split->train};

  Network<T> network = DigitsNetwork<T>(flags.recipe.seed);
  std::optional<GradientAudit<T>> audit;
  if (worker.audit) {
    audit.emplace((*session)->spec().buckets, (*session)->world_size(),
                  flags.recipe, training_set, samples_of);
  }
  const auto check = [&](int64_t step) {
    return audit ? audit->Check(step, network) : absl::OkStatus();
  };

  const ProgressReport report(flags.recipe.steps, flags.machine_progress);
  const auto show = [&](int64_t step, double loss) {
    absl::SleepFor(absl::Milliseconds(worker.pause_ms));
    // Worker 0's share of the loss, scaled as if all shares were equal.
    if ((*session)->rank() != 0) return;
    report.Passed(step, loss * (*session)->world_size());
  };
  const auto join_again = [&](const Recovery& recovered) {
    JoinOptions again = options;
    again.recovered = recovered;
    return Session::Join(again);
  };
  const auto train_on_host = [&] {
    return HostTraining<T>({.recipe = flags.recipe,
                            .save = worker.save,
                            .join_again = join_again,
                            .machine_progress = flags.machine_progress},
                           training_set, *session, network, {check, show})
        .Run();
  };
  const auto train_on_gpu = [&] {
    return DeviceTraining<T>({.recipe = flags.recipe,
                              .machine_progress = flags.machine_progress,
                              .make_device = MakeCudaDevice,
                              .join_again = join_again,
                              .after_update = show},
                             training_set, samples, *session, network)
        .Run();
  };
  const absl::Status trained =
      worker.device == "cuda" ? train_on_gpu() : train_on_host();
  if (!trained.ok()) return trained;
  if (audit) std::printf("gradient error: %.3f\n", audit->worst());

  if ((*session)->rank() == 0) {
    std::printf("test accuracy: %.2f %%\n",
                100 * Accuracy(network, *dataset, split->test));
  }
  if (flags.save.empty()) return absl::OkStatus();
  return WriteWeights(flags.save, Snapshot<T>(network.parameters()));
}

SyncMode ModeCalled(const std::string& name) {
  if (name == "negotiated") return SyncMode::kNegotiated;
  if (name == "reduce_scatter") return SyncMode::kReduceScatter;
  return SyncMode::kStatic;
}

// The job of the environment, changed by the flags. An existing job must have
// an equal spec.
absl::StatusOr<JoinOptions> OptionsFor(const WorkerFlags& flags) {
  absl::StatusOr<JoinOptions> options = session::Complete(
      {}, session::ProcessEnvironment, session::ThisProcess());
  if (!options.ok() || !options->spec) return options;
  if (!flags.sync.empty()) {
    options->spec->sync = ModeCalled(flags.sync);
  }
  if (flags.device == "cuda") options->spec->transport = "nccl";
  return options;
}

absl::Status CheckLeaves(const WorkerFlags& flags, const Session& session) {
  const int leaves = session.spec().reproducible.leaves;
  if (leaves == 0) return absl::OkStatus();
  const int64_t batch = flags.training.recipe.global_batch;
  if (batch % leaves != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a step's %d samples make no %d equal leaves: choose another --batch",
        batch, leaves));
  }
  if (flags.device == "cuda" && leaves != session.world_size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the network on a GPU computes one leaf, and reproducible.leaves is %d "
        "for %d workers",
        leaves, session.world_size()));
  }
  return absl::OkStatus();
}

absl::Status CheckAudit(const WorkerFlags& flags, const Session& session) {
  const bool can = flags.device == "cpu" && session.spec().buckets.wire_dtype;
  if (!flags.audit || can) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--audit is for gradients that are sent as halves, on the host: it wants "
      "buckets.wire_dtype in the job's spec");
}

absl::Status Run(const WorkerFlags& flags) {
  if (absl::Status can = CheckSave(flags.save, flags.device); !can.ok()) {
    return can;
  }

  const absl::StatusOr<JoinOptions> options = OptionsFor(flags);
  if (!options.ok()) return options.status();
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Join(*options);
  if (!session.ok()) return session.status();
  if (flags.device == "cpu" && (*session)->spec().transport == "nccl") {
    return absl::InvalidArgumentError(
        "the job's gradients are in GPU memory: this worker needs --device "
        "cuda");
  }
  if (flags.device == "cuda" &&
      (*session)->spec().sync == SyncMode::kReduceScatter) {
    return absl::InvalidArgumentError(
        "the network on a GPU keeps its own weights: it takes no sync: "
        "reduce_scatter");
  }
  if (absl::Status can = CheckLeaves(flags, **session); !can.ok()) return can;
  if (absl::Status can = CheckAudit(flags, **session); !can.ok()) return can;
  absl::Status trained = flags.training.dtype == "f64"
                             ? Train<double>(flags, *options, &*session)
                             : Train<float>(flags, *options, &*session);
  if (!trained.ok()) return trained;
  if (flags.training.machine_progress) ReportTraffic((*session)->lane_bytes());
  return (*session)->Leave();
}

int Main(int argc, char** argv) {
  WorkerFlags flags;
  CommandLine line("A worker that trains the hand-written digits with others.",
                   "digits");
  Declare(line, flags.training);
  line.Add("--sync", &flags.sync,
           "who decides when a gradient moves, instead of the spec: the "
           "plan alone, or the coordinator pass by pass; reduce_scatter: "
           "the plan, and each worker updates a slice")
      .OneOf({"static", "negotiated", "reduce_scatter"});
  line.Add("--device", &flags.device,
           "where the network and its gradients are; cuda makes the job "
           "one of transport nccl")
      .OneOf({"cpu", "cuda"})
      .ShowDefault();
  line.AddFlag("--audit", &flags.audit,
               "compute each step's gradients of all workers, too, and fail if "
               "those that travelled as halves differ by more than rounding");
  line.Add("--pause_ms", &flags.pause_ms,
           "sleep for so many milliseconds after each step, to train for as "
           "long as something else takes")
      .Between(0, 60'000);
  Declare(line, flags.save);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  const absl::Status status = Run(flags);
  if (status.ok()) return 0;
  std::fprintf(stderr, "digits: %s\n", std::string(status.message()).c_str());
  return ExitCodeOf(status);
}

}  // namespace
}  // namespace lockstep::digits

int main(int argc, char** argv) { return lockstep::digits::Main(argc, argv); }
