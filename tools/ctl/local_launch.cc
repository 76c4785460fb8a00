#include "tools/ctl/local_launch.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/cpu_affinity.h"
#include "base/join_token.h"
#include "base/process.h"
#include "base/text/count.h"
#include "base/text/utf8.h"
#include "base/user_file.h"
#include "spec/spec_text.h"
#include "tools/certs/certificate_folder.h"
#include "tools/ctl/ask_for_job.h"
#include "tools/ctl/print.h"
#include "tools/launch/own_address.h"

namespace lockstep::ctl {
namespace {

constexpr char kDaemon[] = "lockstepd";

// A pipe, such as the shell's <(make-spec), or standard input.
bool IsReadOnce(const std::string& file) {
  std::error_code error;
  return !file.empty() && !std::filesystem::is_regular_file(file, error);
}

}  // namespace

void Complain(const absl::Status& status) {
  absl::FPrintF(stderr, "lockstepctl: %s\n", Printable(status.message()));
}

LocalLaunch::LocalLaunch(const RunOptions& options, const RunJob& job)
    : options_(options),
      job_(job),
      restarts_(options.restarts, options.grace),
      supervisor_(Hooks()) {}

int LocalLaunch::Run() {
  place_ = {.address = options_.address,
            .job = job_.spec.name,
            .world_size = job_.spec.mesh.WorldSize(),
            .spec_file = options_.spec_file,
            .token = WorkersToken(),
            .tls_folder = options_.WorkersTls(),
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
  reporter_ = std::make_unique<ExitReporter>(job_.spec.name, place_.address,
                                             OwnToken(), OwnTls());
  WatchStalls();
  const int code = supervisor_.Run();
  if (!daemon_) reporter_->ReportRest();
  const bool enough = static_cast<int>(ended_well_.size()) >= job_.needed;
  return code == 0 && !enough ? code_of_lost_ : code;
}

// The launcher's own, which may be an operator's.
std::string LocalLaunch::OwnToken() const {
  if (daemon_) return daemon_->operator_token;
  return options_.token.empty() ? place_.token : options_.token;
}

std::string LocalLaunch::OwnTls() const {
  return daemon_ ? PrivateTls(certs::kOperatorFolder) : options_.LauncherTls();
}

std::string LocalLaunch::WorkersToken() const {
  if (options_.worker_token.empty()) return options_.token;
  absl::StatusOr<std::string> token =
      JoinToken(options_.worker_token, job_.spec.name);
  Check(token.ok(), "the caller has checked the workers' token");
  return *std::move(token);
}

// --- Starting ---------------------------------------------------------------

// A random id of this launch, which is unique and identifies the launcher.
std::string LocalLaunch::DrawLaunch() const {
  const std::string id = absl::StrFormat("%s-%d-%08x", HostName(), getpid(),
                                         std::random_device()());
  if (options_.nodes == 1) return id;
  return absl::StrFormat("%s %d/%d", id, options_.node_rank, options_.nodes);
}

// Every user of this machine can take the port once the coordinator has ended.
// Without its certificate they get nothing from the workers.
absl::Status LocalLaunch::StartCoordinator() {
  if (!options_.insecure) {
    certificates_.emplace();
    if (!certificates_->status().ok()) return certificates_->status();
    absl::Status made = certs::MakeThrowAwayCertificates(
        certificates_->path().string(), absl::Now());
    if (!made.ok()) return made;
  }
  auto started = launch::StartLocalDaemon(
      supervisor_, {.operator_token = options_.token,
                    .journal = options_.journal,
                    .tls_folder = PrivateTls(certs::kCoordinatorFolder),
                    .operator_tls_folder = PrivateTls(certs::kOperatorFolder),
                    .worker_tls_folder = PrivateTls(certs::kWorkerFolder)});
  if (!started.ok()) return started.status();
  daemon_ = *std::move(started);
  place_.address = daemon_->address;
  place_.token = daemon_->JoinTokenOf(job_.spec.name);
  place_.tls_folder = PrivateTls(certs::kWorkerFolder);
  return absl::OkStatus();
}

std::string LocalLaunch::PrivateTls(const char* side) const {
  if (!certificates_) return "";
  return absl::StrCat(certificates_->path().string(), "/", side);
}

absl::Status LocalLaunch::ReachCoordinator() {
  if (place_.address.empty()) {
    absl::Status started = StartCoordinator();
    if (!started.ok()) return started;
    // Frees the name of a job that is over in the journal.
    if (options_.journal != "memory") {
      AskForJob(place_.address, {job_.spec.name}, daemon_->operator_token,
                OwnTls());
    }
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
void LocalLaunch::SayWhere() const {
  absl::FPrintF(stderr, "lockstepctl: job %s has a private coordinator at %s",
                job_.spec.name, place_.address);
  if (daemon_->published.written()) {
    absl::FPrintF(stderr, "; to look at it: lockstepctl --address %s describe",
                  place_.address);
  }
  absl::FPrintF(stderr, "\n");
}

// Writes the workers' spec to a temporary file if the given file lacks
// something or can be read only once.
absl::Status LocalLaunch::WriteSpec() {
  if (!job_.differs_from_file && !IsReadOnce(options_.spec_file)) {
    return absl::OkStatus();
  }
  scratch_.emplace();
  if (!scratch_->status().ok()) return scratch_->status();
  place_.spec_file = scratch_->path() / "spec.yaml";
  return WriteUserFile(place_.spec_file, spec::ToYaml(job_.spec));
}

absl::Status LocalLaunch::StartWorkers() {
  if (options_.bind_cores) {
    cores_ = AllowedCores();
    if (!cores_) {
      return absl::UnavailableError("the cores of this host are not known");
    }
  }
  for (const std::string& worker : job_.workers) {
    absl::Status started =
        supervisor_.Start(worker, CommandOf(worker, /*restart=*/0));
    if (!started.ok()) return started;
  }
  return absl::OkStatus();
}

launch::ChildCommand LocalLaunch::CommandOf(const std::string& worker,
                                            int restart) {
  const auto& workers = job_.workers;
  launch::WorkerPlace place = place_;
  place.worker = worker;
  place.local_rank = static_cast<int>(
      std::find(workers.begin(), workers.end(), worker) - workers.begin());
  place.restart_count = restart;
  launch::ChildCommand command{.argv = options_.program,
                               .environment = launch::EnvironmentOf(place),
                               .capture_output = options_.label};
  if (cores_) {
    command.cores = ShareOfCores(*cores_, place.local_rank,
                                 static_cast<int>(workers.size()));
  }
  return command;
}

// On several hosts the first launcher is enough: each watch costs the
// coordinator.
void LocalLaunch::WatchStalls() {
  if (options_.node_rank != 0) return;
  stalls_ = std::make_unique<StallWatch>(
      JobName{job_.spec.name},
      AdminClientOptions{.addresses = place_.address,
                         .token = OwnToken(),
                         .tls_folder = OwnTls(),
                         .on_warning = &Warn},
      [job = job_.spec.name](const std::string& stall) {
        absl::FPrintF(stderr, "lockstepctl: job %s: %s\n", job,
                      Printable(stall));
      });
}

// --- Endings and restarts ---------------------------------------------------

launch::SupervisorOptions LocalLaunch::Hooks() {
  return {.grace = options_.grace,
          .on_ending =
              [this](const std::string& name, pid_t pid,
                     const launch::ProcessExit& ending) {
                OnEnding(name, pid, ending);
              },
          .may_forward = [this](int signal) { return MayForward(signal); },
          .on_not_started = [](const std::string&,
                               const absl::Status& why) { Complain(why); },
          .on_output =
              [](const std::string& name, absl::string_view line) {
                absl::PrintF("[%s] %s\n", name, line);
                std::fflush(stdout);
              }};
}

void LocalLaunch::OnEnding(const std::string& name, pid_t pid,
                           const launch::ProcessExit& ending) {
  if (!ending.ok()) {
    absl::FPrintF(stderr, "lockstepctl: %s (process %d) %s\n", name, pid,
                  Describe(ending));
  }
  if (name == kDaemon || !reporter_) return;
  const absl::Status reported = reporter_->Report(name, pid, ending);
  const bool refused = IsRefused(name, reported);
  if (ending.ok()) ended_well_.insert(name);
  if (supervisor_.Ending() || supervisor_.Ended(kDaemon)) return;
  // A worker that ended well is needed again only after another one failed.
  if (ending.ok() && restarts_.used() == 0) return;
  const ExitReporter::Standing job = reporter_->Ask(name, pid);
  if (ending.ok()) return StartIfNeeded(name, job);
  if (job.completed_without_it) return NoteUnneeded(name);
  const bool starts_again =
      options_.restarts > 0 &&
      Repair(name, job, refused ? std::string(reported.message()) : "");
  if (!starts_again) GoOnWithout(name, job, ending);
}

// SIGINT and SIGHUP are of somebody who waits for the end.
bool LocalLaunch::MayForward(int signal) {
  if (signal != SIGTERM || options_.save_on_term == absl::ZeroDuration()) {
    return true;
  }
  if (!term_save_) {
    absl::FPrintF(stderr,
                  "lockstepctl: %s: job %s saves before its workers end, for "
                  "%s at most\n",
                  strsignal(signal), job_.spec.name,
                  absl::FormatDuration(options_.save_on_term));
    term_save_.emplace(JobName{job_.spec.name},
                       AdminClientOptions{.addresses = place_.address,
                                          .token = OwnToken(),
                                          .tls_folder = OwnTls(),
                                          .deadline = absl::Seconds(1),
                                          .on_warning = &Warn},
                       options_.save_on_term);
  }
  const std::optional<absl::Status> saved = term_save_->Take(absl::Now());
  if (!saved) return false;
  const std::string outcome =
      saved->ok() ? "is saved"
                  : absl::StrCat("is not saved: ", Printable(saved->message()));
  absl::FPrintF(stderr, "lockstepctl: job %s %s\n", job_.spec.name, outcome);
  return true;
}

// The others have the result.
void LocalLaunch::NoteUnneeded(const std::string& worker) {
  supervisor_.Forgive(worker);
  ended_well_.insert(worker);
  absl::FPrintF(stderr,
                "lockstepctl: job %s does not need %s: it is completed\n",
                job_.spec.name, worker);
}

void LocalLaunch::GoOnWithout(const std::string& worker,
                              const ExitReporter::Standing& job,
                              const launch::ProcessExit& ending) {
  lost_.insert(worker);
  const int left = static_cast<int>(job_.workers.size() - lost_.size());
  if (left < job_.needed) return;
  if (code_of_lost_ == 0) code_of_lost_ = ending.code;
  supervisor_.Forgive(worker);
  if (!job.over.empty()) {
    absl::FPrintF(stderr, "lockstepctl: job %s does not need %s: %s\n",
                  job_.spec.name, worker, Printable(job.over));
    return;
  }
  absl::FPrintF(stderr,
                "lockstepctl: job %s goes on without %s: %s left, and it "
                "needs %d\n",
                job_.spec.name, worker,
                absl::StrCat(Count(left, "worker"), left == 1 ? " is" : " are"),
                job_.needed);
}

// A refusal of a worker whose name is still reserved is not permanent.
bool LocalLaunch::IsRefused(const std::string& worker,
                            const absl::Status& reported) {
  if (reported.ok()) {
    unreported_.erase(worker);
    return false;
  }
  if (absl::IsFailedPrecondition(reported)) {
    return unreported_.count(worker) == 0;
  }
  unreported_.insert(worker);
  return false;
}

bool LocalLaunch::Repair(const std::string& worker,
                         const ExitReporter::Standing& job,
                         const std::string& refusal) {
  if (!refusal.empty()) return SayNoRestart(refusal), false;
  if (!job.over.empty()) return SayNoRestart(job.over), false;
  const auto restart = restarts_.OnFailure(worker, absl::Now());
  if (!restart) {
    SayNoRestart(absl::StrFormat("%d of %d are used up", restarts_.used(),
                                 options_.restarts));
    return false;
  }
  StartAgain(worker, *restart);
  if (!job.forms) return true;
  // The next epoch needs every rank.
  for (const std::string& other : std::set<std::string>(ended_well_)) {
    const auto with_it = restarts_.OnNeeded(other, absl::Now());
    if (with_it) StartAgain(other, *with_it);
  }
  return true;
}

// A worker that ended well after another one had failed may have been in the
// epoch that ended.
void LocalLaunch::StartIfNeeded(const std::string& worker,
                                const ExitReporter::Standing& job) {
  if (!job.forms || !job.over.empty()) return;
  const auto restart = restarts_.OnNeeded(worker, absl::Now());
  if (restart) StartAgain(worker, *restart);
}

void LocalLaunch::StartAgain(const std::string& worker,
                             const Restart& restart) {
  ended_well_.erase(worker);
  absl::FPrintF(
      stderr, "lockstepctl: restart %d of %d: %s starts again%s\n",
      restart.number, options_.restarts, worker,
      restart.pause > absl::ZeroDuration()
          ? absl::StrCat(" in ", absl::FormatDuration(absl::Ceil(
                                     restart.pause, absl::Milliseconds(1))))
          : "");
  supervisor_.StartAgain(worker, CommandOf(worker, restart.number),
                         restart.pause);
}

void LocalLaunch::SayNoRestart(const std::string& why) const {
  absl::FPrintF(stderr, "lockstepctl: no restart of job %s: %s\n",
                job_.spec.name, Printable(why));
}

}  // namespace lockstep::ctl
