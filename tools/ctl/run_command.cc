#include "tools/ctl/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/cpu_affinity.h"
#include "base/file_descriptor.h"
#include "base/process.h"
#include "base/text/utf8.h"
#include "base/user_file.h"
#include "protocol/job_view.h"
#include "spec/spec_text.h"
#include "tools/ctl/choose_job.h"
#include "tools/ctl/run_job.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/own_address.h"
#include "tools/launch/scratch_folder.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {
namespace {

RunRequest RequestOf(const RunOptions& options) {
  return {.workers = options.workers,
          .nodes = options.nodes,
          .node_rank = options.node_rank,
          .restarts = options.restarts,
          .has_address = !options.address.empty(),
          .job = options.job,
          .program = options.program[0],
          .spec_file = options.spec_file};
}

absl::StatusOr<RunJob> ReadJob(const RunOptions& options) {
  if (options.spec_file.empty()) return DecideJob(RequestOf(options), "");
  const auto spec_text = ReadUserFile(options.spec_file, kHandwrittenBytesMax);
  if (!spec_text.ok()) return spec_text.status();
  return DecideJob(RequestOf(options), *spec_text);
}

// A pipe, such as the shell's <(make-spec), or standard input.
bool IsReadOnce(const std::string& file) {
  std::error_code error;
  return !file.empty() && !std::filesystem::is_regular_file(file, error);
}

void Complain(const absl::Status& status) {
  absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(status.message()));
}

// Reports the exit of each worker to the coordinator. The exit is proven: the
// launcher has waited for the process.
class Witness {
 public:
  Witness(const std::string& job, const std::string& address,
          const std::string& token)
      : job_{job},
        admin_{.addresses = address,
               .token = token,
               .deadline = absl::Seconds(1)} {}

  // FailedPrecondition: the coordinator has permanently refused the process.
  absl::Status Saw(const std::string& worker, pid_t pid,
                   const launch::ProcessExit& ending) {
    // A coordinator that is unreachable detects the death by the worker's
    // lease. No connection stays open: a draining coordinator would wait for
    // it. Only the coordinator knows whether this process is the member, or
    // another process of that name: so the report names the process, not a
    // generation.
    return AdminClient(admin_).ReportEvidence(
        job_,
        {.subject = {worker},
         .generation = {},
         .kind = protocol::EvidenceKind::kExited,
         .detail = absl::StrFormat("process %d %s", pid, Describe(ending)),
         .process = {.host = HostName(),
                     .pid = pid,
                     .boot_id = BootId(),
                     .start_time = ending.start_time}});
  }

  // Why the job can have no further epoch. Empty if it can, or if that is
  // unknown: the workers' token does not allow describe.
  std::string WhyOver() {
    const absl::StatusOr<JobView> view = AdminClient(admin_).DescribeJob(job_);
    if (!view.ok()) return "";
    if (!IsOver(view->state)) return "";
    return absl::StrCat("it is ", std::string(Name(view->state)),
                        view->cause.message.empty() ? "" : ": ",
                        view->cause.message);
  }

 private:
  const JobName job_;
  const AdminClientOptions admin_;
};

bool WriteAll(int pipe, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(pipe, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    text.remove_prefix(std::max<ssize_t>(written, 0));
  }
  return true;
}

// Reads to the end of the pipe.
std::string ReadToEnd(int pipe) {
  std::string text;
  char chunk[4096];
  ssize_t got = 0;
  while ((got = read(pipe, chunk, sizeof chunk)) != 0) {
    if (got > 0) text.append(chunk, got);
    if (got < 0 && errno != EINTR) break;
  }
  return text;
}

