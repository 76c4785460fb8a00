#include "tools/ctl/run_command.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/process.h"
#include "base/user_file.h"
#include "plan/spec_text.h"
#include "plan/words/job_view.h"
#include "plan/words/utf8.h"
#include "tools/ctl/run_job.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/own_address.h"
#include "tools/launch/scratch_folder.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {
namespace {

absl::StatusOr<RunJob> ReadJob(const RunOptions& options) {
  std::string spec_text;
  if (!options.spec_file.empty()) {
    auto read = ReadUserFile(options.spec_file, kHandwrittenBytesMax);
    if (!read.ok()) return read.status();
    spec_text = *std::move(read);
  }
  return DecideJob({.workers = options.workers,
                    .nodes = options.nodes,
                    .node_rank = options.node_rank,
                    .restarts = options.restarts,
                    .has_address = !options.address.empty(),
                    .job = options.job,
                    .program = options.program[0],
                    .spec_file = options.spec_file},
                   spec_text);
}

// A pipe, such as the shell's <(make-spec), or the standard input.
bool IsReadOnce(const std::string& file) {
  std::error_code error;
  return !file.empty() && !std::filesystem::is_regular_file(file, error);
}

void Complain(const absl::Status& status) {
  absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(status.message()));
}

// Tells the coordinator of each end: proof, since we waited for the process.
class Witness {
 public:
  Witness(const std::string& job, const std::string& address,
          const std::string& token)
      : job_{job},
        admin_{.addresses = address,
               .token = token,
               .deadline = absl::Seconds(1)} {}

  void Saw(const std::string& worker, pid_t pid, const launch::Ending& ending) {
    // A coordinator that is away learns of it by the worker's lease. No
    // connection stays open: a draining coordinator would wait for us. Whether
    // it took this process for a member, and not another of that name, only the
    // coordinator knows: so the process is named, and not a generation.
    AdminClient(admin_)
        .ReportEvidence(job_, {.subject = {worker},
                               .generation = {},
                               .kind = protocol::EvidenceKind::kExited,
                               .detail = absl::StrFormat("process %d %s", pid,
                                                         Describe(ending)),
                               .process = {.host = HostName(),
                                           .pid = pid,
                                           .boot_id = BootId(),
                                           .start_time = ending.start_time}})
        .IgnoreError();
  }

  // Why the job can have no further epoch; empty if it can, as far as one
  // knows: the workers' token does not open a job's description.
  std::string WhyOver() {
    const absl::StatusOr<JobView> view = AdminClient(admin_).DescribeJob(job_);
    if (!view.ok()) return "";
    switch (view->state) {
      case JobState::kCompleted:
      case JobState::kFailed:
      case JobState::kStopped:
        return absl::StrCat("it is ", std::string(Name(view->state)),
                            view->cause.message.empty() ? "" : ": ",
                            view->cause.message);
      default: return "";
    }
  }

 private:
  const JobName job_;
  const AdminClientOptions admin_;
};

