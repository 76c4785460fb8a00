#include "examples/digits/demo/training.h"

#include <signal.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "examples/digits/demo/coordinators.h"
#include "examples/digits/demo/faults.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::digits {
namespace {

// With --ha the training takes longer than two failovers, of 2.5 s each and the
// slowest of 100 of 2.9 s.
constexpr int64_t kHaMilliseconds = 10'000;
constexpr char kJob[] = "digits";

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

void AddPause(const Flags& flags, std::vector<std::string>* command) {
  if (!flags.ha) return;
  const int64_t pause = (kHaMilliseconds + flags.steps - 1) / flags.steps;
  command->insert(command->end(), {"--pause_ms", absl::StrCat(pause)});
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

// What workers know of the coordinator, or of all.
struct CoordinatorPlace {
  std::string address;
  std::string token;
  std::optional<launch::LocalDaemon> daemon;  // its files, while it runs
};

absl::StatusOr<CoordinatorPlace> StartOne(const Flags& flags,
                                          const JobFiles& files,
                                          launch::Supervisor& supervisor) {
  launch::LocalDaemonOptions options;
  if (flags.kill_coordinator) options.journal = files.Journal();
  if (flags.tls) {
    absl::Status made = files.MakeCertificates();
    if (!made.ok()) return made;
    options.tls_folder = files.CoordinatorTls();
  }
  auto daemon = launch::StartLocalDaemon(supervisor, options);
  if (!daemon.ok()) return daemon.status();
  CoordinatorPlace place{daemon->address, daemon->JoinTokenOf(kJob), {}};
  place.daemon = *std::move(daemon);
  return place;
}

absl::StatusOr<CoordinatorPlace> StartSeveral(Coordinators& coordinators) {
  if (absl::Status s = coordinators.Start(); !s.ok()) return s;
  return CoordinatorPlace{
      coordinators.addresses(), coordinators.JoinTokenOf(kJob), {}};
}

}  // namespace

int TrainTogether(const Flags& flags, const JobFiles& files, Screen& screen) {
  bool killed = false;
  launch::Supervisor* all = nullptr;
  launch::SupervisorOptions options = ShowOn(screen);
  Faults faults(flags, &all);
  Coordinators coordinators(flags, files, &all);
  options.on_ending = [&, show = options.on_ending](
                          const std::string& name, pid_t pid,
                          const launch::ProcessExit& ending) {
    if (flags.ha && coordinators.Ended(name, ending)) return;
    show(name, pid, ending);
    if (flags.recovers()) faults.Ended(name);
  };
  options.on_output = [&](const std::string& name, absl::string_view line) {
    if (flags.recovers() && faults.Take(name, line)) return;
    if (!flags.ha || !coordinators.Take(name, line)) screen.Take(name, line);
    if (flags.recovers()) faults.Progress(screen.steps_done());
    if (flags.ha) coordinators.Progress(screen.steps_done());
    if (!flags.kill_all || killed) return;
    if (screen.steps_done() < flags.at_step) return;
    killed = true;
    KillAll(flags, *all);
  };
  launch::Supervisor supervisor(std::move(options));
  all = &supervisor;
  const absl::StatusOr<CoordinatorPlace> place =
      flags.ha ? StartSeveral(coordinators)
               : StartOne(flags, files, supervisor);
  if (!place.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(place.status().message()));
    return 1;
  }
  if (place->daemon) faults.SetCoordinator(place->daemon->again);
  absl::PrintF("coordinator%s: %s%s\njob: %s\n", flags.ha ? "s" : "",
               place->address, flags.tls ? ", with TLS" : "", kJob);
  if (absl::Status written = files.WriteSpec(flags); !written.ok()) {
    absl::FPrintF(stderr, "demo: %s\n", std::string(written.message()));
    return 1;
  }
  for (int worker = 0; worker < flags.workers; ++worker) {
    std::vector<std::string> command =
        Training(flags, flags.has_stages() ? "digits_pipe" : "digits");
    command.insert(command.end(), {"--save", files.OfWorker(worker)});
    auto environment = launch::EnvironmentOf(
        {.address = place->address,
         .job = kJob,
         .worker = WorkerName(worker),
         .world_size = flags.workers,
         .spec_file = files.Spec(),
         .token = place->token,
         .tls_folder = flags.tls ? files.WorkerTls() : ""});
    AddState(flags, &command);
    AddPause(flags, &command);
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
  if (code != 0) return code;
  const int64_t steps = screen.steps_done();
  const bool good = (!flags.recovers() || faults.Report(steps)) &&
                    (!flags.ha || coordinators.Report(steps));
  return good ? 0 : 1;
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
