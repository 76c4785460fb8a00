#include "tools/launch/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/process.h"

namespace lockstep::launch {
namespace {

// How often it is asked whether a signal may be forwarded.
constexpr absl::Duration kHoldBackPeriod = absl::Milliseconds(100);

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

std::string SignalText(int signal) {
  return absl::StrFormat("signal %d (%s)", signal, strsignal(signal));
}

std::string NotEnded(absl::Duration grace, const std::string& after) {
  return absl::StrFormat("it had not ended %s after %s",
                         absl::FormatDuration(grace), after);
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)) {
  const sigset_t watched = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &watched, &mask_before_);
  // A shell starts its background jobs with SIGINT ignored. An ignored signal
  // is never delivered, blocked or not.
  for (int ignored : {SIGINT, SIGTERM, SIGHUP, SIGCHLD})
    signal(ignored, SIG_DFL);
  signals_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
}

Supervisor::~Supervisor() {
  entries_.clear();
  close(signals_);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

absl::Status Supervisor::Start(const std::string& name,
                               const ChildCommand& command, Role role) {
  absl::StatusOr<Child> child = Child::Start(command);
  if (!child.ok()) return child.status();
  entries_.push_back({.name = name, .child = *std::move(child), .role = role});
  return absl::OkStatus();
}

bool Supervisor::Ended(const std::string& name) {
  return std::any_of(entries_.begin(), entries_.end(), [&](Entry& entry) {
    return entry.name == name && entry.child.Poll().has_value();
  });
}

bool Supervisor::Signal(const std::string& name, int signal) {
  for (Entry& entry : entries_) {
    if (entry.name != name || entry.child.Poll()) continue;
    entry.child.Signal(signal);
    return true;
  }
  return false;
}

void Supervisor::StartAgain(const std::string& name, ChildCommand command,
                            absl::Duration pause) {
  if (Ending()) return;
  for (Entry& entry : entries_) {
    if (entry.name != name || !entry.ended) continue;
    entry.next_start = {std::move(command), absl::Now() + pause};
    return;
  }
}

void Supervisor::Forgive(const std::string& name) {
  for (Entry& entry : entries_) {
    if (entry.name == name && entry.ended) entry.forgiven = true;
  }
}

bool Supervisor::Ending() const {
  return interrupted_by_ != 0 || first_failure_ != 0;
}

int Supervisor::Run() {
  TakeEndings();
  while (!AllEnded()) {
    WaitForSomething();
    TakeSignals();
    ForwardIfAllowed();
    for (Entry& entry : entries_) TakeOutput(entry);
    TakeEndings();
    StartThoseDue(absl::Now());
    EnforceDeadlines(absl::Now());
  }
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  return first_failure_;
}

bool Supervisor::WorkersEnded() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return (entry.ended && !entry.next_start) ||
           entry.role == Role::kBackground;
  });
}

bool Supervisor::AllEnded() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.ended && !entry.next_start;
  });
}

void Supervisor::WaitForSomething() {
  std::vector<pollfd> fds = {{.fd = signals_, .events = POLLIN, .revents = 0}};
  absl::Time until = std::min(terminate_at_, kill_at_);
  if (held_back_) until = std::min(until, absl::Now() + kHoldBackPeriod);
  for (const Entry& entry : entries_) {
    if (entry.next_start) until = std::min(until, entry.next_start->at);
    if (entry.child.output() >= 0) {
      fds.push_back(
          {.fd = entry.child.output(), .events = POLLIN, .revents = 0});
    }
  }
  const absl::Duration left = until - absl::Now();
  const int timeout_ms = left > absl::Hours(1)
                             ? -1
                             : static_cast<int>(std::max<int64_t>(
                                   1, absl::ToInt64Milliseconds(left)));
  poll(fds.data(), fds.size(), timeout_ms);
}

void Supervisor::TakeSignals() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (held_back_) {
      Forward();
      continue;
    }
    if (interrupted_by_ != 0) {
      SignalWorkers(SIGKILL, absl::StrCat("the launcher got ",
                                          SignalText(interrupted_by_),
                                          " and then ", SignalText(signal)));
      continue;
    }
    interrupted_by_ = signal;
    held_back_ = true;
    CancelStarts();
  }
}

void Supervisor::ForwardIfAllowed() {
  if (!held_back_) return;
  const bool may =
      !options_.may_forward || options_.may_forward(interrupted_by_);
  if (may) Forward();
}

void Supervisor::Forward() {
  held_back_ = false;
  const std::string text = SignalText(interrupted_by_);
  SignalWorkers(interrupted_by_, absl::StrCat("the launcher got ", text));
  kill_at_ = absl::Now() + options_.grace;
  why_kill_ = NotEnded(options_.grace, text);
}

