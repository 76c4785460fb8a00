#include "client/transport/shm/lending.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/transport/blame.h"
#include "client/transport/shm/local_socket.h"

namespace lockstep::transport {
namespace {

// Goes over the socket with the segment's file.
struct Loan {
  uint64_t id;
  uint64_t bytes;
};

}  // namespace

// --- What this rank lends ----------------------------------------------------

Place Lending::Offer(const void* data, size_t bytes, RankMask readers) {
  if (book_ == nullptr) return {};
  const ArenaBook::Found found = book_->Find(data, bytes);
  if (found.segment == nullptr) return {};
  MutexLock lock(&mutex_);
  Lent* const lent = LentAs(found.segment);
  if (lent == nullptr || !GiveTo(readers, *found.segment, *lent)) return {};
  return {found.segment->id, found.offset};
}

Lending::Lent* Lending::LentAs(const std::shared_ptr<SharedSegment>& segment) {
  const auto known = lent_.find(segment->id);
  if (known != lent_.end()) return &known->second;
  StrikeOffReleased();
  for (SharedEntry& entry : mine_.header().shared) {
    if (entry.segment != 0) continue;
    entry.bytes = segment->memory.bytes();
    entry.segment = segment->id.load();
    return &(lent_[segment->id] = {.segment = segment, .entry = &entry});
  }
  return nullptr;
}

bool Lending::GiveTo(RankMask readers, const SharedSegment& segment,
                     Lent& lent) {
  MutexLock lock(&segment.renewing);
  for (size_t peer = 0; peer < sockets_.size(); ++peer) {
    const RankMask one = MaskOf(static_cast<int>(peer));
    if ((readers & ~lent.to & one) == 0) continue;
    absl::Status sent =
        SendMessage(sockets_[peer], Loan{segment.id, segment.memory.bytes()},
                    {segment.memory.fd()});
    if (!sent.ok()) return false;
    lent.to |= one;
  }
  return true;
}

void Lending::StrikeOffReleased() {
  const uint64_t releases = book_->releases();
  for (auto at = lent_.begin(); at != lent_.end();) {
    if (!at->second.segment.expired()) {
      ++at;
      continue;
    }
    at->second.entry->segment = 0;
    ++releases_;
    at = lent_.erase(at);
  }
  seen_releases_ = releases;
}

uint32_t Lending::releases() {
  if (book_ == nullptr) return 0;
  if (book_->releases() == seen_releases_) return releases_;
  MutexLock lock(&mutex_);
  StrikeOffReleased();
  return releases_;
}

RankMask Lending::Borrowers() {
  MutexLock lock(&mutex_);
  RankMask borrowers = 0;
  for (const auto& [id, lent] : lent_) {
    if (!lent.segment.expired()) borrowers |= lent.to;
  }
  return borrowers;
}

void Lending::TakeBack(RankMask unproven) {
  MutexLock lock(&mutex_);
  for (auto& [id, lent] : lent_) {
    const std::shared_ptr<SharedSegment> segment = lent.segment.lock();
    if (segment == nullptr || (lent.to & unproven) == 0) continue;
    book_->Renew(*segment, id);  // unless another group has seen to it
  }
}

// --- What it has borrowed ----------------------------------------------------

absl::StatusOr<std::byte*> Borrowing::Resolve(Place place, size_t bytes) {
  MutexLock lock(&mutex_);
  absl::StatusOr<const Segment*> segment = Receive(place.segment);
  if (!segment.ok()) return std::move(segment).status();
  const size_t there = (*segment)->bytes();
  if (place.offset > there || bytes > there - place.offset) {
    return Blame(absl::DataLossError(absl::StrCat(
                     "rank ", peer_, " names ", bytes, " bytes from ",
                     place.offset, " on of a segment of ", there)),
                 peer_);
  }
  return (*segment)->data() + place.offset;
}

absl::StatusOr<const Segment*> Borrowing::Receive(uint64_t id) {
  for (;;) {
    const auto known = mapped_.find(id);
    if (known != mapped_.end()) return &known->second;
    Loan loan{};
    auto message = ReceiveBytes(socket_, &loan, sizeof loan);
    if (absl::IsResourceExhausted(message.status())) return message.status();
    if (!message.ok() || !message->has_value() ||
        (*message)->bytes != sizeof loan || (*message)->files.size() != 1) {
      return Blame(absl::DataLossError(absl::StrCat(
                       "rank ", peer_,
                       " names memory that it has not given: segment ", id)),
                   peer_);
    }
    absl::StatusOr<Segment> mapped = Segment::Map(
        std::move((*message)->files[0]), loan.bytes, Lookup::kAllNow, colour_);
    if (absl::IsResourceExhausted(mapped.status())) return mapped.status();
    if (!mapped.ok()) {
      return Blame(absl::DataLossError(absl::StrCat(
                       "rank ", peer_,
                       " gave what is no memory: ", mapped.status().message())),
                   peer_);
    }
    mapped_[loan.id] = *std::move(mapped);
  }
}

void Borrowing::Heed(uint32_t releases) {
  if (releases == seen_releases_) return;
  MutexLock lock(&mutex_);
  std::set<uint64_t> living;
  for (const SharedEntry& entry : theirs_.header().shared) {
    living.insert(entry.segment.load());
  }
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    at = living.count(at->first) > 0 ? std::next(at) : mapped_.erase(at);
  }
  seen_releases_ = releases;
}

void Borrowing::UnmapAll() {
  MutexLock lock(&mutex_);
  mapped_.clear();
}

}  // namespace lockstep::transport
