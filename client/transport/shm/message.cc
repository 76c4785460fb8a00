// Send and Recv over shared memory. The receiver copies the message from the
// send slot if it is small, from the sender's arena, or block by block.
//
//   sender     send slot: [number, call, address] ──▶ ┌─ inline: from the slot
//   receiver   ◀── recv slot: [wanted]                ├─ direct: read in place
//   sender     puts block c, once it is wanted ──▶    ├─ staged: copied out
//   receiver   ◀── [taken] ... [done]                 └─ boxes: read in place
//
// A message of boxes is packed by the sender unless the receiver can read them
// in the sender's arena, in runs that are not too short. The receiver copies
// boxes, or unpacks the message, to its own memories.
//
// All messages of a sender share one pool of blocks. A block is taken only for
// a receiver that has begun and therefore empties it. The blocks of a failed
// message are not returned: its receiver may still read them, and the group is
// over.

#include <algorithm>
#include <optional>
#include <span>

#include "client/transport/common/announcement.h"
#include "client/transport/shm/box_copy.h"
#include "client/transport/shm/box_table.h"
#include "client/transport/shm/collective.h"
#include "client/transport/shm/copy_mode_check.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

// Shorter runs are packed: for each of them the receiver would fetch a line of
// the cache from the sender's core (`./run bench halo-boxes`).
constexpr int64_t kRunBytesInPlace = 64;

class ShmMessage : public CollectiveTask {
 protected:
  ShmMessage(const CollectiveOp& call, ShmGroup& shm_group)
      : call_(call),
        shm_group_(shm_group),
        number_((call.tag & ~(uint64_t{1} << 63)) >> 24),
        peer_(shm_group.control_block(call.peer)),
        block_bytes_(shm_group.mine().shape().block_bytes),
        chunks_((call.bytes() + block_bytes_ - 1) / block_bytes_) {}

  bool Has(const SharedWord& word, uint64_t chunks) {
    const bool has = word.load() >= Reached(number_, chunks);
    if (!has) waits_ |= MaskOf(call_.peer);
    return has;
  }
  void Publish(SharedWord& word, uint64_t chunks) {
    word.store(Reached(number_, chunks));
    shm_group_.Wake(call_.peer);
  }
  // Whether the message kMessageSlots before has released the slot.
  bool IsFree(const SharedWord& done) {
    if (number_ <= kMessageSlots) return true;
    const bool free = done.load() >= Reached(number_ - kMessageSlots, 0);
    if (!free) waits_ |= MaskOf(call_.peer);
    return free;
  }
  // Whether boxes are to be packed, or unpacked.
  bool has_copies() const {
    return call_.boxes.message != nullptr &&
           !call_.boxes.message->copies.empty();
  }
  std::span<void* const> memory() const {
    return {call_.boxes.memory, call_.boxes.message->memories};
  }
  size_t ChunkBytes(uint64_t c) const {
    return std::min(block_bytes_, call_.bytes() - c * block_bytes_);
  }

  const CollectiveOp& call_;
  ShmGroup& shm_group_;
  const uint64_t number_;
  const ControlBlock peer_;
  const size_t block_bytes_;
  const uint64_t chunks_;
};

class OutgoingMessage final : public ShmMessage {
 public:
  OutgoingMessage(const CollectiveOp& call, ShmGroup& shm_group)
      : ShmMessage(call, shm_group),
        send_slot_(shm_group.mine().send_slot(call.peer, number_)),
        recv_slot_(peer_.recv_slot(shm_group.rank(), number_)) {}

