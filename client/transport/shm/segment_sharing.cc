#include "client/transport/shm/segment_sharing.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/local_socket.h"

namespace lockstep::transport {
namespace {

// Sent over the socket with the segment's file.
struct Loan {
  uint64_t id;
  uint64_t bytes;
};

}  // namespace

// --- SegmentExporter ---------------------------------------------------------

SegmentAddress SegmentExporter::Offer(const void* data, size_t bytes,
                                      RankMask readers) {
  if (registry_ == nullptr) return {};
  const SegmentRegistry::Found found = registry_->Find(data, bytes);
  if (found.segment == nullptr) return {};
  MutexLock lock(&mutex_);
  Exported* const exported = ExportOf(found.segment);
  if (exported == nullptr || !GiveTo(readers, *found.segment, *exported))
    return {};
  return {found.segment->id, found.offset};
}

SegmentExporter::Exported* SegmentExporter::ExportOf(
    const std::shared_ptr<SharedSegment>& segment) {
  const auto known = exported_.find(segment->id);
  if (known != exported_.end()) return &known->second;
  StrikeOffReleased();
  for (SharedEntry& entry : mine_.header().shared) {
    if (entry.segment != 0) continue;
    entry.bytes = segment->memory.bytes();
    entry.segment = segment->id.load();
    return &(exported_[segment->id] = {.segment = segment, .entry = &entry});
  }
  return nullptr;
}

bool SegmentExporter::GiveTo(RankMask readers, const SharedSegment& segment,
                             Exported& exported) {
  MutexLock lock(&segment.renewing);
  for (size_t peer = 0; peer < sockets_.size(); ++peer) {
    const RankMask one = MaskOf(static_cast<int>(peer));
    if ((readers & ~exported.to & one) == 0) continue;
    absl::Status sent =
        SendMessage(sockets_[peer], Loan{segment.id, segment.memory.bytes()},
                    {segment.memory.fd()});
    if (!sent.ok()) return false;
    exported.to |= one;
  }
  return true;
}

void SegmentExporter::StrikeOffReleased() {
  const uint64_t releases = registry_->releases();
  for (auto at = exported_.begin(); at != exported_.end();) {
    if (!at->second.segment.expired()) {
      ++at;
      continue;
    }
    at->second.entry->segment = 0;
    ++releases_;
    at = exported_.erase(at);
  }
  seen_releases_ = releases;
}

uint32_t SegmentExporter::releases() {
  if (registry_ == nullptr) return 0;
  if (registry_->releases() == seen_releases_) return releases_;
  MutexLock lock(&mutex_);
  StrikeOffReleased();
  return releases_;
}

RankMask SegmentExporter::Importers() {
  MutexLock lock(&mutex_);
  RankMask importers = 0;
  for (const auto& [id, exported] : exported_) {
    if (!exported.segment.expired()) importers |= exported.to;
  }
  return importers;
}

void SegmentExporter::TakeBack(RankMask unproven) {
  MutexLock lock(&mutex_);
  for (auto& [id, exported] : exported_) {
    const std::shared_ptr<SharedSegment> segment = exported.segment.lock();
    if (segment == nullptr || (exported.to & unproven) == 0) continue;
    registry_->Renew(*segment, id);  // no effect if another group did it
  }
}

// --- SegmentImporter ---------------------------------------------------------

absl::StatusOr<std::byte*> SegmentImporter::Resolve(SegmentAddress place,
                                                    size_t bytes) {
  MutexLock lock(&mutex_);
  absl::StatusOr<const Segment*> segment = Receive(place.segment);
  if (!segment.ok()) return std::move(segment).status();
  const size_t there = (*segment)->bytes();
  if (place.offset > there || bytes > there - place.offset) {
    return WithFailedPeer(absl::DataLossError(absl::StrCat(
                              "rank ", peer_, " names ", bytes, " bytes from ",
                              place.offset, " on of a segment of ", there)),
                          peer_);
  }
  return (*segment)->data() + place.offset;
}

absl::StatusOr<const Segment*> SegmentImporter::Receive(uint64_t id) {
  for (;;) {
    const auto known = mapped_.find(id);
    if (known != mapped_.end()) return &known->second;
    Loan loan{};
    auto message = ReceiveBytes(socket_, &loan, sizeof loan);
    if (absl::IsResourceExhausted(message.status())) return message.status();
    if (!message.ok() || !message->has_value() ||
        (*message)->bytes != sizeof loan || (*message)->files.size() != 1) {
      return WithFailedPeer(
          absl::DataLossError(absl::StrCat(
              "rank ", peer_, " names memory that it has not given: segment ",
              id)),
          peer_);
    }
    absl::StatusOr<Segment> mapped = Segment::Map(
        std::move((*message)->files[0]), loan.bytes, Lookup::kAllNow, colour_);
    if (absl::IsResourceExhausted(mapped.status())) return mapped.status();
    if (!mapped.ok()) {
      return WithFailedPeer(absl::DataLossError(absl::StrCat(
                                "rank ", peer_, " gave what is no memory: ",
                                mapped.status().message())),
                            peer_);
    }
    mapped_[loan.id] = *std::move(mapped);
  }
}

void SegmentImporter::UnmapReleased(uint32_t releases) {
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

void SegmentImporter::UnmapAll() {
  MutexLock lock(&mutex_);
  mapped_.clear();
}

}  // namespace lockstep::transport