// The spec of the job of this name, unless the job is over, which frees its
// name. Empty if the coordinator does not answer or refuses: the workers' token
// does not allow describe. The workers then report the error.
std::optional<JobSpec> AskForJob(const std::string& address, const JobName& job,
                                 const std::string& token) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const FileDescriptor from(ends[0]);
  FileDescriptor into(ends[1]);
  // In a child process: gRPC's threads do not survive the later forks.
  const pid_t child = fork();
  if (child == 0) {
    AdminClient admin({.addresses = address, .token = token});
    const absl::StatusOr<JobView> view = admin.DescribeJob(job);
    if (view.ok() && IsOver(view->state)) {
      admin.DeleteJob(job, /*keep=*/true).IgnoreError();
    }
    const bool told = !view.ok() || IsOver(view->state) ||
                      WriteAll(into.get(), spec::ToYaml(view->spec));
    _exit(told ? 0 : 1);
  }
  into = FileDescriptor();
  const std::string text = ReadToEnd(from.get());
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) return std::nullopt;
  absl::StatusOr<JobSpec> spec = spec::ParseJobSpec(text, job.value);
  if (!spec.ok()) return std::nullopt;
  return *std::move(spec);
}

// The workers of this host, with their restarts.
class LocalLaunch {
 public:
  LocalLaunch(const RunOptions& options, const RunJob& job)
      : options_(options), job_(job), supervisor_(Hooks()) {}