  absl::StatusOr<AdvanceResult> Advance() override {
    waits_ = 0;
    if (!posted_) {
      if (!IsFree(recv_slot_.done)) return AdvanceResult::kNothing;
      if (!OfferBoxes() && !Pack()) return AdvanceResult::kMoved;
      Post();
      return send_slot_.published.copy_mode == CopyMode::kInline
                 ? AdvanceResult::kDone
                 : AdvanceResult::kMoved;
    }
    if (send_slot_.published.copy_mode != CopyMode::kStaged) {
      return Has(recv_slot_.done, 0) ? AdvanceResult::kDone
                                     : AdvanceResult::kNothing;
    }
    bool moved = false;
    while (given_ < put_ && Has(recv_slot_.taken, given_ + 1)) {
      GiveBackBlock();
      moved = true;
    }
    if (given_ == chunks_) return AdvanceResult::kDone;
    moved |= PutBlock();
    return moved ? AdvanceResult::kMoved : AdvanceResult::kNothing;
  }

 private:
  // Whether the receiver can read the boxes in this rank's segments.
  bool OfferBoxes() {
    offers_boxes_ = has_copies() && !packing_ &&
                    call_.bytes() > kSmallMessageBytes &&
                    call_.boxes.message->run_bytes >= kRunBytesInPlace &&
                    WriteBoxTable(call_.boxes, call_.peer,
                                  shm_group_.exporter(), send_slot_.small);
    return offers_boxes_;
  }

  // Packs the next part of the message; true when all of it is packed.
  bool Pack() {
    if (!has_copies()) return true;
    if (!packing_) {
      packing_.emplace(call_.boxes.message->copies, memory(),
                       std::span<void* const>(&packed_, 1));
    }
    return packing_->Step(kStepBytes);
  }

  void Post() {
    send_slot_.published = {.call = Announce(call_, call_.bytes()),
                            .releases = shm_group_.exporter().releases()};
    if (offers_boxes_) {
      send_slot_.published.copy_mode = CopyMode::kBoxes;
    } else if (call_.bytes() <= kSmallMessageBytes) {
      if (call_.bytes() > 0) {
        kernels::Copy(send_slot_.small, call_.in, call_.bytes());
      }
    } else {
      send_slot_.published.copy_mode = CopyMode::kDirect;
      send_slot_.published.in = shm_group_.exporter().Offer(
          call_.in, call_.bytes(), MaskOf(call_.peer));
      if (send_slot_.published.in.segment == 0)
        send_slot_.published.copy_mode = CopyMode::kStaged;
    }
    posted_ = true;
    Publish(send_slot_.arrived, 0);
  }

  bool PutBlock() {
    if (put_ == chunks_ || put_ - given_ == kBlocksOfMessage ||
        !Has(recv_slot_.wanted, 0)) {
      return false;
    }
    const std::optional<uint32_t> block = shm_group_.TakeBlock();
    if (!block) return false;
    kernels::Copy(shm_group_.mine().block(*block),
                  Plus(call_.in, put_ * block_bytes_), ChunkBytes(put_));
    send_slot_.blocks[put_ % kBlocksOfMessage] = *block;
    Publish(send_slot_.staged, ++put_);
    return true;
  }

  void GiveBackBlock() {
    shm_group_.GiveBlock(send_slot_.blocks[given_ % kBlocksOfMessage]);
    ++given_;
  }

  SendSlot& send_slot_;
  const RecvSlot& recv_slot_;
  bool posted_ = false;
  bool offers_boxes_ = false;
  void* const packed_ = call_.out;
  std::optional<BoxCopy> packing_;
  uint64_t put_ = 0;    // blocks
  uint64_t given_ = 0;  // back to the pool
};

class IncomingMessage final : public ShmMessage {
 public:
  IncomingMessage(const CollectiveOp& call, ShmGroup& shm_group)
      : ShmMessage(call, shm_group),
        send_slot_(peer_.send_slot(shm_group.rank(), number_)),
        recv_slot_(shm_group.mine().recv_slot(call.peer, number_)) {}

