// The coordinator daemon: wiring, and drain.

#include <grpc/support/log.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/command_line.h"
#include "base/file_system.h"
#include "base/open_files.h"
#include "base/secret_file.h"
#include "base/standard_streams.h"
#include "base/text/count.h"
#include "google/protobuf/stubs/logging.h"
#include "proto/codec.h"
#include "proto/grpc_process.h"
#include "proto/plan_chunks.h"
#include "server/access/may_listen.h"
#include "server/core/coordinator.h"
#include "server/daemon_flags.h"
#include "server/journal/sqlite_store.h"
#include "server/metrics/metrics_page.h"
#include "server/observe/log.h"
#include "server/observe/service_manager.h"
#include "server/open_journal.h"
#include "server/rpc/connection_limit.h"
#include "server/rpc/health_listener.h"
#include "server/rpc/listener.h"
#include "server/rpc/metrics_listener.h"
#include "server/rpc/server.h"
#include "server/runtime/coordinator_loop.h"
#include "server/runtime/replay.h"

namespace lockstep {
namespace {

// How long calls may take to end when the daemon shuts down.
constexpr absl::Duration kDrainPatience = absl::Seconds(5);

// How long the last scrape may take to be written then.
constexpr absl::Duration kMetricsPatience = absl::Milliseconds(200);

// Open files needed: gRPC's own, the reserve, and a few connections.
constexpr int kFiles = proto::kFilesOfGrpc + rpc::ConnectionLimit::kReserve + 8;

// The libraries log at length what the daemon logs in one line.
void QuietLibraries() {
  gpr_set_log_function([](gpr_log_func_args*) {});
  google::protobuf::SetLogHandler(nullptr);
}

// Blocks these signals in all threads started later; Serve waits for them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// systemd sets them for its services.
std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What the daemon says, and to whom.
struct Voices {
  observe::Log* log;
  const observe::ServiceManager* manager;

  void Ready(const std::string& status) const {
    LogFailure(manager->Ready(status));
  }
  void Stopping(const std::string& status) const {
    log->Info(status);
    LogFailure(manager->Stopping(status));
  }
  void Alive() const { LogFailure(manager->Alive()); }

 private:
  void LogFailure(const absl::Status& told) const {
    if (!told.ok()) {
      log->Warning(absl::StrCat("systemd is not told: ", told.message()));
    }
  }
};

absl::Status Announce(const rpc::Server& server, const DaemonFlags& flags,
                      FileSystem* files, const Voices& voices) {
  const std::string address = rpc::ToString(server.address());
  const std::string listening = absl::StrCat("listening on ", address);
  voices.log->Info(listening);
  if (!flags.port_file.empty()) {
    const absl::Status written =
        PublishFile(files, flags.port_file, absl::StrCat(address, "\n"));
    if (!written.ok()) return written;
  }
  std::printf("lockstepd listening on %s\n", address.c_str());
  std::fflush(stdout);
  voices.Ready(listening);
  return absl::OkStatus();
}

void LogReplay(const runtime::Replayed& replayed,
               const core::Coordinator& coordinator, const DaemonFlags& flags,
               observe::Log* log) {
  for (const std::string& note : replayed.notes) log->Warning(note);
  if (flags.journal == kJournalInMemory) {
    return log->Info(
        "the journal is in memory: a restart knows the jobs only from the "
        "workers that run then; --journal DIR keeps them");
  }
  log->Info(absl::StrCat(
      "journal ", flags.journal, ": ",
      Count(static_cast<int64_t>(coordinator.durable().records), "record"),
      ", ",
      Count(static_cast<int64_t>(coordinator.durable().jobs.size()), "job")));
}

// Whether a signal of BlockSignals has arrived.
bool IsToldToEnd() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) != 0 ||
         sigismember(&pending, SIGINT) != 0;
}

// How often systemd is told that the daemon is alive: its manual wants half of
// the interval.
absl::Duration PulseInterval() {
  return observe::WatchdogInterval(Variable("WATCHDOG_USEC"),
                                   Variable("WATCHDOG_PID"), getpid()) /
         4;
}

// Waits for one of the signals. Meanwhile the loop tells systemd that it runs:
// one that is stuck would keep its leadership, and do nothing.
int AwaitSignal(const sigset_t& signals, runtime::CoordinatorLoop* loop,
                const Voices& voices) {
  int signal = 0;
  const absl::Duration interval = PulseInterval();
  if (interval == absl::InfiniteDuration()) {
    sigwait(&signals, &signal);
    return signal;
  }
  const timespec pause = absl::ToTimespec(interval);
  while ((signal = sigtimedwait(&signals, nullptr, &pause)) < 0) {
    loop->ListLimits([voices](const absl::StatusOr<std::vector<LimitUse>>&) {
      voices.Alive();
    });
  }
  return signal;
}