  int Run() {
    place_ = {.address = options_.address,
              .job = job_.spec.name,
              .world_size = job_.spec.mesh.WorldSize(),
              .spec_file = options_.spec_file,
              .token = options_.token,
              .launch = DrawLaunch()};
    if (absl::Status reached = ReachCoordinator(); !reached.ok()) {
      return Complain(reached), 3;
    }
    if (absl::Status written = WriteSpec(); !written.ok()) {
      return Complain(written), 2;
    }
    if (absl::Status started = StartWorkers(); !started.ok()) {
      return Complain(started), 2;
    }
    // Created after the first forks. Children that are forked later only exec.
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
                       const launch::ProcessExit& ending) {
                  if (!ending.ok()) {
                    absl::FPrintF(stderr, "lockstepctl: %s (process %d) %s\n",
                                  name, pid, Describe(ending));
                  }
                  if (name != kDaemon && witness_) {
                    NoteReport(witness_->Saw(name, pid, ending));
                  }
                },
            .on_workers_ended =
                [this](int failure) {
                  return failure == 0 ? absl::ZeroDuration() : Restart();
                },
            .on_output =
                [](const std::string& name, absl::string_view line) {
                  absl::PrintF("[%s] %s\n", name, line);
                  std::fflush(stdout);
                }};
  }

  // A random id of this launch, which is unique and identifies the launcher.
  std::string DrawLaunch() const {
    const std::string id = absl::StrFormat("%s-%d-%08x", HostName(), getpid(),
                                           std::random_device()());
    if (options_.nodes == 1) return id;
    return absl::StrFormat("%s %d/%d", id, options_.node_rank, options_.nodes);
  }

  absl::Status ReachCoordinator() {
    if (place_.address.empty()) {
      auto started = launch::StartLocalDaemon(supervisor_, options_.token);
      if (!started.ok()) return started.status();
      daemon_ = *std::move(started);
      place_.address = daemon_->address;
      place_.token = daemon_->worker_token;
      SayWhere();
      return absl::OkStatus();
    }
    if (options_.nodes == 1 || !options_.host_address.empty()) {
      place_.host_address = options_.host_address;
      return absl::OkStatus();
    }
    auto own = launch::OwnAddressTowards(place_.address);
    if (!own.ok()) return own.status();
    place_.host_address = *std::move(own);
    return absl::OkStatus();
  }

  // Prints the address, which only this launcher knows.
  void SayWhere() const {
    absl::FPrintF(stderr, "lockstepctl: job %s has a private coordinator at %s",
                  job_.spec.name, place_.address);
    if (daemon_->published.written()) {
      absl::FPrintF(stderr,
                    "; to look at it: lockstepctl --address %s describe",
                    place_.address);
    }
    absl::FPrintF(stderr, "\n");
  }

  // Writes the workers' spec to a temporary file if the given file lacks
  // something or can be read only once.
  absl::Status WriteSpec() {
    if (!job_.differs_from_file && !IsReadOnce(options_.spec_file)) {
      return absl::OkStatus();
    }
    scratch_.emplace();
    if (!scratch_->status().ok()) return scratch_->status();
    place_.spec_file = scratch_->path() / "spec.yaml";
    return WriteUserFile(place_.spec_file, spec::ToYaml(job_.spec));
  }

  // Without a report the coordinator may still reserve a worker's name.
  void NoteReport(const absl::Status& reported) {
    if (absl::IsFailedPrecondition(reported)) {
      if (refusal_.empty()) refusal_ = std::string(reported.message());
    } else if (!reported.ok()) {
      all_reported_ = false;
    }
  }

  absl::Status StartWorkers() {
    started_at_ = absl::Now();
    refusal_.clear();
    place_.local_rank = 0;
    const std::optional<cpu_set_t> cores = AllowedCores();
    if (options_.bind_cores && !cores) {
      return absl::UnavailableError("the cores of this host are not known");
    }
    for (const std::string& worker : job_.workers) {
      place_.worker = worker;
      launch::ChildCommand command{.argv = options_.program,
                                   .environment = launch::EnvironmentOf(place_),
                                   .capture_output = options_.label};
      if (options_.bind_cores) {
        command.cores = ShareOfCores(*cores, place_.local_rank,
                                     static_cast<int>(job_.workers.size()));
      }
      absl::Status started = supervisor_.Start(worker, command);
      if (!started.ok()) return started;
      place_.local_rank += 1;
    }
    return absl::OkStatus();
  }

  // Called when at least one worker has failed and all have ended. It is called
  // again after the duration that it returns.
  absl::Duration Restart() {
    if (options_.restarts == 0 || supervisor_.Ended(kDaemon)) {
      return absl::ZeroDuration();
    }
    if (const std::string why = WhyNoRestart(); !why.empty()) {
      absl::FPrintF(stderr, "lockstepctl: no restart of job %s: %s\n",
                    job_.spec.name, Printable(why));
      return absl::ZeroDuration();
    }
    if (!std::exchange(is_pausing_, true)) return Pause();
    is_pausing_ = false;
    place_.restart_count += 1;
    absl::FPrintF(stderr,
                  "lockstepctl: restart %d of %d: all %d workers of this host "
                  "start again\n",
                  place_.restart_count, options_.restarts, job_.workers.size());
    if (absl::Status s = StartWorkers(); !s.ok()) Complain(s);
    return absl::ZeroDuration();
  }

  // Empty if the workers may be restarted.
  std::string WhyNoRestart() {
    if (!refusal_.empty() && all_reported_) return refusal_;
    if (const std::string why = witness_->WhyOver(); !why.empty()) return why;
    if (place_.restart_count < options_.restarts) return "";
    return absl::StrFormat("%d of %d are used up", place_.restart_count,
                           options_.restarts);
  }

  // Doubles with each restart, unless the workers had run for a while.
  absl::Duration Pause() {
    const bool ran = absl::Now() - started_at_ >= kRunsLong;
    pause_ = ran ? kPauseMin : std::min(2 * pause_, kPauseMax);
    absl::FPrintF(stderr, "lockstepctl: the workers start again in %s\n",
                  absl::FormatDuration(pause_));
    return pause_;
  }

  // Bounds of the pauses between consecutive restarts.
  static constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
  static constexpr absl::Duration kPauseMax = absl::Seconds(30);
  static constexpr absl::Duration kRunsLong = absl::Minutes(1);

  static constexpr char kDaemon[] = "lockstepd";

  const RunOptions& options_;
  const RunJob& job_;
  launch::WorkerPlace place_;                  // of the next worker to start
  std::optional<launch::LocalDaemon> daemon_;  // if it is private
  std::optional<launch::ScratchFolder> scratch_;
  std::unique_ptr<Witness> witness_;
  std::string refusal_;  // permanent, of one worker
  bool all_reported_ = true;
  absl::Time started_at_;  // when the workers started
  bool is_pausing_ = false;
  absl::Duration pause_ = kPauseMin / 2;
  launch::Supervisor supervisor_;
};

}  // namespace

int Run(const RunOptions& options) {
  absl::StatusOr<RunJob> job = ReadJob(options);
  if (job.ok() && !options.address.empty()) {
    const auto existing =
        AskForJob(options.address, {job->spec.name}, options.token);
    if (existing) job = JoinExisting(RequestOf(options), *existing, *job);
  }
  if (!job.ok()) return Complain(job.status()), 2;
  return LocalLaunch(options, *job).Run();
}

}  // namespace lockstep::ctl
