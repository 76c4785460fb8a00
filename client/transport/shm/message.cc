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

class Message : public Task {
 protected:
  Message(const CollectiveOp& call, ShmGroup& shm_group)
      : call_(call),
        shm_group_(shm_group),
        number_((call.tag & ~(uint64_t{1} << 63)) >> 24),
        peer_(shm_group.seat(call.peer)),
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

class Outgoing final : public Message {
 public:
  Outgoing(const CollectiveOp& call, ShmGroup& shm_group)
      : Message(call, shm_group),
        mail_(shm_group.mine().mail(call.peer, number_)),
        receipt_(peer_.receipt(shm_group.rank(), number_)) {}

  absl::StatusOr<Progress> Advance() override {
    waits_ = 0;
    if (!posted_) {
      if (!IsFree(receipt_.done)) return Progress::kNothing;
      Post();
      return mail_.published.copy_mode == CopyMode::kInline ? Progress::kDone
                                                            : Progress::kMoved;
    }
    if (mail_.published.copy_mode == CopyMode::kDirect) {
      return Has(receipt_.done, 0) ? Progress::kDone : Progress::kNothing;
    }
    bool moved = false;
    while (given_ < put_ && Has(receipt_.taken, given_ + 1)) {
      GiveBackBlock();
      moved = true;
    }
    if (given_ == chunks_) return Progress::kDone;
    moved |= PutBlock();
    return moved ? Progress::kMoved : Progress::kNothing;
  }

 private:
  void Post() {
    mail_.published = {.call = Announce(call_, call_.bytes()),
                       .releases = shm_group_.exporter().releases()};
    if (call_.bytes() <= kSmallMessageBytes) {
      if (call_.bytes() > 0) {
        kernels::Copy(mail_.small, call_.in, call_.bytes());
      }
    } else {
      mail_.published.copy_mode = CopyMode::kDirect;
      mail_.published.in = shm_group_.exporter().Offer(call_.in, call_.bytes(),
                                                       MaskOf(call_.peer));
      if (mail_.published.in.segment == 0)
        mail_.published.copy_mode = CopyMode::kStaged;
    }
    posted_ = true;
    Publish(mail_.arrived, 0);
  }

  bool PutBlock() {
    if (put_ == chunks_ || put_ - given_ == kBlocksOfMessage ||
        !Has(receipt_.wanted, 0)) {
      return false;
    }
    const std::optional<uint32_t> block = shm_group_.TakeBlock();
    if (!block) return false;
    kernels::Copy(shm_group_.mine().block(*block),
                  Plus(call_.in, put_ * block_bytes_), ChunkBytes(put_));
    mail_.blocks[put_ % kBlocksOfMessage] = *block;
    Publish(mail_.staged, ++put_);
    return true;
  }

  void GiveBackBlock() {
    shm_group_.GiveBlock(mail_.blocks[given_ % kBlocksOfMessage]);
    ++given_;
  }

  SendSlot& mail_;
  const RecvSlot& receipt_;
  bool posted_ = false;
  uint64_t put_ = 0;    // blocks
  uint64_t given_ = 0;  // back to the pool
};

class Incoming final : public Message {
 public:
  Incoming(const CollectiveOp& call, ShmGroup& shm_group)
      : Message(call, shm_group),
        mail_(peer_.mail(shm_group.rank(), number_)),
        receipt_(shm_group.mine().receipt(call.peer, number_)) {}

  absl::StatusOr<Progress> Advance() override {
    waits_ = 0;
    if (!wanted_) {
      if (!IsFree(receipt_.done)) return Progress::kNothing;
      wanted_ = true;
      Publish(receipt_.wanted, 0);
    }
    if (!met_) {
      if (!Has(mail_.arrived, 0)) return Progress::kNothing;
      if (absl::Status met = ConnectAll(); !met.ok()) return met;
      met_ = true;
    }
    if (copied_ < call_.bytes()) {
      const bool moved = source_ != nullptr ? CopyPiece() : TakeBlock();
      if (!moved) return Progress::kNothing;
      if (copied_ < call_.bytes()) return Progress::kMoved;
    }
    Publish(receipt_.done, 0);
    return Progress::kDone;
  }

 private:
  absl::Status ConnectAll() {
    absl::Status agreed = CheckAnnouncement(
        &mail_.published.call, Announce(call_, call_.bytes()), call_.peer);
    agreed.Update(CheckCopyMode(mail_.published.copy_mode, call_.bytes(),
                                kSmallMessageBytes, call_.peer));
    if (!agreed.ok()) return agreed;
    SegmentImporter& importer = shm_group_.importer(call_.peer);
    importer.UnmapReleased(mail_.published.releases);
    if (mail_.published.copy_mode == CopyMode::kInline) source_ = mail_.small;
    if (mail_.published.copy_mode != CopyMode::kDirect) return absl::OkStatus();
    auto source = importer.Resolve(mail_.published.in, call_.bytes());
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
    if (!Has(mail_.staged, c + 1)) return false;
    const uint32_t block = mail_.blocks[c % kBlocksOfMessage] % kBlocks;
    kernels::Copy(Plus(call_.out, copied_), peer_.block(block), ChunkBytes(c));
    copied_ += ChunkBytes(c);
    Publish(receipt_.taken, c + 1);
    return true;
  }

  const SendSlot& mail_;
  RecvSlot& receipt_;
  bool wanted_ = false;
  bool met_ = false;
  const std::byte* source_ = nullptr;  // null: the message is staged in blocks
  size_t copied_ = 0;
};

}  // namespace

std::unique_ptr<Task> MakeMessage(const CollectiveOp& call,
                                  ShmGroup& shm_group) {
  if (call.kind == CollectiveKind::kSend) {
    return std::make_unique<Outgoing>(call, shm_group);
  }
  return std::make_unique<Incoming>(call, shm_group);
}

}  // namespace lockstep::transport