// The listener for probes, if there is to be one. It does not serve yet.
absl::StatusOr<std::unique_ptr<rpc::HealthListener>> StartHealth(
    const DaemonFlags& flags, const rpc::ServerOptions& options,
    observe::Log* log) {
  if (flags.health_address.empty()) return nullptr;
  const auto address = rpc::ParseAddress(flags.health_address);
  if (!address.ok()) return address.status();
  auto health = rpc::HealthListener::Start(*address, options);
  if (!health.ok()) return health.status();
  log->Info(
      absl::StrCat("health is told on ", rpc::ToString((*health)->address())));
  return health;
}

absl::Status MayBeFollowed() {
  return absl::AbortedError("another coordinator may lead now");
}

// The listener of `page`, if there is to be one. It serves at once.
absl::StatusOr<std::unique_ptr<rpc::MetricsListener>> StartMetrics(
    const DaemonFlags& flags, const rpc::ServerOptions& options,
    metrics::MetricsPage* page, observe::Log* log) {
  if (flags.metrics_address.empty()) return nullptr;
  const auto address = rpc::ParseAddress(flags.metrics_address);
  if (!address.ok()) return address.status();
  auto listener = rpc::MetricsListener::Start(
      *address, [page] { return page->Text(absl::Now()); }, options.on_warning);
  if (!listener.ok()) return listener.status();
  log->Info(absl::StrCat("metrics are told on ",
                         rpc::ToString((*listener)->address())));
  return listener;
}

// Serves until a signal arrives, the journal fails or another coordinator
// leads.
absl::Status Serve(const DaemonFlags& flags, rpc::ServerOptions options,
                   absl::Duration adoption_window, const sigset_t& signals,
                   FileSystem* files, const Voices& voices) {
  observe::Log* const log = voices.log;
  const absl::Status may =
      rpc::MayListen(options.listen, options.tls_folder, options.insecure);
  if (!may.ok()) return may;
  const std::string short_tokens =
      rpc::WarningOfShortTokens(options.gate.tokens());
  if (!short_tokens.empty()) log->Warning(short_tokens);
  // Before it waits to lead: files that break meanwhile are said, and not used.
  auto credentials = rpc::ReadCredentials(options.tls_folder, options);
  if (!credentials.ok()) return credentials.status();
  options.credentials = *std::move(credentials);
  const auto health = StartHealth(flags, options, log);
  if (!health.ok()) return health.status();
  const bool is_measured = !flags.metrics_address.empty();
  const auto page = metrics::MetricsPage::Make(
      LOCKSTEP_VERSION, {.tls = is_measured ? options.tls_folder : "",
                         .etcd_tls = is_measured ? flags.etcd_tls : ""});
  if (!page.ok()) return page.status();
  const auto metrics = StartMetrics(flags, options, page->get(), log);
  if (!metrics.ok()) return metrics.status();
  std::atomic<bool> leads{true};
  JournalOptions journal_options = JournalOptionsFrom(flags);
  journal_options.gives_up = [&voices, interval = PulseInterval(),
                              next = absl::Now()]() mutable {
    if (absl::Now() >= next) {
      next = absl::Now() + interval;
      if (interval != absl::InfiniteDuration()) voices.Alive();
    }
    return IsToldToEnd();
  };
  // Up, though it does not serve: systemd would end a start that takes long.
  journal_options.on_wait = [&, has_looked =
                                    false](const std::string& why) mutable {
    voices.Ready(why);
    if (std::exchange(has_looked, true)) return;
    // The one that has the port may be gone when this one leads.
    const auto listener = rpc::Listener::Bind(options.listen);
    if (listener.ok()) return;
    log->Warning(absl::StrCat("while it waits: ", listener.status().message(),
                              "; it could not serve if it led now"));
  };
  journal_options.on_lost = [&](const absl::Status& why) {
    if (!leads.exchange(false)) return;
    log->Error(std::string(why.message()));
    kill(getpid(), SIGTERM);
  };
  auto opened = OpenJournal(journal_options, log);
  const bool in_etcd = opened.ok() && opened->leadership != nullptr;
  if (!leads) return MayBeFollowed();
  if (absl::IsCancelled(opened.status())) {
    voices.Stopping("going down: told to end before it led");
    return absl::OkStatus();
  }
  if (!opened.ok()) return opened.status();
  options.term = opened->term;
  core::Coordinator coordinator({.term = options.term,
                                 .adoption_window = adoption_window,
                                 .secret_seed = DrawSecret(),
                                 .limits = flags.limits.core()});
  const runtime::JournalCodec codec = {&proto::RecordBytes, &proto::ParseRecord,
                                       &proto::SnapshotParts,
                                       &proto::ParseSnapshot};
  const auto replayed =
      runtime::Replay(opened->journal.get(), codec, &coordinator);
  if (!leads) return MayBeFollowed();
  if (absl::IsDataLoss(replayed.status())) {
    return absl::DataLossError(absl::StrCat(replayed.status().message(), "; ",
                                            AdviceFor(flags.journal)));
  }
  if (!replayed.ok()) return replayed.status();

  SystemClock clock;
  std::atomic<bool> journal_failed{false};
  runtime::CoordinatorLoop loop({
      .coordinator = &coordinator,
      .journal = std::move(opened->journal),
      .codec = codec,
      .plans = {&proto::PlanBytes, &proto::PlanFromBytes},
      .clock = &clock,
      .events = log,
      .metrics = (*page)->sink(),
      .on_journal_failure =
          [&](const absl::Status& status) {
            // The fence: `on_lost` may follow, and has nothing to add.
            if (absl::IsFailedPrecondition(status) && in_etcd) {
              journal_options.on_lost(absl::AbortedError(absl::StrCat(
                  "this coordinator leads no more: ", status.message())));
              return;
            }
            if (leads) {
              log->Error(
                  absl::StrCat("the journal failed: ", status.message()));
            }
            journal_failed = true;
            kill(getpid(), SIGTERM);
          },
      .on_journal_trouble =
          [log](const absl::Status& trouble) {
            if (trouble.ok()) {
              log->Warning(
                  "the journal has room again: waiting records are "
                  "durable");
            } else {
              log->Error(absl::StrCat(
                  "the journal has no room, records wait until there is some: ",
                  trouble.message()));
            }
          },
      .hello = flags.limits.hello(),
  });
  auto server = rpc::Server::Start(options, &loop);
  if (!server.ok()) return server.status();
  if (adoption_window > absl::ZeroDuration() &&
      coordinator.durable().records == 0) {
    log->Info(absl::StrCat("for ", absl::FormatDuration(adoption_window),
                           " no job forms: jobs that run may offer "
                           "themselves for adoption"));
  }
  if (*health != nullptr) (*health)->SetServing(true);
  (*page)->Show({.term = options.term, .loop = &loop, .limits = [&server] {
                   return (*server)->LimitUses();
                 }});
  const absl::Cleanup hide = [&page] { (*page)->Hide(); };
  LogReplay(*replayed, coordinator, flags, log);
  const absl::Status announced = Announce(**server, flags, files, voices);
  if (!announced.ok()) return announced;

  const int signal = AwaitSignal(signals, &loop, voices);
  voices.Stopping(
      absl::StrCat("going down: ", !leads ? "another coordinator may lead"
                                   : journal_failed ? "the journal failed"
                                                    : strsignal(signal)));
  (*server)->SetServing(false);
  if (*health != nullptr) (*health)->SetServing(false);
  loop.Drain();
  const absl::Duration patience = leads ? kDrainPatience : absl::ZeroDuration();
  (*server)->Shutdown(patience);
  if (*health != nullptr) (*health)->Shutdown(patience);
  if (*metrics != nullptr) (*metrics)->Shutdown(kMetricsPatience);
  if (!leads) return MayBeFollowed();
  return journal_failed ? absl::DataLossError("the journal failed")
                        : absl::OkStatus();
}

