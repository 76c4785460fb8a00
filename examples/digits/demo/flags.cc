#include "examples/digits/demo/flags.h"

#include <cstdio>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/command_line.h"
#include "base/open_files.h"
#include "examples/digits/stages.h"
#include "lockstep/job_spec.h"
#include "lockstep/mesh.h"

namespace lockstep::digits {
namespace {

constexpr int kCannotRunHere = 77;  // exit code; ctest counts it as skipped
// Descriptors of the launcher, besides one for the output of each worker.
constexpr int kFilesOfLauncher = 16;
// Practically unlimited: a step takes milliseconds.
constexpr int64_t kStepsOnHold = int64_t{1} << 40;

constexpr int64_t kAtStep = 20;

// Images have 8 rows, and are pooled twice: 2 ranks can cut them.
constexpr int kDomainMax = 2;

void Declare(Flags* flags, std::string* mesh, CommandLine& line) {
  line.Add("--workers", &flags->workers, "how many")
      .Between(1, 64)
      .ShowDefault();
  line.Add("--steps", &flags->steps, "optimizer steps")
      .Positive()
      .ShowDefault();
  line.Add("--seed", &flags->seed, "of weights and samples").ShowDefault();
  line.Add("--sync", &flags->sync,
           "who decides when a gradient moves: the plan alone, or the "
           "coordinator pass by pass; reduce_scatter: the plan, and each "
           "worker updates a slice of the weights")
      .OneOf({"static", "negotiated", "reduce_scatter"})
      .ShowDefault();
  const CommandLineOption transport =
      line.Add("--transport", &flags->transport,
               "how gradients are sent: TCP (gloo), shared memory (shm), or "
               "what suits where the workers run")
          .OneOf({"auto", "gloo", "shm"})
          .ShowDefault();
  const CommandLineOption wire_dtype =
      line.Add("--wire-dtype", &flags->wire_dtype,
               "what gradients are cast to on their way")
          .OneOf({"none", "bf16", "f16"})
          .ShowDefault();
  line.AddFlag("--error-feedback", &flags->error_feedback,
               "add what the cast took to the next step's gradients")
      .Needs(wire_dtype);
  line.Add("--leaves", &flags->leaves,
           "sums whose bits do not depend on the number of workers, of "
           "so many parts of each batch")
      .OneOf({"0", "1", "2", "4", "8", "16", "32", "64"})
      .ShowDefault();
  line.Add("--run-ahead", &flags->run_ahead,
           "with --device cuda: steps that a worker enqueues before its host "
           "has seen the verdict of the one before them")
      .Between(0, JobSpec::kRunAheadMax)
      .ShowDefault();
  line.Add("--device", &flags->device,
           "where the workers train; cuda: over NCCL")
      .OneOf({"cpu", "cuda"})
      .Excludes(transport)
      .ShowDefault();
  line.Add("--mesh", mesh,
           "data=N, data=N,pipe=P (P stages' ranks), or "
           "data=N,pipe=P,domain=2 (images cut over rows)");
  line.AddFlag("--no-halo", &flags->without_halos,
               "with domain: leave out the rows of the neighbours, which "
               "makes the training wrong");
  line.Add("--schedule", &flags->schedule, "of a mesh with pipe")
      .OneOf({"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"})
      .ShowDefault();
  const CommandLineOption state =
      line.Add("--state", &flags->state,
               "save checkpoints of the training in this folder");
  line.Add("--save-every", &flags->save_every, "steps between two of them")
      .Positive()
      .Needs(state)
      .ShowDefault();
  line.AddFlag("--resume", &flags->resume,
               "go on from the newest checkpoint, and compare with the "
               "training that was not interrupted, bit for bit")
      .Needs(state);
  const CommandLineOption kill_all =
      line.AddFlag("--kill-all", &flags->kill_all,
                   "kill the workers and the coordinator in the middle; exits "
                   "with 3")
          .Needs(state);
  const CommandLineOption kill_worker =
      line.Add("--kill-worker", &flags->kill_worker,
               "kill this worker in the middle, and start it again: the others "
               "recover")
          .Between(0, 63)
          .Excludes(kill_all);
  const CommandLineOption no_replacement =
      line.AddFlag("--no-replacement", &flags->no_replacement,
                   "do not start the killed worker again: the job goes on with "
                   "the others")
          .Needs(kill_worker);
  line.AddFlag("--late-replacement", &flags->late_replacement,
               "start the killed worker again when the others have done ten "
               "steps without it: the job shrinks, and grows")
      .Needs(kill_worker)
      .Excludes(no_replacement);
  const CommandLineOption kill_coordinator =
      line.AddFlag("--kill-coordinator", &flags->kill_coordinator,
                   "kill the coordinator in the middle, and start it again "
                   "with its journal")
          .Excludes(kill_all);
  const CommandLineOption ha =
      line.AddFlag("--ha", &flags->ha,
                   "three coordinators with their journal in etcd: the one "
                   "that leads is killed twice in the middle")
          .Excludes(kill_all)
          .Excludes(kill_worker)
          .Excludes(kill_coordinator);
  line.Add("--etcd", &flags->etcd, "the program etcd, for --ha")
      .Needs(ha)
      .ShowDefault();
  line.Add("--at-step", &flags->at_step,
           "steps that are done when something is killed (default 20)")
      .Positive();
  const CommandLineOption tls = line.AddFlag(
      "--tls", &flags->tls,
      "encrypt and authenticate what the coordinator and the workers tell "
      "each other, with certificates made for this run");
  line.AddFlag("--hold", &flags->hold,
               "train until interrupted, or until an operator ends the job")
      .Excludes(tls);
}

// The same for flags about checkpoints.
absl::Status ContradictionOfState(const Flags& flags) {
  if (flags.state.empty()) return absl::OkStatus();
  if (flags.on_gpus()) {
    return absl::InvalidArgumentError("--state wants --device cpu");
  }
  if (flags.halves()) {
    return absl::InvalidArgumentError(
        "--state wants no --wire-dtype: what a cast took is not saved");
  }
  if (flags.kill_all && (flags.resume || flags.hold)) {
    return absl::InvalidArgumentError(
        "--kill-all goes with neither --resume nor --hold");
  }
  if (flags.resume && flags.hold) {
    return absl::InvalidArgumentError(
        "--resume compares with a whole training: it goes without --hold");
  }
  if (flags.kill_all && flags.at_step >= flags.steps) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--at-step %d: the training has only %d steps",
                        flags.at_step, flags.steps));
  }
  return absl::OkStatus();
}

