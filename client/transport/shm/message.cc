// Send and Recv over shared memory. The receiver copies the message from the
// send slot if it is small, from the sender's arena, or block by block.
//
//   sender     send slot: [number, call, address] ──▶ ┌─ inline: from the slot
//   receiver   ◀── recv slot: [wanted]                ├─ direct: read in place
//   sender     puts block c, once it is wanted ──▶    └─ staged: copied out
//   receiver   ◀── [taken] ... [done]
//
// All messages of a sender share one pool of blocks. A block is taken only for
// a receiver that has begun and therefore empties it. The blocks of a failed
// message are not returned: its receiver may still read them, and the group is
// over.

#include <algorithm>

#include "client/transport/common/announcement.h"
#include "client/transport/shm/collective.h"
#include "client/transport/shm/copy_mode_check.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

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
      Post();
      return send_slot_.published.copy_mode == CopyMode::kInline
                 ? AdvanceResult::kDone
                 : AdvanceResult::kMoved;
    }
    if (send_slot_.published.copy_mode == CopyMode::kDirect) {
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
  void Post() {
    send_slot_.published = {.call = Announce(call_, call_.bytes()),
                            .releases = shm_group_.exporter().releases()};
    if (call_.bytes() <= kSmallMessageBytes) {
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
    if (copied_ < call_.bytes()) {
      const bool moved = source_ != nullptr ? CopyPiece() : TakeBlock();
      if (!moved) return AdvanceResult::kNothing;
      if (copied_ < call_.bytes()) return AdvanceResult::kMoved;
    }
    Publish(recv_slot_.done, 0);
    return AdvanceResult::kDone;
  }

 private:
  absl::Status ConnectAll() {
    absl::Status agreed = CheckAnnouncement(
        &send_slot_.published.call, Announce(call_, call_.bytes()), call_.peer);
    agreed.Update(CheckCopyMode(send_slot_.published.copy_mode, call_.bytes(),
                                kSmallMessageBytes, call_.peer));
    if (!agreed.ok()) return agreed;
    SegmentImporter& importer = shm_group_.importer(call_.peer);
    importer.UnmapReleased(send_slot_.published.releases);
    if (send_slot_.published.copy_mode == CopyMode::kInline)
      source_ = send_slot_.small;
    if (send_slot_.published.copy_mode != CopyMode::kDirect)
      return absl::OkStatus();
    auto source = importer.Resolve(send_slot_.published.in, call_.bytes());
    if (source.ok()) source_ = *source;
    return source.status();
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