observe::LineHead HeadOfErrors() {
  return observe::LineHeadFor(STDERR_FILENO, Variable("JOURNAL_STREAM"));
}

int Complain(const absl::Status& status, int exit_code) {
  const std::string lines = observe::ErrorLines(
      absl::StrCat("lockstepd: ", status.message()), HeadOfErrors());
  std::fputs(lines.c_str(), stderr);
  return exit_code;
}

int Main(int argc, char** argv) {
  // The reader of the log may exit before the daemon does.
  signal(SIGPIPE, SIG_IGN);
  DaemonFlags flags;
  CommandLine line(
      "The coordinator of Lockstep: keeps the workers of training "
      "jobs in step.",
      "lockstepd");
  Declare(&flags, &line);
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  PosixFileSystem files;
  const auto log = observe::Log::Make(flags.log_level, HeadOfErrors());
  if (!log.ok()) return Complain(log.status(), 2);
  if (absl::Status journal = CheckJournal(JournalOptionsFrom(flags));
      !journal.ok()) {
    return Complain(journal, 2);
  }
  auto options = OptionsFrom(flags);
  if (!options.ok()) return Complain(options.status(), 2);
  const auto adoption_window = AdoptionWindowFrom(flags, *options);
  if (!adoption_window.ok()) return Complain(adoption_window.status(), 2);
  options->on_warning = [log = log->get()](const std::string& line) {
    log->Warning(line);
  };
  RaiseOpenFilesLimit();
  if (absl::Status files = RequireOpenFiles(kFiles); !files.ok()) {
    return Complain(files, 1);
  }

  const sigset_t signals = BlockSignals();
  QuietLibraries();
  const observe::ServiceManager manager(Variable("NOTIFY_SOCKET"));
  const absl::Status served = Serve(flags, *options, *adoption_window, signals,
                                    &files, {log->get(), &manager});
  return served.ok() ? 0 : Complain(served, 1);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
