#include "client/transport/shm/shm_group.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/futex.h"
#include "client/transport/shm/stopped.h"

namespace lockstep::transport {
namespace {

// After a failure: how long the destructor waits for the peers to unmap our
// segments, before it renews these at the cost of a copy.
constexpr std::chrono::milliseconds kFarewell{20};

std::vector<int> Sockets(const std::vector<Peer>& peers) {
  std::vector<int> sockets;
  for (const Peer& peer : peers) sockets.push_back(peer.socket.get());
  return sockets;
}

std::vector<std::atomic<uint32_t>*> CoreWords(const std::vector<Peer>& peers) {
  std::vector<std::atomic<uint32_t>*> words;
  for (const Peer& peer : peers) {
    words.push_back(&peer.control_block.header().core);
  }
  return words;
}

RankMask AllOf(int size) {
  return size == kRanksMax ? ~RankMask{0} : MaskOf(size) - 1;
}

}  // namespace

ShmGroup::ShmGroup(const ShmGroupMembers& roster, std::vector<Peer> peers,
                   std::shared_ptr<SegmentRegistry> registry,
                   const WaitPolicy& wait_policy)
    : roster_(roster),
      rank_(roster.rank),
      peers_(std::move(peers)),
      others_(AllOf(size()) & ~MaskOf(rank_)),
      wait_policy_(wait_policy),
      core_sharing_(rank_, CoreWords(peers_)),
      exporter_(std::move(registry), mine(), Sockets(peers_)) {
  for (int peer = 0; peer < size(); ++peer) {
    importers_.push_back(std::make_unique<SegmentImporter>(
        peer, control_block(peer), peers_[peer].socket.get(),
        static_cast<size_t>(peer + 1)));
  }
  for (uint32_t block = 0; block < kBlocks; ++block) {
    free_blocks_.push_back(block);
  }
}

ShmGroup::~ShmGroup() {
  Release();
  if (!failed_) return;
  const RankMask importers = exporter_.Importers();
  const auto until = WaitPolicy::Clock::now() + kFarewell;
  RankMask unproven = Unproven(importers);
  while (unproven != 0 && WaitPolicy::Clock::now() < until) {
    SleepOn(mine().header().wakes, mine().header().wakes,
            std::chrono::milliseconds(1));
    unproven = Unproven(importers);
  }
  if (unproven != 0) exporter_.TakeBack(unproven);
}

void ShmGroup::Release() {
  for (const auto& importer : importers_) importer->UnmapAll();
  mine().header().let_go = 1;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) Wake(peer);
  }
}

// Peers that may still write to our mapped segments.
RankMask ShmGroup::Unproven(RankMask importers) {
  LookForDead(importers);
  RankMask unproven = importers & ~dead_.load();
  for (int peer = 0; peer < size(); ++peer) {
    if (control_block(peer).header().let_go != 0) unproven &= ~MaskOf(peer);
  }
  return unproven;
}

void ShmGroup::Wake() {
  for (int peer = 0; peer < size(); ++peer) Wake(peer);
}

void ShmGroup::Wake(int rank) {
  ControlBlockHeader& header = control_block(rank).header();
  if (header.sleepers.load() == 0) return;
  ++header.wakes;
  WakeAll(header.wakes);
}

void ShmGroup::WakeIfLast(RankMask ranks,
                          absl::FunctionRef<bool(int)> has_grown) {
  if (size() == 2) return Wake();
  int behind = -1;
  for (int peer = 0; peer < size(); ++peer) {
    if ((ranks & others_ & MaskOf(peer)) == 0 || has_grown(peer)) continue;
    if (behind >= 0) return;
    behind = peer;
  }
  behind < 0 ? Wake() : Wake(behind);
}

RankMask ShmGroup::Gone() const {
  RankMask gone = dead_.load(std::memory_order_relaxed);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_ && control_block(peer).header().gone != 0)
      gone |= MaskOf(peer);
  }
  return gone;
}

void ShmGroup::LookForDead(RankMask ranks) {
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

bool ShmGroup::IsStopped(int peer) const {
  return transport::IsStopped(peers_[peer].process.get());
}

absl::Status ShmGroup::WhySilent(int peer) const {
  return WithFailedPeer(
      absl::DeadlineExceededError(absl::StrCat(
          "rank ", InGroup(peer), " is silent: its process has been stopped ",
          "for ",
          absl::FormatDuration(absl::FromChrono(wait_policy_.silence)))),
      peer);
}

int ShmGroup::InGroup(int number) const {
  if (number < 0) return -1;
  if (number < size()) {
    return roster_.in_group.empty() ? number : roster_.in_group[number];
  }
  const int outsider = number - size();
  return outsider < roster_.group_size ? outsider : -1;
}

absl::Status ShmGroup::WhyGone(int peer) const {
  const int name = InGroup(peer);
  const uint32_t because = control_block(peer).header().gone;
  if (because != 0) {
    const int published = static_cast<int>(because - 1);
    const int origin = InGroup(published) < 0 ? peer : published;
    return WithFailedPeer(
        absl::UnavailableError(
            origin == peer ? absl::StrCat("rank ", name, " left the group")
                           : absl::StrCat("rank ", name, " left the group, ",
                                          "because of rank ", InGroup(origin))),
        origin);
  }
  return Proven(WithFailedPeer(absl::UnavailableError(absl::StrCat(
                                   "the process of rank ", name, " has ended")),
                               peer));
}

void ShmGroup::Leave(int because) {
  if (left_.exchange(true)) return;
  mine().header().gone = 1 + static_cast<uint32_t>(because);
  for (int peer = 0; peer < size(); ++peer) {
    ControlBlockHeader& header = control_block(peer).header();
    ++header.wakes;
    WakeAll(header.wakes);
  }
}

bool ShmGroup::AllFinished(uint64_t number, RankMask* waits) {
  if (finished_by_all_.load(std::memory_order_relaxed) >= number) return true;
  uint64_t least = UINT64_MAX;
  for (int peer = 0; peer < size(); ++peer) {
    const uint64_t finished = control_block(peer).header().finished.load();
    if (finished < number) *waits |= MaskOf(peer) & others_;
    least = std::min(least, finished);
  }
  // May decrease if two threads are here; the next call then reads all again.
  finished_by_all_.store(least, std::memory_order_relaxed);
  return least >= number;
}

void ShmGroup::Finish(uint64_t number) {
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
  WakeIfLast(others_, [&](int peer) {
    return control_block(peer).header().finished.load() > before;
  });
}

std::optional<uint32_t> ShmGroup::TakeBlock() {
  MutexLock lock(&mutex_);
  if (free_blocks_.empty()) return std::nullopt;
  const uint32_t block = free_blocks_.back();
  free_blocks_.pop_back();
  return block;
}

void ShmGroup::GiveBlock(uint32_t block) {
  {
    MutexLock lock(&mutex_);
    free_blocks_.push_back(block);
  }
  Wake(rank_);
}

}  // namespace lockstep::transport
