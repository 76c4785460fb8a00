#include "tools/ctl/run_command.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/ctl/run_job.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {
namespace {

absl::StatusOr<RunJob> ReadJob(const RunOptions& options) {
  std::string spec_text;
  if (!options.spec_file.empty()) {
    std::ifstream in(options.spec_file, std::ios::binary);
    spec_text.assign(std::istreambuf_iterator<char>(in), {});
    if (!in.is_open() || in.bad()) {
      return absl::NotFoundError(
          absl::StrCat("cannot read ", options.spec_file));
    }
  }
  return DecideJob({.workers = options.workers,
                    .job = options.job,
                    .program = options.program[0],
                    .spec_file = options.spec_file},
                   spec_text);
}

void Complain(const absl::Status& status) {
  absl::FPrintF(stderr, "lockstepctl: %s\n", std::string(status.message()));
}

// Tells the coordinator of each end: proof, since we waited for the process.
class Witness {
 public:
  Witness(const RunOptions& options, const std::string& job,
          const std::string& address)
      : job_{job},
        admin_{.addresses = address,
               .token = options.token,
               .deadline = absl::Seconds(1)} {}

  void Saw(const std::string& worker, pid_t pid, const launch::Ending& ending) {
    // A coordinator that is away learns of it by the worker's lease. No
    // connection stays open: a draining coordinator would wait for us.
    AdminClient(admin_)

        .ReportEvidence(job_, {.subject = {worker},
                               .generation = {},
                               .kind = protocol::EvidenceKind::kExited,
                               .detail = absl::StrFormat("process %d %s", pid,
                                                         Describe(ending))})
        .IgnoreError();
  }

 private:
  const JobName job_;
  const AdminClientOptions admin_;
};

}  // namespace

int Run(const RunOptions& options) {
  const absl::StatusOr<RunJob> job = ReadJob(options);
  if (!job.ok()) {
    Complain(job.status());
    return 2;
  }
  std::unique_ptr<Witness> witness;
  launch::Supervisor supervisor({
      .grace = options.grace,
      .on_ending =
          [&](const std::string& name, pid_t pid,
              const launch::Ending& ending) {
            if (!ending.ok()) {
              absl::FPrintF(stderr, "lockstepctl: %s (process %d) %s\n", name,
                            pid, Describe(ending));
            }
            if (name != "lockstepd" && witness) witness->Saw(name, pid, ending);
          },
      .on_output =
          [](const std::string& name, absl::string_view line) {
            absl::PrintF("[%s] %s\n", name, line);
            std::fflush(stdout);
          },
  });

  std::string address = options.address;
  if (address.empty()) {
    absl::StatusOr<std::string> started = launch::StartLocalDaemon(supervisor);
    if (!started.ok()) {
      Complain(started.status());
      return 3;
    }
    address = *std::move(started);
  }
  for (const std::string& worker : job->workers) {
    const launch::WorkerPlace place{.address = address,
                                    .job = job->spec.name,
                                    .worker = worker,
                                    .world_size = options.workers,
                                    .spec_file = options.spec_file,
                                    .token = options.token};
    absl::Status status = supervisor.Start(
        place.worker, {.argv = options.program,
                       .environment = launch::EnvironmentOf(place),
                       .capture_output = options.label});
    if (!status.ok()) {
      Complain(status);
      return 2;
    }
  }
  // After the last fork: gRPC's threads do not survive one.
  witness = std::make_unique<Witness>(options, job->spec.name, address);
  return supervisor.Run();
}

}  // namespace lockstep::ctl