// A job of this name that is over gives it away. In a process of its own:
// gRPC's threads do not survive the forks that come. Whatever else is wrong
// with the coordinator, the workers say.
void FreeName(const std::string& address, const JobName& job,
              const std::string& token) {
  const pid_t child = fork();
  if (child == 0) {
    AdminClient admin({.addresses = address, .token = token});
    admin.DeleteJob(job, /*keep=*/true).IgnoreError();
    _exit(0);
  }
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// The workers of this host, through their restarts.
class Launch {
 public:
  Launch(const RunOptions& options, const RunJob& job)
      : options_(options), job_(job), supervisor_(Hooks()) {}

  int Run() {
    place_ = {.address = options_.address,
              .job = job_.spec.name,
              .world_size = job_.spec.mesh.WorldSize(),
              .spec_file = options_.spec_file,
              .token = options_.token};
    if (absl::Status reached = ReachCoordinator(); !reached.ok()) {
      return Complain(reached), 3;
    }
    if (absl::Status written = WriteSpec(); !written.ok()) {
      return Complain(written), 2;
    }
    if (absl::Status started = StartWorkers(); !started.ok()) {
      return Complain(started), 2;
    }
    // After the first forks; children forked later only exec.
    witness_ = std::make_unique<Witness>(
        job_.spec.name, place_.address,
        daemon_ ? daemon_->operator_token : options_.token);
    return supervisor_.Run();
  }

 private:
  launch::SupervisorOptions Hooks() {
    return {.grace = options_.grace,
            .on_ending =
                [this](const std::string& name, pid_t pid,
                       const launch::Ending& ending) {
                  if (!ending.ok()) {
                    absl::FPrintF(stderr, "lockstepctl: %s (process %d) %s\n",
                                  name, pid, Describe(ending));
                  }
                  if (name != kDaemon && witness_) {
                    witness_->Saw(name, pid, ending);
                  }
                },
            .on_workers_ended =
                [this](int failure) {
                  if (failure != 0) Restart();
                },
            .on_output =
                [](const std::string& name, absl::string_view line) {
                  absl::PrintF("[%s] %s\n", name, line);
                  std::fflush(stdout);
                }};
  }

  absl::Status ReachCoordinator() {
    if (place_.address.empty()) {
      auto started = launch::StartLocalDaemon(supervisor_, options_.token);
      if (!started.ok()) return started.status();
      daemon_ = *std::move(started);
      place_.address = daemon_->address;
      place_.token = daemon_->worker_token;
      return absl::OkStatus();
    }
    FreeName(place_.address, {place_.job}, options_.token);
    if (options_.nodes == 1 || !options_.host_address.empty()) {
      place_.host_address = options_.host_address;
      return absl::OkStatus();
    }
    auto own = launch::OwnAddressTowards(place_.address);
    if (!own.ok()) return own.status();
    place_.host_address = *std::move(own);
    return absl::OkStatus();
  }

  // The workers read what the file does not say, or cannot say twice, from a
  // file of ours.
  absl::Status WriteSpec() {
    if (!job_.differs_from_file && !IsReadOnce(options_.spec_file)) {
      return absl::OkStatus();
    }
    scratch_.emplace();
    if (scratch_->path().empty()) {
      return absl::ResourceExhaustedError("cannot make a temporary folder");
    }
    place_.spec_file = scratch_->path() / "spec.yaml";
    return WriteUserFile(place_.spec_file, plan::ToYaml(job_.spec));
  }

  absl::Status StartWorkers() {
    place_.local_rank = 0;
    for (const std::string& worker : job_.workers) {
      place_.worker = worker;
      absl::Status started = supervisor_.Start(
          worker, {.argv = options_.program,
                   .environment = launch::EnvironmentOf(place_),
                   .capture_output = options_.label});
      if (!started.ok()) return started;
      place_.local_rank += 1;
    }
    return absl::OkStatus();
  }

  // One or more have failed, and all have ended.
  void Restart() {
    if (options_.restarts == 0 || supervisor_.Ended(kDaemon)) return;
    if (const std::string why = witness_->WhyOver(); !why.empty()) {
      absl::FPrintF(stderr, "lockstepctl: no restart of job %s: %s\n",
                    job_.spec.name, why);
      return;
    }
    if (place_.restart_count == options_.restarts) {
      absl::FPrintF(stderr, "lockstepctl: no restart: %d of %d are used up\n",
                    place_.restart_count, options_.restarts);
      return;
    }
    place_.restart_count += 1;
    absl::FPrintF(stderr,
                  "lockstepctl: restart %d of %d: all %d workers of this host "
                  "start again\n",
                  place_.restart_count, options_.restarts, job_.workers.size());
    if (absl::Status s = StartWorkers(); !s.ok()) Complain(s);
  }

  static constexpr char kDaemon[] = "lockstepd";

  const RunOptions& options_;
  const RunJob& job_;
  launch::WorkerPlace place_;  // of the worker that is started next
  std::optional<launch::LocalDaemon> daemon_;  // if it is a private one
  std::optional<launch::ScratchFolder> scratch_;
  std::unique_ptr<Witness> witness_;
  launch::Supervisor supervisor_;
};

}  // namespace

int Run(const RunOptions& options) {
  const absl::StatusOr<RunJob> job = ReadJob(options);
  if (!job.ok()) return Complain(job.status()), 2;
  return Launch(options, *job).Run();
}

}  // namespace lockstep::ctl