void Supervisor::TakeOutput(Entry& entry) {
  char buffer[4096];
  while (entry.child.output() >= 0) {
    const ssize_t n = read(entry.child.output(), buffer, sizeof buffer);
    if (n < 0) return;
    if (n == 0) {
      entry.child.CloseOutput();
      if (!entry.partial_line.empty()) {
        options_.on_output(entry.name, std::exchange(entry.partial_line, ""));
      }
      return;
    }
    entry.partial_line.append(buffer, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end;
         (end = entry.partial_line.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      options_.on_output(
          entry.name,
          absl::string_view(entry.partial_line).substr(begin, end - begin));
    }
    entry.partial_line.erase(0, begin);
  }
}

void Supervisor::TakeEndings() {
  for (Entry& entry : entries_) {
    if (entry.ended || !entry.child.Poll()) continue;
    TakeOutput(entry);
    entry.ended = true;
    NoteEnding(entry, EndingOf(entry));
  }
  if (!WorkersEnded() || background_told_ || AllEnded()) return;
  background_told_ = true;
  SignalWorkers(SIGTERM, "all workers had ended");
  terminate_at_ = absl::InfiniteFuture();
  kill_at_ = absl::Now() + options_.grace;
  why_kill_ = NotEnded(options_.grace, SignalText(SIGTERM));
}

ProcessExit Supervisor::EndingOf(Entry& entry) {
  ProcessExit ending = *entry.child.Poll();
  const auto sent = entry.sent.find(ending.signal);
  if (sent != entry.sent.end()) ending.why_signalled = sent->second;
  return ending;
}

void Supervisor::NoteEnding(Entry& entry, const ProcessExit& ending) {
  if (options_.on_ending)
    options_.on_ending(entry.name, entry.child.pid(), ending);
  if (entry.next_start || entry.forgiven) return;
  const bool counts = entry.role == Role::kWorker || !WorkersEnded();
  if (!counts || (ending.ok() && entry.role == Role::kWorker)) return;
  CountFailure(entry, ending);
}

void Supervisor::CountFailure(const Entry& entry, const ProcessExit& ending) {
  if (first_failure_ == 0) first_failure_ = ending.ok() ? 1 : ending.code;
  CancelStarts();
  const absl::Time terminate_at = absl::Now() + options_.grace;
  if (interrupted_by_ != 0 || terminate_at >= terminate_at_) return;
  terminate_at_ = terminate_at;
  why_terminate_ =
      NotEnded(options_.grace, absl::StrCat(entry.name, " ", Describe(ending)));
}

void Supervisor::StartThoseDue(absl::Time now) {
  for (Entry& entry : entries_) {
    if (entry.next_start && entry.next_start->at <= now) StartNow(entry);
  }
}

// The new child takes the entry of the old one, whose processes have ended.
void Supervisor::StartNow(Entry& entry) {
  const NextStart next = *std::exchange(entry.next_start, std::nullopt);
  absl::StatusOr<Child> child = Child::Start(next.command);
  if (!child.ok()) {
    if (options_.on_not_started) {
      options_.on_not_started(entry.name, child.status());
    }
    return CountFailure(entry, EndingOf(entry));
  }
  TakeOutput(entry);
  if (!entry.partial_line.empty()) {
    options_.on_output(entry.name, std::exchange(entry.partial_line, ""));
  }
  entry.child = *std::move(child);
  entry.sent.clear();
  entry.forgiven = false;
  entry.ended = false;
}

void Supervisor::CancelStarts() {
  for (Entry& entry : entries_) entry.next_start.reset();
}

void Supervisor::EnforceDeadlines(absl::Time now) {
  if (now >= terminate_at_) {
    terminate_at_ = absl::InfiniteFuture();
    kill_at_ = now + options_.grace;
    why_kill_ = NotEnded(options_.grace, SignalText(SIGTERM));
    SignalWorkers(SIGTERM, why_terminate_);
  }
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    SignalWorkers(SIGKILL, why_kill_);
  }
}

// Workers need the background children (the coordinator) to the end, so these
// get signals only when the workers have ended.
void Supervisor::SignalWorkers(int signal, const std::string& why) {
  const bool background_too = WorkersEnded();
  for (Entry& entry : entries_) {
    const bool spared = entry.role == Role::kBackground && !background_too;
    if (spared || entry.child.Poll()) continue;
    const bool is_stopped = signal == SIGKILL && IsStopped(entry.child.pid());
    entry.sent[signal] = absl::StrCat(
        why, is_stopped ? "; it was stopped (by SIGSTOP or a "
                          "debugger), so that no other signal reached it"
                        : "");
    entry.child.Signal(signal);
  }
}

}  // namespace lockstep::launch
