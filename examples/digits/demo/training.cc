#include "examples/digits/demo/training.h"

#include <signal.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/digits/demo/faults.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::digits {
namespace {

launch::SupervisorOptions ShowOn(Screen& screen) {
  return {
      .on_ending =
          [](const std::string& name, pid_t pid,
             const launch::ProcessExit& ending) {
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

void AddState(const Flags& flags, std::vector<std::string>* command) {
  if (flags.state.empty()) return;
  command->insert(command->end(), {"--state", flags.state, "--save-every",
                                   absl::StrCat(flags.save_every)});
  if (flags.resume) command->push_back("--resume");
}

// As a power failure would, coordinator included.
void KillAll(const Flags& flags, launch::Supervisor& supervisor) {
  for (int worker = 0; worker < flags.workers; ++worker) {
    supervisor.Signal(WorkerName(worker), SIGKILL);
  }
  supervisor.Signal("lockstepd", SIGKILL);
}

absl::StatusOr<launch::LocalDaemon> StartCoordinator(
    const Flags& flags, const JobFiles& files, launch::Supervisor& supervisor) {
  launch::LocalDaemonOptions options;
  if (flags.kill_coordinator) options.journal = files.Journal();
  if (flags.tls) {
    absl::Status made = files.MakeCertificates();
    if (!made.ok()) return made;
    options.tls_folder = files.CoordinatorTls();
  }
  return launch::StartLocalDaemon(supervisor, options);
}

}  // namespace

int TrainTogether(const Flags& flags, const JobFiles& files, Screen& screen) {
  bool killed = false;
  launch::Supervisor* all = nullptr;
  launch::SupervisorOptions options = ShowOn(screen);
  Faults faults(flags, &all);
  options.on_ending = [&, show = options.on_ending](
                          const std::string& name, pid_t pid,
                          const launch::ProcessExit& ending) {
    show(name, pid, ending);
    if (flags.recovers()) faults.Ended(name);
  };
  options.on_output = [&](const std::string& name, absl::string_view line) {
    if (flags.recovers() && faults.Take(name, line)) return;
    screen.Take(name, line);
    if (flags.recovers()) faults.Progress(screen.steps_done());
    if (!flags.kill_all || killed) return;
    if (screen.steps_done() < flags.at_step) return;
    killed = true;
    KillAll(flags, *all);
  };
  launch::Supervisor supervisor(std::move(options));
  all = &supervisor;
  const absl::StatusOr<launch::LocalDaemon> daemon =
      StartCoordinator(flags, files, supervisor);
  if (!daemon.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(daemon.status().message()));
    return 1;
  }
  faults.SetCoordinator(daemon->again);
  absl::PrintF("coordinator: %s%s\njob: digits\n", daemon->address,
               flags.tls ? ", with TLS" : "");
  if (absl::Status written = files.WriteSpec(flags); !written.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(written.message()));
    return 1;
  }
  for (int worker = 0; worker < flags.workers; ++worker) {
    std::vector<std::string> command =
        Training(flags, flags.has_stages() ? "digits_pipe" : "digits");
    command.insert(command.end(), {"--save", files.OfWorker(worker)});
    auto environment = launch::EnvironmentOf(
        {.address = daemon->address,
         .job = "digits",
         .worker = WorkerName(worker),
         .world_size = flags.workers,
         .spec_file = files.Spec(),
         .token = daemon->JoinTokenOf("digits"),
         .tls_folder = flags.tls ? files.WorkerTls() : ""});
    AddState(flags, &command);
    if (flags.halves()) command.push_back("--audit");
    if (flags.without_halos) command.push_back("--no-halo");
    if (flags.on_gpus()) {
      command.insert(command.end(), {"--device", "cuda"});
      flags.gpus.AddTo(worker, &environment);
    }
    const launch::ChildCommand child{
        .argv = command, .environment = environment, .capture_output = true};
    if (worker == flags.kill_worker) faults.SetWorker(child);
    absl::Status started = supervisor.Start(WorkerName(worker), child);
    if (!started.ok()) {
      absl::FPrintF(stderr, "demo: %s\n", std::string(started.message()));
      return 1;
    }
  }
  const int code = supervisor.Run();
  if (killed) return kExitKilled;
  const bool good = !flags.recovers() || faults.Report(screen.steps_done());
  return code == 0 && !good ? 1 : code;
}

int TrainAlone(const Flags& flags, const JobFiles& files, Screen& screen) {
  launch::Supervisor supervisor(ShowOn(screen));
  std::vector<std::string> command = Training(flags, "digits_local");
  command.insert(command.end(), {"--save", files.OfOneProcess()});
  absl::Status started = supervisor.Start(
      "one process", {.argv = command, .capture_output = true});
  if (!started.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(started.message()));
    return 1;
  }
  return supervisor.Run();
}

}  // namespace lockstep::digits
