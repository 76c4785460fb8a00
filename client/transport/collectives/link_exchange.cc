#include "client/transport/collectives/link_exchange.h"

#include <algorithm>
#include <cstring>

#include "client/transport/common/blocks.h"

namespace lockstep::transport {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

bool Inline(size_t bytes) { return bytes <= kInlineBytes; }

size_t HeadBytes(size_t bytes) {
  return sizeof(Announcement) + (Inline(bytes) ? bytes : 0);
}

// Heads are aligned for any element type.
size_t HeadSpace(size_t bytes) { return (HeadBytes(bytes) + 15) / 16 * 16; }

// Calls post(number, offset, bytes) for each piece of a large payload.
template <typename Post>
absl::Status ForPieces(size_t bytes, Post post) {
  if (Inline(bytes)) return absl::OkStatus();
  uint64_t number = 0;
  for (size_t offset = 0; offset < bytes; offset += kPieceBytes) {
    absl::Status posted =
        post(++number, offset, std::min(kPieceBytes, bytes - offset));
    if (!posted.ok()) return posted;
  }
  return absl::OkStatus();
}

}  // namespace

void LinkExchange::AddBlocks(int peer) {
  const auto given = GivenBlock(call_, wire_.rank(), peer);
  const auto taken = TakenBlock(call_, wire_.rank(), peer);
  const auto* const in = static_cast<const std::byte*>(SourceOf(call_));
  auto* const out = static_cast<std::byte*>(call_.out);
  if (peer == wire_.rank()) {
    if (taken) Keep(in + given->offset, out + taken->offset, taken->bytes);
    return;
  }
  if (given) Give(peer, in + given->offset, given->bytes);
  if (taken) Take(peer, out + taken->offset, taken->bytes);
}

absl::Status LinkExchange::Start() {
  size_t space = 0;
  for (const Outgoing& give : gives_) space += HeadSpace(give.bytes);
  for (const Incoming& take : takes_) space += HeadSpace(take.bytes);
  absl::Status taken = wire_.scratch.Take(space, &heads_);
  if (!taken.ok()) return taken;
  // Receives first, so that arriving data has a posted receive.
  if (absl::Status posted = PostTakes(); !posted.ok()) return posted;
  if (absl::Status posted = PostGives(); !posted.ok()) return posted;
  if (keep_.bytes > 0 && keep_.from != keep_.to) {
    std::memcpy(keep_.to, keep_.from, keep_.bytes);
  }
  return absl::OkStatus();
}

absl::Status LinkExchange::PostTakes() {
  std::byte* head = heads_.data();
  for (Incoming& take : takes_) {
    take.head = head;
    head += HeadSpace(take.bytes);
    absl::Status posted = transfers_.Add(wire_.link.Recv(
        take.peer, call_.tag, take.head, HeadBytes(take.bytes)));
    posted.Update(ForPieces(
        take.bytes, [&](uint64_t number, size_t offset, size_t bytes) {
          return transfers_.Add(wire_.link.Recv(take.peer, call_.tag + number,
                                                take.data + offset, bytes));
        }));
    if (!posted.ok()) return posted;
  }
  return absl::OkStatus();
}

absl::Status LinkExchange::PostGives() {
  std::byte* head = heads_.data();
  for (const Incoming& take : takes_) head += HeadSpace(take.bytes);
  for (const Outgoing& give : gives_) {
    const Announcement announcement = Announce(call_, give.announced);
    std::memcpy(head, &announcement, sizeof announcement);
    if (Inline(give.bytes) && give.bytes > 0) {
      std::memcpy(head + sizeof announcement, give.data, give.bytes);
    }
    absl::Status posted = transfers_.Add(
        wire_.link.Send(give.peer, call_.tag, head, HeadBytes(give.bytes)));
    posted.Update(ForPieces(
        give.bytes, [&](uint64_t number, size_t offset, size_t bytes) {
          return transfers_.Add(wire_.link.Send(give.peer, call_.tag + number,
                                                give.data + offset, bytes));
        }));
    if (!posted.ok()) return posted;
    head += HeadSpace(give.bytes);
  }
  return absl::OkStatus();
}

absl::Status LinkExchange::Finish() {
  if (absl::Status moved = transfers_.WaitAll(); !moved.ok()) return moved;
  for (const Incoming& take : takes_) {
    absl::Status agreed = CheckAnnouncement(
        take.head, Announce(call_, take.announced), take.peer);
    if (!agreed.ok()) return agreed;
    if (Inline(take.bytes) && take.bytes > 0 && take.data != nullptr) {
      std::memcpy(take.data, take.head + sizeof(Announcement), take.bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::transport
