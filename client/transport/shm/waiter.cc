#include "client/transport/shm/waiter.h"

#include <sched.h>

#include <bit>

#include "client/transport/shm/futex.h"

namespace lockstep::transport {
namespace {

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The clock is read once in so many turns, and not in the first: reading it
// takes as long as many waits.
constexpr uint32_t kTurnsPerLook = 32;

}  // namespace

void Waiter::Moved() {
  turns_ = 0;
  began_ = {};
  Disarm();
}

absl::Status Waiter::WaitOnce(RankMask ranks) {
  if (shm_group_.left()) return absl::CancelledError("the group was left");
  if (absl::Status gone = LookForGone(ranks); !gone.ok()) return gone;
  if (armed_) {
    Sleep(ranks);
    return LookForStopped(ranks);
  }
  if (turns_++ == 0) shm_group_.NoteWait();
  if (turns_ % kTurnsPerLook != 0 &&
      shm_group_.wait_policy().looks.count() > 0) {
    Relax();
    return absl::OkStatus();
  }
  const auto now = WaitPolicy::Clock::now();
  if (began_ == WaitPolicy::Clock::time_point()) began_ = now;
  const auto waited = now - began_;
  const RankMask sharing = shm_group_.core_sharing().Publish(ranks);
  if (sharing == 0 && waited < shm_group_.wait_policy().looks) {
    return absl::OkStatus();
  }
  if (waited < shm_group_.wait_policy().all && shm_group_.MayYield()) {
    Yield();
    return absl::OkStatus();
  }
  // Peers that advance after this wake us; the caller polls once more, then the
  // next WaitOnce sleeps.
  ControlBlockHeader& header = shm_group_.mine().header();
  notified_ = header.wakes;
  ++header.sleepers;
  armed_ = true;
  return absl::OkStatus();
}

void Waiter::Yield() {
  const auto begin = WaitPolicy::Clock::now();
  sched_yield();
  if (WaitPolicy::Clock::now() - begin > shm_group_.wait_policy().lost) {
    shm_group_.NoteLostCore();
  }
}

// A peer that is gone fails the wait only on the second call, so that the
// caller polls once more for what the peer did before it left.
absl::Status Waiter::LookForGone(RankMask ranks) {
  const RankMask gone = shm_group_.Gone() & ranks;
  const RankMask missed = gone & seen_gone_;
  seen_gone_ |= gone;
  if (missed == 0) return absl::OkStatus();
  return shm_group_.WhyGone(std::countr_zero(missed));
}

absl::Status Waiter::LookForStopped(RankMask ranks) {
  const auto now = WaitPolicy::Clock::now();
  if (!silence_) {
    silence_.emplace(shm_group_.size(),
                     absl::FromChrono(shm_group_.wait_policy().silence));
    looked_ = now;
  }
  const absl::Duration elapsed = absl::FromChrono(now - looked_);
  if (elapsed < silence_->period()) return absl::OkStatus();
  looked_ = now;
  for (int peer = 0; peer < shm_group_.size(); ++peer) {
    const bool owes = (ranks & shm_group_.others() & MaskOf(peer)) != 0;
    silence_->Tick(peer, elapsed, !(owes && shm_group_.IsStopped(peer)), owes);
    if (silence_->IsSilent(peer)) return shm_group_.WhySilent(peer);
  }
  return absl::OkStatus();
}

void Waiter::Sleep(RankMask ranks) {
  SleepOn(shm_group_.mine().header().wakes, notified_,
          shm_group_.wait_policy().nap);
  const bool notified = shm_group_.mine().header().wakes != notified_;
  Moved();
  if (!notified) shm_group_.LookForDead(ranks);
}

void Waiter::Disarm() {
  if (!armed_) return;
  --shm_group_.mine().header().sleepers;
  armed_ = false;
}

}  // namespace lockstep::transport
