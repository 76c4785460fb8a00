#include "client/transport/shm/board.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/transport/blame.h"
#include "client/transport/shm/futex.h"
#include "client/transport/shm/stopped.h"

namespace lockstep::transport {
namespace {

// How long the end of what failed waits for the others to end too, before it
// takes back what they have borrowed at the price of a copy.
constexpr std::chrono::milliseconds kFarewell{20};

std::vector<int> Sockets(const std::vector<Peer>& peers) {
  std::vector<int> sockets;
  for (const Peer& peer : peers) sockets.push_back(peer.socket.get());
  return sockets;
}

RankMask AllOf(int size) {
  return size == kRanksMax ? ~RankMask{0} : MaskOf(size) - 1;
}

}  // namespace

Board::Board(const Roster& roster, std::vector<Peer> peers,
             std::shared_ptr<ArenaBook> book, const Patience& patience)
    : roster_(roster),
      rank_(roster.rank),
      peers_(std::move(peers)),
      others_(AllOf(size()) & ~MaskOf(rank_)),
      patience_(patience),
      lending_(std::move(book), mine(), Sockets(peers_)) {
  for (int peer = 0; peer < size(); ++peer) {
    borrowings_.push_back(
        std::make_unique<Borrowing>(peer, seat(peer), peers_[peer].socket.get(),
                                    static_cast<size_t>(peer + 1)));
  }
  for (uint32_t block = 0; block < kBlocks; ++block) {
    free_blocks_.push_back(block);
  }
}

Board::~Board() {
  LetGo();
  if (!failed_) return;
  const RankMask borrowers = lending_.Borrowers();
  const auto until = Patience::Clock::now() + kFarewell;
  RankMask unproven = Unproven(borrowers);
  while (unproven != 0 && Patience::Clock::now() < until) {
    SleepOn(mine().header().bell, mine().header().bell,
            std::chrono::milliseconds(1));
    unproven = Unproven(borrowers);
  }
  if (unproven != 0) lending_.TakeBack(unproven);
}

void Board::LetGo() {
  for (const auto& borrowing : borrowings_) borrowing->UnmapAll();
  mine().header().let_go = 1;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) Ring(peer);
  }
}

// Who may still write to what it has borrowed, as far as one can know.
RankMask Board::Unproven(RankMask borrowers) {
  LookForDead(borrowers);
  RankMask unproven = borrowers & ~dead_.load();
  for (int peer = 0; peer < size(); ++peer) {
    if (seat(peer).header().let_go != 0) unproven &= ~MaskOf(peer);
  }
  return unproven;
}

void Board::Ring() {
  for (int peer = 0; peer < size(); ++peer) Ring(peer);
}

void Board::Ring(int rank) {
  SeatHeader& header = seat(rank).header();
  if (header.sleepers.load() == 0) return;
  ++header.bell;
  WakeAll(header.bell);
}

void Board::RingIfLast(RankMask ranks, absl::FunctionRef<bool(int)> has_grown) {
  if (size() == 2) return Ring();
  int behind = -1;
  for (int peer = 0; peer < size(); ++peer) {
    if ((ranks & others_ & MaskOf(peer)) == 0 || has_grown(peer)) continue;
    if (behind >= 0) return;
    behind = peer;
  }
  behind < 0 ? Ring() : Ring(behind);
}

RankMask Board::Gone() const {
  RankMask gone = dead_.load(std::memory_order_relaxed);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_ && seat(peer).header().gone != 0) gone |= MaskOf(peer);
  }
  return gone;
}

void Board::LookForDead(RankMask ranks) {
  std::vector<pollfd> watched;
  std::vector<int> who;
  for (int peer = 0; peer < size(); ++peer) {
    if ((ranks & others_ & MaskOf(peer)) == 0) continue;
    watched.push_back({peers_[peer].process.get(), POLLIN, 0});
    who.push_back(peer);
  }
  if (watched.empty() || poll(watched.data(), watched.size(), 0) <= 0) return;
  for (size_t i = 0; i < watched.size(); ++i) {
    if ((watched[i].revents & POLLIN) != 0) dead_ |= MaskOf(who[i]);
  }
}

bool Board::IsStopped(int peer) const {
  return transport::IsStopped(peers_[peer].process.get());
}

absl::Status Board::WhySilent(int peer) const {
  return Blame(
      absl::DeadlineExceededError(absl::StrCat(
          "rank ", InGroup(peer), " is silent: its process has been stopped ",
          "for ", absl::FormatDuration(absl::FromChrono(patience_.silence)))),
      peer);
}

int Board::InGroup(int number) const {
  if (number < 0) return -1;
  if (number < size()) {
    return roster_.in_group.empty() ? number : roster_.in_group[number];
  }
  const int outsider = number - size();
  return outsider < roster_.group_size ? outsider : -1;
}

absl::Status Board::WhyGone(int peer) const {
  const int name = InGroup(peer);
  const uint32_t because = seat(peer).header().gone;
  if (because != 0) {
    const int said = static_cast<int>(because - 1);
    const int origin = InGroup(said) < 0 ? peer : said;
    return Blame(
        absl::UnavailableError(
            origin == peer ? absl::StrCat("rank ", name, " left the group")
                           : absl::StrCat("rank ", name, " left the group, ",
                                          "because of rank ", InGroup(origin))),
        origin);
  }
  return Proven(Blame(absl::UnavailableError(absl::StrCat(
                          "the process of rank ", name, " has ended")),
                      peer));
}

void Board::Leave(int because) {
  if (left_.exchange(true)) return;
  mine().header().gone = 1 + static_cast<uint32_t>(because);
  for (int peer = 0; peer < size(); ++peer) {
    SeatHeader& header = seat(peer).header();
    ++header.bell;
    WakeAll(header.bell);
  }
}

bool Board::AllFinished(uint64_t number, RankMask* waits) {
  if (finished_by_all_.load(std::memory_order_relaxed) >= number) return true;
  uint64_t least = UINT64_MAX;
  for (int peer = 0; peer < size(); ++peer) {
    const uint64_t finished = seat(peer).header().finished.load();
    if (finished < number) *waits |= MaskOf(peer) & others_;
    least = std::min(least, finished);
  }
  // May go back when two threads are here; then it is looked up again.
  finished_by_all_.store(least, std::memory_order_relaxed);
  return least >= number;
}

void Board::Finish(uint64_t number) {
  uint64_t before = 0;
  {
    MutexLock lock(&mutex_);
    before = finished_;
    if (number == finished_ + 1) {
      ++finished_;
    } else {
      finished_early_.insert(number);
    }
    while (!finished_early_.empty() &&
           *finished_early_.begin() == finished_ + 1) {
      finished_early_.erase(finished_early_.begin());
      ++finished_;
    }
    if (finished_ == before) return;
    mine().header().finished.store(finished_);
  }
  RingIfLast(others_, [&](int peer) {
    return seat(peer).header().finished.load() > before;
  });
}

std::optional<uint32_t> Board::TakeBlock() {
  MutexLock lock(&mutex_);
  if (free_blocks_.empty()) return std::nullopt;
  const uint32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  return block;
}

void Board::GiveBlock(uint32_t block) {
  {
    MutexLock lock(&mutex_);
    free_blocks_.push_back(block);
  }
  Ring(rank_);
}

}  // namespace lockstep::transport