// The same for several coordinators.
absl::Status ContradictionOfHa(const Flags& flags) {
  if (!flags.ha) return absl::OkStatus();
  if (flags.on_gpus() || flags.has_stages() || flags.hold) {
    return absl::InvalidArgumentError(
        "--ha wants --device cpu, a mesh of data, and no --hold");
  }
  if (flags.at_step >= flags.steps) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--at-step %d: the training has only %d steps",
                        flags.at_step, flags.steps));
  }
  return absl::OkStatus();
}

// The same for flags about recovery.
absl::Status ContradictionOfRecovery(const Flags& flags) {
  if (!flags.recovers()) return absl::OkStatus();
  if (flags.kill_worker >= flags.workers) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--kill-worker %d: there are workers 0 to %d",
                        flags.kill_worker, flags.workers - 1));
  }
  if (flags.has_stages() || flags.halves() || flags.hold ||
      flags.sync == "reduce_scatter") {
    return absl::InvalidArgumentError(
        "--kill-worker and --kill-coordinator want a mesh of data, --sync "
        "static or negotiated, no --wire-dtype and no --hold");
  }
  if (flags.at_step >= flags.steps) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--at-step %d: the training has only %d steps",
                        flags.at_step, flags.steps));
  }
  if (flags.shrinks() && (flags.workers == 1 || flags.leaves > 0)) {
    return absl::InvalidArgumentError(
        "--no-replacement and --late-replacement want two workers at least, "
        "and no --leaves");
  }
  return absl::OkStatus();
}

