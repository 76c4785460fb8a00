// Send and Recv over shared memory: a message is pulled by its receiver, from
// the mail if it is small, from where it lies in the sender's arena, or block
// by block.
//
//   sender     mail: [number, what, where] ──▶     ┌─ small: taken at once
//   receiver   ◀── receipt: [wanted]               ├─ direct: read in place
//   sender     puts block c, when it is wanted ──▶ └─ staged: copied out
//   receiver   ◀── [taken] ... [done]
//
// Blocks come from a pool of the sender's that all its messages share. One is
// taken only for a receiver that is there, and so will empty it. What a message
// that fails has taken is not given back: its receiver may still read there,
// and the board is at its end.

#include <algorithm>

#include "client/transport/announcement.h"
#include "client/transport/shm/collective.h"
#include "client/transport/shm/way_check.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

class Message : public Task {
 protected:
  Message(const Call& call, Board& board)
      : call_(call),
        board_(board),
        number_((call.tag & ~(uint64_t{1} << 63)) >> 24),
        peer_(board.seat(call.peer)),
        block_bytes_(board.mine().shape().block_bytes),
        chunks_((call.bytes() + block_bytes_ - 1) / block_bytes_) {}

  bool Has(const Word& word, uint64_t chunks) {
    const bool has = word.load() >= Reached(number_, chunks);
    if (!has) waits_ |= MaskOf(call_.peer);
    return has;
  }
  void Say(Word& word, uint64_t chunks) {
    word.store(Reached(number_, chunks));
    board_.Ring(call_.peer);
  }
  // Whether the message kMails before is done with its place.
  bool IsFree(const Word& done) {
    if (number_ <= kMails) return true;
    const bool free = done.load() >= Reached(number_ - kMails, 0);
    if (!free) waits_ |= MaskOf(call_.peer);
    return free;
  }
  size_t ChunkBytes(uint64_t c) const {
    return std::min(block_bytes_, call_.bytes() - c * block_bytes_);
  }

  const Call& call_;
  Board& board_;
  const uint64_t number_;
  const Seat peer_;
  const size_t block_bytes_;
  const uint64_t chunks_;
};

class Outgoing final : public Message {
 public:
  Outgoing(const Call& call, Board& board)
      : Message(call, board),
        mail_(board.mine().mail(call.peer, number_)),
        receipt_(peer_.receipt(board.rank(), number_)) {}

  absl::StatusOr<Progress> Advance() override {
    waits_ = 0;
    if (!posted_) {
      if (!IsFree(receipt_.done)) return Progress::kNothing;
      Post();
      return mail_.said.way == Way::kSmall ? Progress::kDone : Progress::kMoved;
    }
    if (mail_.said.way == Way::kDirect) {
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
    mail_.said = {.call = Announce(call_, call_.bytes()),
                  .releases = board_.lending().releases()};
    if (call_.bytes() <= kSmallMailBytes) {
      if (call_.bytes() > 0) {
        kernels::Copy(mail_.small, call_.in, call_.bytes());
      }
    } else {
      mail_.said.way = Way::kDirect;
      mail_.said.in =
          board_.lending().Offer(call_.in, call_.bytes(), MaskOf(call_.peer));
      if (mail_.said.in.segment == 0) mail_.said.way = Way::kStaged;
    }
    posted_ = true;
    Say(mail_.arrived, 0);
  }

  bool PutBlock() {
    if (put_ == chunks_ || put_ - given_ == kBlocksOfMail ||
        !Has(receipt_.wanted, 0)) {
      return false;
    }
    const std::optional<uint32_t> block = board_.TakeBlock();
    if (!block) return false;
    kernels::Copy(board_.mine().block(*block),
                  Plus(call_.in, put_ * block_bytes_), ChunkBytes(put_));
    mail_.blocks[put_ % kBlocksOfMail] = *block;
    Say(mail_.staged, ++put_);
    return true;
  }

  void GiveBackBlock() {
    board_.GiveBlock(mail_.blocks[given_ % kBlocksOfMail]);
    ++given_;
  }

  Mail& mail_;
  const Receipt& receipt_;
  bool posted_ = false;
  uint64_t put_ = 0;    // blocks
  uint64_t given_ = 0;  // back to the pool
};

class Incoming final : public Message {
 public:
  Incoming(const Call& call, Board& board)
      : Message(call, board),
        mail_(peer_.mail(board.rank(), number_)),
        receipt_(board.mine().receipt(call.peer, number_)) {}

  absl::StatusOr<Progress> Advance() override {
    waits_ = 0;
    if (!wanted_) {
      if (!IsFree(receipt_.done)) return Progress::kNothing;
      wanted_ = true;
      Say(receipt_.wanted, 0);
    }
    if (!met_) {
      if (!Has(mail_.arrived, 0)) return Progress::kNothing;
      if (absl::Status met = Meet(); !met.ok()) return met;
      met_ = true;
    }
    if (copied_ < call_.bytes()) {
      const bool moved = source_ != nullptr ? CopyPiece() : TakeBlock();
      if (!moved) return Progress::kNothing;
      if (copied_ < call_.bytes()) return Progress::kMoved;
    }
    Say(receipt_.done, 0);
    return Progress::kDone;
  }

 private:
  absl::Status Meet() {
    absl::Status agreed = CheckAnnouncement(
        &mail_.said.call, Announce(call_, call_.bytes()), call_.peer);
    agreed.Update(
        CheckWay(mail_.said.way, call_.bytes(), kSmallMailBytes, call_.peer));
    if (!agreed.ok()) return agreed;
    Borrowing& borrowing = board_.borrowing(call_.peer);
    borrowing.Heed(mail_.said.releases);
    if (mail_.said.way == Way::kSmall) source_ = mail_.small;
    if (mail_.said.way != Way::kDirect) return absl::OkStatus();
    auto source = borrowing.Resolve(mail_.said.in, call_.bytes());
    if (source.ok()) source_ = *source;
    return source.status();
  }

  bool CopyPiece() {
    const size_t piece = std::min(kPieceBytes, call_.bytes() - copied_);
    kernels::Copy(Plus(call_.out, copied_), source_ + copied_, piece);
    copied_ += piece;
    return true;
  }

  bool TakeBlock() {
    const uint64_t c = copied_ / block_bytes_;
    if (!Has(mail_.staged, c + 1)) return false;
    const uint32_t block = mail_.blocks[c % kBlocksOfMail] % kBlocks;
    kernels::Copy(Plus(call_.out, copied_), peer_.block(block), ChunkBytes(c));
    copied_ += ChunkBytes(c);
    Say(receipt_.taken, c + 1);
    return true;
  }

  const Mail& mail_;
  Receipt& receipt_;
  bool wanted_ = false;
  bool met_ = false;
  const std::byte* source_ = nullptr;  // null: it comes in blocks
  size_t copied_ = 0;
};

}  // namespace

std::unique_ptr<Task> MakeMessage(const Call& call, Board& board) {
  if (call.kind == CallKind::kSend) {
    return std::make_unique<Outgoing>(call, board);
  }
  return std::make_unique<Incoming>(call, board);
}

}  // namespace lockstep::transport
