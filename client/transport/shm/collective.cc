#include "client/transport/shm/collective.h"

#include "absl/strings/str_cat.h"
#include "client/transport/announcement.h"
#include "client/transport/blame.h"

namespace lockstep::transport {

absl::StatusOr<Progress> Collective::Advance() {
  waits_ = 0;
  const State before = state_;
  switch (state_) {
    case State::kComing:
      if (number_ > kCells && !board_.AllFinished(number_ - kCells, &waits_)) {
        return Progress::kNothing;
      }
      Come();
      state_ = State::kMeeting;
      [[fallthrough]];
    case State::kMeeting: {
      if (!AllHave(&Cell::arrived, board_.others(), 0)) {
        return Progress::kNothing;
      }
      absl::Status met = Agree();
      met.Update(Met());
      if (!met.ok()) return met;
      state_ = State::kActing;
      [[fallthrough]];
    }
    case State::kActing: {
      absl::StatusOr<Progress> part = Part();
      if (!part.ok() || *part != Progress::kDone) return part;
      if (lent_) Say(&Cell::read, 0, board_.others());
      state_ = State::kLeaving;
      [[fallthrough]];
    }
    case State::kLeaving:
      if (mine_.said.way == Way::kDirect &&
          !AllHave(&Cell::read, board_.others(), 0)) {
        // A wait of its own, that begins now.
        return before == State::kLeaving ? Progress::kNothing
                                         : Progress::kMoved;
      }
      board_.Finish(number_);
      FetchNext();
  }
  return Progress::kDone;
}

// The next cell's first lines become this rank's own again while this operation
// ends: others have read them, in their time.
void Collective::FetchNext() const {
  const Cell& next = board_.mine().cell(number_ + 1);
  __builtin_prefetch(&next.arrived, /*rw=*/1);
  __builtin_prefetch(next.small, /*rw=*/1);
}

void Collective::Come() {
  mine_.said = {.call = Announce(call_, call_.bytes()),
                .releases = board_.lending().releases()};
  Prepare(mine_.said);
  Say(&Cell::arrived, 0, board_.others());
}

absl::Status Collective::Agree() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    // On its way while what comes before it is looked at.
    __builtin_prefetch(cell(peer).small);
    const Said& said = cell(peer).said;
    absl::Status agreed = CheckAnnouncement(&said.call, mine_.said.call, peer);
    if (agreed.ok() && (said.way < Way::kSmall || said.way > Way::kStaged)) {
      agreed = Blame(absl::DataLossError(absl::StrCat(
                         "the cell of rank ", peer, " is corrupt: way ",
                         static_cast<uint32_t>(said.way))),
                     peer);
    }
    if (!agreed.ok()) return agreed;
    lent_ |= said.way == Way::kDirect;
    board_.borrowing(peer).Heed(said.releases);
  }
  return absl::OkStatus();
}

bool Collective::MayPut(uint64_t c) {
  if (c >= kDepth) {
    return AllHave(&Cell::taken, board_.others(), c - kDepth + 1);
  }
  return number_ <= kLanes || board_.AllFinished(number_ - kLanes, &waits_);
}

bool Collective::AllHave(Word Cell::*word, RankMask ranks, uint64_t chunks) {
  RankMask missing = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if ((ranks & MaskOf(peer)) == 0 || peer == rank()) continue;
    if ((cell(peer).*word).load() < Reached(number_, chunks)) {
      missing |= MaskOf(peer);
    }
  }
  waits_ |= missing;
  return missing == 0;
}

void Collective::Say(Word Cell::*word, uint64_t chunks, RankMask with) {
  const uint64_t before = (mine_.*word).load(std::memory_order_relaxed);
  (mine_.*word).store(Reached(number_, chunks));
  board_.RingIfLast(
      with, [&](int peer) { return (cell(peer).*word).load() > before; });
}

}  // namespace lockstep::transport