  absl::StatusOr<AdvanceResult> Advance() override {
    waits_ = 0;
    if (!wanted_) {
      if (!IsFree(recv_slot_.done)) return AdvanceResult::kNothing;
      wanted_ = true;
      Publish(recv_slot_.wanted, 0);
    }
    if (!met_) {
      if (!Has(send_slot_.arrived, 0)) return AdvanceResult::kNothing;
      if (absl::Status met = ConnectAll(); !met.ok()) return met;
      met_ = true;
    }
    if (!copy_ && copied_ < call_.bytes()) {
      const bool moved = source_ != nullptr ? CopyPiece() : TakeBlock();
      if (!moved) return AdvanceResult::kNothing;
      if (copied_ < call_.bytes()) return AdvanceResult::kMoved;
      if (has_copies()) Unpack(call_.out);
    }
    if (copy_ && !copy_->Step(kStepBytes)) return AdvanceResult::kMoved;
    Publish(recv_slot_.done, 0);
    return AdvanceResult::kDone;
  }

 private:
  absl::Status ConnectAll() {
    const CopyMode copy_mode = send_slot_.published.copy_mode;
    absl::Status agreed = CheckAnnouncement(
        &send_slot_.published.call, Announce(call_, call_.bytes()), call_.peer);
    agreed.Update(CheckCopyMode(copy_mode, call_.bytes(), kSmallMessageBytes,
                                call_.peer, call_.boxes.message != nullptr));
    if (!agreed.ok()) return agreed;
    SegmentImporter& importer = shm_group_.importer(call_.peer);
    importer.UnmapReleased(send_slot_.published.releases);
    switch (copy_mode) {
      case CopyMode::kInline: source_ = send_slot_.small; break;
      case CopyMode::kDirect: {
        auto source = importer.Resolve(send_slot_.published.in, call_.bytes());
        if (!source.ok()) return source.status();
        source_ = *source;
        break;
      }
      case CopyMode::kStaged: return absl::OkStatus();
      case CopyMode::kBoxes: return ReadBoxes(importer);
    }
    if (has_copies()) Unpack(source_);
    return absl::OkStatus();
  }

  // The boxes are copied from the peer's segments.
  absl::Status ReadBoxes(SegmentImporter& importer) {
    auto read = ReadBoxTable(send_slot_.small, *call_.boxes.message, call_.peer,
                             importer);
    if (!read.ok()) return read.status();
    theirs_ = *std::move(read);
    copy_.emplace(theirs_.copies, theirs_.memory, memory());
    return absl::OkStatus();
  }

  // The boxes are copied from the packed message.
  void Unpack(const void* packed) {
    theirs_.memory = {packed};
    copy_.emplace(call_.boxes.message->copies, theirs_.memory, memory());
  }

  bool CopyPiece() {
    const size_t piece = std::min(kStepBytes, call_.bytes() - copied_);
    kernels::Copy(Plus(call_.out, copied_), source_ + copied_, piece);
    copied_ += piece;
    return true;
  }

  bool TakeBlock() {
    const uint64_t c = copied_ / block_bytes_;
    if (!Has(send_slot_.staged, c + 1)) return false;
    const uint32_t block = send_slot_.blocks[c % kBlocksOfMessage] % kBlocks;
    kernels::Copy(Plus(call_.out, copied_), peer_.block(block), ChunkBytes(c));
    copied_ += ChunkBytes(c);
    Publish(recv_slot_.taken, c + 1);
    return true;
  }

  const SendSlot& send_slot_;
  RecvSlot& recv_slot_;
  bool wanted_ = false;
  bool met_ = false;
  const std::byte* source_ = nullptr;  // null: the message is staged in blocks
  size_t copied_ = 0;
  BoxesOfPeer theirs_;
  std::optional<BoxCopy> copy_;  // of boxes, to where they are needed
};

}  // namespace

std::unique_ptr<CollectiveTask> MakeMessage(const CollectiveOp& call,
                                            ShmGroup& shm_group) {
  if (call.kind == CollectiveKind::kSend) {
    return std::make_unique<OutgoingMessage>(call, shm_group);
  }
  return std::make_unique<IncomingMessage>(call, shm_group);
}

}  // namespace lockstep::transport
