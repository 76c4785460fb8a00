#include "client/transport/shm/watch.h"

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

// The clock is looked at once in so many turns, and not in the first: to look
// takes as long as many a wait.
constexpr uint32_t kTurnsPerLook = 32;

}  // namespace

void Watch::Moved() {
  turns_ = 0;
  began_ = {};
  Disarm();
}

absl::Status Watch::Turn(RankMask ranks) {
  if (board_.left()) return absl::CancelledError("the group was left");
  if (absl::Status gone = LookForGone(ranks); !gone.ok()) return gone;
  if (armed_) {
    Sleep(ranks);
    return LookForStopped(ranks);
  }
  if (turns_++ == 0) board_.BeganToWait();
  if (turns_ % kTurnsPerLook != 0 && board_.patience().looks.count() > 0) {
    Relax();
    return absl::OkStatus();
  }
  const auto now = Patience::Clock::now();
  if (began_ == Patience::Clock::time_point()) began_ = now;
  const auto waited = now - began_;
  if (waited < board_.patience().looks) return absl::OkStatus();
  if (waited < board_.patience().all && board_.MayYield()) {
    Yield();
    return absl::OkStatus();
  }
  // From here on whoever has news rings; one more look, then to sleep.
  SeatHeader& header = board_.mine().header();
  rung_ = header.bell;
  ++header.sleepers;
  armed_ = true;
  return absl::OkStatus();
}

void Watch::Yield() {
  const auto begin = Patience::Clock::now();
  sched_yield();
  if (Patience::Clock::now() - begin > board_.patience().lost) {
    board_.LostTheCore();
  }
}

// What a rank did before it went is looked at once more before it is missed.
absl::Status Watch::LookForGone(RankMask ranks) {
  const RankMask gone = board_.Gone() & ranks;
  const RankMask missed = gone & seen_gone_;
  seen_gone_ |= gone;
  if (missed == 0) return absl::OkStatus();
  return board_.WhyGone(std::countr_zero(missed));
}

absl::Status Watch::LookForStopped(RankMask ranks) {
  const auto now = Patience::Clock::now();
  if (!silence_) {
    silence_.emplace(board_.size(),
                     absl::FromChrono(board_.patience().silence));
    looked_ = now;
  }
  const absl::Duration elapsed = absl::FromChrono(now - looked_);
  if (elapsed < silence_->period()) return absl::OkStatus();
  looked_ = now;
  for (int peer = 0; peer < board_.size(); ++peer) {
    const bool owes = (ranks & board_.others() & MaskOf(peer)) != 0;
    silence_->Tick(peer, elapsed, !(owes && board_.IsStopped(peer)), owes);
    if (silence_->IsSilent(peer)) return board_.WhySilent(peer);
  }
  return absl::OkStatus();
}

void Watch::Sleep(RankMask ranks) {
  SleepOn(board_.mine().header().bell, rung_, board_.patience().nap);
  const bool rung = board_.mine().header().bell != rung_;
  Moved();
  if (!rung) board_.LookForDead(ranks);
}

void Watch::Disarm() {
  if (!armed_) return;
  --board_.mine().header().sleepers;
  armed_ = false;
}

}  // namespace lockstep::transport
