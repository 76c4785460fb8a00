#include "client/transport/shm/collective.h"

#include "absl/strings/str_cat.h"
#include "client/transport/common/announcement.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {

absl::StatusOr<AdvanceResult> Collective::Advance() {
  waits_ = 0;
  const State before = state_;
  switch (state_) {
    case State::kArriving:
      if (number_ > kCollectiveSlots &&
          !shm_group_.AllFinished(number_ - kCollectiveSlots, &waits_)) {
        return AdvanceResult::kNothing;
      }
      Arrive();
      state_ = State::kWaiting;
      [[fallthrough]];
    case State::kWaiting: {
      if (!AllHave(&CollectiveSlot::arrived, shm_group_.others(), 0)) {
        return AdvanceResult::kNothing;
      }
      absl::Status met = Agree();
      met.Update(AllArrived());
      if (!met.ok()) return met;
      state_ = State::kRunning;
      [[fallthrough]];
    }
    case State::kRunning: {
      absl::StatusOr<AdvanceResult> part = Part();
      if (!part.ok() || *part != AdvanceResult::kDone) return part;
      if (exported_) Publish(&CollectiveSlot::read, 0, shm_group_.others());
      state_ = State::kLeaving;
      [[fallthrough]];
    }
    case State::kLeaving:
      if (mine_.published.copy_mode == CopyMode::kDirect &&
          !AllHave(&CollectiveSlot::read, shm_group_.others(), 0)) {
        // kMoved on the transition: a new wait begins.
        return before == State::kLeaving ? AdvanceResult::kNothing
                                         : AdvanceResult::kMoved;
      }
      shm_group_.Finish(number_);
      FetchNext();
  }
  return AdvanceResult::kDone;
}

// Peers have read the next slot's first cache lines since this rank last wrote
// them: fetches them for writing while this operation ends.
void Collective::FetchNext() const {
  const CollectiveSlot& next = shm_group_.mine().slot(number_ + 1);
  __builtin_prefetch(&next.arrived, /*rw=*/1);
  __builtin_prefetch(next.small, /*rw=*/1);
}

void Collective::Arrive() {
  mine_.published = {.call = Announce(call_, call_.bytes()),
                     .releases = shm_group_.exporter().releases()};
  Prepare(mine_.published);
  Publish(&CollectiveSlot::arrived, 0, shm_group_.others());
}

absl::Status Collective::Agree() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    // The payload is fetched while the announcement before it is checked.
    __builtin_prefetch(slot(peer).small);
    const PublishedCall& published = slot(peer).published;
    absl::Status agreed =
        CheckAnnouncement(&published.call, mine_.published.call, peer);
    if (agreed.ok() && (published.copy_mode < CopyMode::kInline ||
                        published.copy_mode > CopyMode::kStaged)) {
      agreed = WithFailedPeer(
          absl::DataLossError(
              absl::StrCat("the slot of rank ", peer, " is corrupt: copy_mode ",
                           static_cast<uint32_t>(published.copy_mode))),
          peer);
    }
    if (!agreed.ok()) return agreed;
    exported_ |= published.copy_mode == CopyMode::kDirect;
    shm_group_.importer(peer).UnmapReleased(published.releases);
  }
  return absl::OkStatus();
}

bool Collective::MayPut(uint64_t c) {
  if (c >= kDepth) {
    return AllHave(&CollectiveSlot::taken, shm_group_.others(), c - kDepth + 1);
  }
  return number_ <= kLanes || shm_group_.AllFinished(number_ - kLanes, &waits_);
}

bool Collective::AllHave(SharedWord CollectiveSlot::*word, RankMask ranks,
                         uint64_t chunks) {
  RankMask missing = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if ((ranks & MaskOf(peer)) == 0 || peer == rank()) continue;
    if ((slot(peer).*word).load() < Reached(number_, chunks)) {
      missing |= MaskOf(peer);
    }
  }
  waits_ |= missing;
  return missing == 0;
}

void Collective::Publish(SharedWord CollectiveSlot::*word, uint64_t chunks,
                         RankMask with) {
  const uint64_t before = (mine_.*word).load(std::memory_order_relaxed);
  (mine_.*word).store(Reached(number_, chunks));
  shm_group_.WakeIfLast(
      with, [&](int peer) { return (slot(peer).*word).load() > before; });
}

}  // namespace lockstep::transport
