#include "client/gradient/replays.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/thread.h"

namespace lockstep::gradient {
namespace {

// How often the journal is read: often while replays are decided.
constexpr absl::Duration kOften = absl::Microseconds(50);
constexpr absl::Duration kSeldom = absl::Milliseconds(1);
// How long a launch may take to end behind the end of the epoch.
constexpr absl::Duration kEndTimeout = absl::Seconds(5);
constexpr absl::Duration kProbeInterval = absl::Milliseconds(100);
// How much later than this rank a peer may know of the last step.
constexpr absl::Duration kStuckAfter = absl::Seconds(1);

}  // namespace

Replays::Replays(Options options)
    : options_(std::move(options)), next_(options_.first_entry) {
  {
    MutexLock lock(&mutex_);
    acted_ = returned_ = options_.first_entry;
  }
  options_.gate->NoteRead(next_);
  Post();
  thread_ = StartThread("ls-replay", [this] { Run(); });
}

void Replays::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    woken_.NotifyAll();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Replays::Post() {
  MutexLock one_at_a_time(&post_mutex_);
  // First: who has acted on a verdict no longer holds what it has shown.
  uint64_t acted = 0;
  {
    MutexLock lock(&mutex_);
    acted = acted_;
  }
  uint64_t saves = 0;
  const StepSummary held = options_.held(&saves);
  options_.gate->PostReplays(held, acted, saves);
}

void Replays::Wake() {
  MutexLock lock(&mutex_);
  changed_.NotifyAll();
}

// --- The program -------------------------------------------------------------

absl::StatusOr<ReplayedVerdict> Replays::Next(absl::Duration timeout) {
  const Deadline deadline(timeout);
  bool has_acted = false;
  {
    MutexLock lock(&mutex_);
    has_acted = std::exchange(acted_, returned_) != returned_;
  }
  if (has_acted) Post();
  for (;;) {
    const auto next = AwaitFront(deadline, timeout);
    if (!next.ok()) return next.status();
    const auto result = next->verdict->AwaitResult(deadline);
    if (!result) return absl::DeadlineExceededError("the job is paused");
    if (!result->ok()) return result->status();
    MutexLock lock(&mutex_);
    // Unless it had to make room, or another thread has it.
    if (verdicts_.empty() || verdicts_.front().verdict != next->verdict) {
      continue;
    }
    verdicts_.pop_front();
    returned_ = next->verdict->launch + 1;
    return ReplayedVerdict{.launch = next->replay,
                           .missed = std::exchange(missed_, 0),
                           .verdict = **result};
  }
}

absl::StatusOr<Replays::DecidedReplay> Replays::AwaitFront(
    const Deadline& deadline, absl::Duration timeout) {
  for (;;) {
    const absl::Status ended = options_.ended();
    // What the device has passed before the end is known then.
    if (!ended.ok() && !end_is_awaited_.exchange(true)) {
      AwaitDecided(kEndTimeout);
    }
    MutexLock lock(&mutex_);
    if (!verdicts_.empty()) return verdicts_.front();
    if (!ended.ok()) return ended;
    if (deadline.Passed()) {
      return absl::DeadlineExceededError(
          absl::StrFormat("no step of the program's graphs has passed for %s",
                          absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(&mutex_, deadline.Left());
  }
}

absl::Status Replays::BeginEager() {
  bool has_acted = false;
  {
    const Deadline now(absl::ZeroDuration());
    MutexLock lock(&mutex_);
    for (const DecidedReplay& one : verdicts_) {
      const auto result = one.verdict->AwaitResult(now);
      const bool saves =
          result && result->ok() && (*result)->Holds(Command::kSave);
      if (!saves) continue;
      return absl::FailedPreconditionError(absl::StrFormat(
          "the verdict of launch %d holds a save, and ReplayedSteps::Next has "
          "not returned it: obey it before the next step",
          one.replay));
    }
    has_acted = std::exchange(acted_, returned_) != returned_;
  }
  if (has_acted) Post();
  return absl::OkStatus();
}

uint64_t Replays::decided() {
  const Deadline now(absl::ZeroDuration());
  MutexLock lock(&mutex_);
  for (const DecidedReplay& one : verdicts_) {
    if (!one.verdict->AwaitResult(now)) return one.replay;
  }
  return decided_;
}

// --- Waiting -----------------------------------------------------------------

bool Replays::AwaitIdle(absl::Duration timeout) {
  return Await(timeout, [](const kernels::ReplayCounts& counts) {
    return counts.begun == counts.gates;
  });
}

bool Replays::AwaitDecided(absl::Duration timeout) {
  return Await(timeout, [](const kernels::ReplayCounts& counts) {
    return counts.records == counts.gates;
  });
}

// What the gates have written before they were counted is read in the rounds
// that begin behind that.
bool Replays::Await(
    absl::Duration timeout,
    const std::function<bool(const kernels::ReplayCounts&)>& over) {
  const Deadline deadline(timeout);
  std::optional<uint64_t> since;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (!since && over(options_.gate->CountReplays())) since = rounds_;
    if (since && rounds_ >= *since + 2) return true;
    if (deadline.Passed()) return false;
    woken_.NotifyAll();
    changed_.WaitFor(&mutex_, std::min(kSeldom, deadline.Left()));
  }
  return since.has_value();
}

// --- The thread --------------------------------------------------------------

void Replays::Run() {
  absl::Duration pause = kOften;
  for (;;) {
    const kernels::ReplayCounts counts = options_.gate->CountReplays();
    const bool any = ReadEntries();
    WatchRunning(counts);
    pause = any ? kOften : std::min(2 * pause, kSeldom);
    MutexLock lock(&mutex_);
    decided_ = counts.gates;
    rounds_ += 1;
    changed_.NotifyAll();
    if (stopping_) return;
    woken_.WaitFor(&mutex_, pause);
  }
}

bool Replays::ReadEntries() {
  bool any = false;
  for (;; any = true) {
    const kernels::StepEntry* const entry = options_.gate->EntryAt(next_);
    if (entry == nullptr) return any;
    if (entry->is_replay != 0) Decide(entry->replay);
    next_ += 1;
    options_.gate->NoteRead(next_);
    Post();
  }
}

// The verdict is known to Next before it is acted on: it may be the last one.
void Replays::Decide(uint64_t replay) {
  const auto verdict = options_.begin(next_);
  if (verdict == nullptr) return;
  {
    MutexLock lock(&mutex_);
    verdicts_.push_back({replay, verdict});
    if (verdicts_.size() > kVerdictsMax) {
      verdicts_.pop_front();
      ++missed_;
    }
  }
  options_.decided(verdict);
}

void Replays::WatchRunning(const kernels::ReplayCounts& counts) {
  const bool runs = counts.begun > counts.gates;
  if (!runs) {
    probe_at_.reset();
    stuck_at_.reset();
    return;
  }
  if (!probe_at_) probe_at_.emplace(kProbeInterval);
  if (probe_at_->Passed()) {
    options_.probe();
    probe_at_.emplace(kProbeInterval);  // a device that is slow to answer
  }
  if (options_.ended().ok()) return;
  if (!stuck_at_) stuck_at_.emplace(kStuckAfter);
  if (!stuck_at_->Passed()) return;
  stuck_at_.emplace(kStuckAfter);
  options_.is_stuck();
}

}  // namespace lockstep::gradient