// Describes a conflict between flags that are valid one by one.
absl::Status Contradiction(const Flags& flags) {
  if (flags.without_halos && flags.domain == 1) {
    return absl::InvalidArgumentError("--no-halo wants a mesh with domain=2");
  }
  if (flags.on_gpus() && flags.domain > 1) {
    return absl::InvalidArgumentError(
        "a mesh with domain wants --device cpu: the layers of its pipeline "
        "are computed on the host");
  }
  if (flags.sync == "negotiated" && flags.has_stages()) {
    return absl::InvalidArgumentError(
        "--sync negotiated wants a mesh of data only");
  }
  if (flags.run_ahead > 0 && (!flags.on_gpus() || flags.has_stages() ||
                              flags.sync != "static" || flags.leaves > 0)) {
    return absl::InvalidArgumentError(
        "--run-ahead wants --device cuda, --sync static, a mesh without pipe "
        "and no --leaves");
  }
  if (flags.leaves > 0 && flags.has_stages()) {
    return absl::InvalidArgumentError("--leaves wants a mesh without pipe");
  }
  if (flags.sync == "reduce_scatter" &&
      (flags.on_gpus() || flags.has_stages())) {
    return absl::InvalidArgumentError(
        "--sync reduce_scatter wants --device cpu and a mesh without pipe");
  }
  if (flags.halves() && (flags.on_gpus() || flags.has_stages())) {
    return absl::InvalidArgumentError(
        "--wire-dtype wants --device cpu and a mesh without pipe");
  }
  if (absl::Status good = ContradictionOfRecovery(flags); !good.ok()) {
    return good;
  }
  if (absl::Status good = ContradictionOfHa(flags); !good.ok()) return good;
  return ContradictionOfState(flags);
}

int Complain(const absl::Status& status, int exit_code) {
  absl::FPrintF(stderr, "demo: %s\n", std::string(status.message()));
  return exit_code;
}

// Sets workers, pipe and domain.
absl::Status ReadMesh(const std::string& text, Flags* flags) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<Mesh> mesh = ParseMesh(text);
  return mesh.ok() ? SetMesh(*mesh, flags) : mesh.status();
}

}  // namespace

absl::Status SetMesh(const Mesh& mesh, Flags* flags) {
  const std::vector<MeshAxis>& axes = mesh.axes;
  constexpr absl::string_view kAxes[] = {"data", "pipe", "domain"};
  bool known = !axes.empty() && axes.size() <= std::size(kAxes);
  for (size_t i = 0; known && i < axes.size(); ++i) {
    known = axes[i].name == kAxes[i];
  }
  if (!known) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mesh ", ToString(mesh),
        ": takes data=N, data=N,pipe=P or data=N,pipe=P,domain=D"));
  }
  flags->workers = mesh.WorldSize();
  flags->pipe = axes.size() > 1 ? axes[1].size : 1;
  flags->domain = axes.size() > 2 ? axes[2].size : 1;
  if (flags->domain > kDomainMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("mesh %s: the images can be cut among %d ranks",
                        ToString(mesh), kDomainMax));
  }
  if (flags->stages() > kDigitsBlocks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("mesh %s: the network has %d blocks, too few for %d "
                        "stages",
                        ToString(mesh), kDigitsBlocks, flags->stages()));
  }
  const int64_t parts = flags->replicas() * MicroBatches(flags->pipe);
  if (flags->has_stages() && Recipe{}.global_batch % parts != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "mesh %s: a step's %d samples do not divide into %d micro-batches",
        ToString(mesh), Recipe{}.global_batch, parts));
  }
  return absl::OkStatus();
}

std::optional<int> ReadFlags(int argc, char** argv, Flags* flags) {
  CommandLine line(
      "Trains the hand-written digits with a coordinator and workers on this "
      "machine, and compares with one process.",
      "demo");
  std::string mesh;
  Declare(flags, &mesh, line);
  if (const std::optional<int> code = line.Parse(argc, argv)) return code;
  if (absl::Status good = ReadMesh(mesh, flags); !good.ok()) {
    return Complain(good, 2);
  }
  if (flags->at_step == 0) {
    flags->at_step = kAtStep;
  } else if (!flags->kill_all && !flags->recovers() && !flags->ha) {
    return Complain(
        absl::InvalidArgumentError("--at-step wants --kill-all, --kill-worker, "
                                   "--kill-coordinator or --ha"),
        2);
  }
  if (absl::Status good = Contradiction(*flags); !good.ok()) {
    return Complain(good, 2);
  }
  if (absl::Status files = RequireOpenFiles(kFilesOfLauncher + flags->workers);
      !files.ok()) {
    return Complain(files, 1);
  }
  if (flags->hold) flags->steps = kStepsOnHold;
  if (flags->on_gpus()) {
    absl::StatusOr<GpuPlaces> places = GpuPlaces::Find(flags->workers);
    if (!places.ok()) return Complain(places.status(), kCannotRunHere);
    flags->gpus = *std::move(places);
  }
  return std::nullopt;
}

}  // namespace lockstep::digits
