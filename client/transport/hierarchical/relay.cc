// A collective along a course (course.h), one rank's part of it.
//
//   put    its contributions to this host's givers, into the stage
//   fold   its pieces: onto the carry of the host before; the carry goes on, or
//          the result is there
//   give   the result, folded here or come over the link, to this host
//   take   what others give, from their stages
//
// In the arena nothing passes a stage: a fold reads from all, a giver writes to
// all. A stage's chunk has a part for each rank of the host; its own part is
// for what it gives:
//
//   stage of 0   [ given by 0 | 0's for 1  ]
//   stage of 1   [ 1's for 0  | given by 1 ]

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/announcement.h"
#include "client/transport/hierarchical/course.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/collective.h"
#include "client/transport/transfers.h"
#include "kernels/copy.h"
#include "kernels/partial_reduce.h"

namespace lockstep::transport {
namespace {

// Pieces of carries and results under way, on each side of a link.
constexpr uint64_t kWindow = 4;

class Relay final : public Collective {
 public:
  Relay(const Call& call, const Crew& crew)
      : Collective(call, crew.board),
        crew_(crew),
        course_(MakeCourse(call, crew.placement, crew.rank, crew.piece_bytes)),
        steps_(course_->steps()),
        element_(SizeOf(call.dtype)),
        carry_element_(SizeOf(kernels::CarryOf(call.dtype))),
        announcements_(call, call.bytes(), crew.link),
        sources_(size()),
        targets_(size()) {}

 private:
  using Slots = std::array<Transfers, kWindow>;

  bool folds() const {
    return call().kind == CallKind::kAllReduce ||
           call().kind == CallKind::kReduceScatter;
  }
  bool scatters() const { return call().kind == CallKind::kReduceScatter; }
  bool gathers() const { return call().kind == CallKind::kAllGather; }
  Piece Mine(uint64_t step) const { return course_->PieceOf(rank(), step); }

  // --- Buffers ---

  size_t Bytes(const Piece& piece) const { return piece.count * element_; }
  const std::byte* In(const Piece& piece) const {
    return Plus(call().in, piece.begin * element_);
  }
  // Where a piece that `reader`, an index, gets lies in its `out`.
  size_t OffsetFor(int reader, const Piece& piece) const {
    const int owner = crew_.placement.members(crew_.host())[reader];
    const size_t before = scatters() ? owner * call().count : 0;
    return (piece.begin - before) * element_;
  }
  std::byte* Out(const Piece& piece) const {
    return Plus(call().out, OffsetFor(rank(), piece));
  }
  bool Reads(int reader, const Piece& piece) const {
    return piece.count > 0 &&
           (piece.reader == Piece::kAll || piece.reader == reader);
  }
  // Where this rank has the result of its piece before it gives it: in `out`,
  // or, if that is not its own, in a slot.
  std::byte* ResultPlace(const Piece& piece, uint64_t step) const {
    if (Reads(rank(), piece)) return Out(piece);
    return results_.data() + step % kWindow * crew_.piece_bytes;
  }
  std::byte* CarrySlot(const Scratch& slots, uint64_t step) const {
    const size_t most = crew_.piece_bytes / element_ * carry_element_;
    return slots.data() + step % kWindow * most;
  }
  size_t CarryBytes(const Piece& piece) const {
    return piece.count * carry_element_;
  }

  // Of `owner`, an index, what this rank put or the owner gives.
  std::byte* Part(int from, uint64_t step, int of) const {
    return stage(from, step) + of * part_bytes_;
  }

  // --- Coming ---

  void Prepare(Said& said) override {
    said.way = Way::kStaged;
    Share(said);
    linked_ = crew_.OfLink(BeginLinks());
  }

  // In the arena: what is folded is read, what is given is written.
  void Share(Said& said) {
    const size_t ranks = crew_.placement.ranks();
    if (folds()) {
      const size_t bytes = call().bytes() * (scatters() ? ranks : 1);
      said.in = Offer(call().in, bytes);
      if (said.in.segment == 0) return;
    }
    said.out = Offer(call().out, call().bytes() * (gathers() ? ranks : 1));
    if (said.out.segment != 0) said.way = Way::kDirect;
  }
  Place Offer(const void* data, size_t bytes) {
    return bytes == 0 ? Place()
                      : board().lending().Offer(data, bytes, board().others());
  }

  absl::Status TakeScratch() {
    const size_t carries =
        kWindow * (crew_.piece_bytes / element_ * carry_element_);
    absl::Status taken;
    if (course_->carry_from() >= 0) {
      taken.Update(crew_.scratch.Take(carries, &carry_in_));
    }
    if (course_->carry_to() >= 0) {
      taken.Update(crew_.scratch.Take(carries, &carry_out_));
    }
    if (scatters()) {
      taken.Update(crew_.scratch.Take(kWindow * crew_.piece_bytes, &results_));
    }
    return taken;
  }

  absl::Status BeginLinks() {
    absl::Status posted = TakeScratch();
    if (!posted.ok()) return posted;
    for (int giver : course_->givers()) {
      posted.Update(announcements_.Expect(giver));
    }
    for (int taker : course_->takers()) {
      posted.Update(announcements_.Give(taker));
    }
    for (uint64_t step = 0; step < std::min(steps_, kWindow); ++step) {
      posted.Update(AskForCarry(step));
      posted.Update(AskForResult(step));
    }
    // What is not folded is there from the start.
    for (uint64_t step = 0; !folds() && step < steps_; ++step) {
      const Piece piece = Mine(step);
      if (piece.count > 0 && course_->ResultFrom(step) < 0) {
        posted.Update(PassOn(step, Own(piece)));
      }
    }
    return posted;
  }

  // Of a collective that does not fold: this rank's part of it.
  const std::byte* Own(const Piece& piece) const {
    if (!gathers()) return Out(piece);
    const size_t begin = crew_.rank * call().count;
    return Plus(call().in, (piece.begin - begin) * element_);
  }

  // Message 0 announces; then, per step, a carry and a result.
  uint64_t CarryTag(uint64_t step) const { return call().tag + 1 + 2 * step; }
  uint64_t ResultTag(uint64_t step) const {
    return call().tag + 2 + 2 * course_->Message(step);
  }

  absl::Status AskForCarry(uint64_t step) {
    const Piece piece = step < steps_ ? Mine(step) : Piece();
    if (piece.count == 0 || course_->carry_from() < 0) return absl::OkStatus();
    return carries_in_[step % kWindow].Add(
        crew_.link.Recv(course_->carry_from(), CarryTag(step),
                        CarrySlot(carry_in_, step), CarryBytes(piece)));
  }

  absl::Status AskForResult(uint64_t step) {
    const Piece piece = step < steps_ ? Mine(step) : Piece();
    const int from = piece.count == 0 ? -1 : course_->ResultFrom(step);
    if (from < 0) return absl::OkStatus();
    return results_in_[step % kWindow].Add(crew_.link.Recv(
        from, ResultTag(step), ResultPlace(piece, step), Bytes(piece)));
  }

  // The result of a step, which lies at `from` until it has gone.
  absl::Status PassOn(uint64_t step, const std::byte* from) {
    absl::Status posted;
    for (int to : course_->ResultTo(step)) {
      Transfers& sends = scatters() ? slots_out_[step % kWindow] : sends_;
      posted.Update(sends.Add(
          crew_.link.Send(to, ResultTag(step), from, Bytes(Mine(step)))));
    }
    return posted;
  }

  absl::Status Met() override {
    if (!linked_.ok()) return linked_;
    part_bytes_ = board().mine().shape().chunk_bytes / size();
    for (int peer = 0; peer < size(); ++peer) {
      staged_ |= way(peer) != Way::kDirect;
    }
    const size_t ranks = crew_.placement.ranks();
    const size_t in_bytes = call().bytes() * (scatters() ? ranks : 1);
    const size_t out_bytes = call().bytes() * (gathers() ? ranks : 1);
    for (int peer = 0; !staged_ && peer < size(); ++peer) {
      if (peer == rank()) continue;
      absl::Status found =
          folds() ? Find(peer, cell(peer).said.in, in_bytes, &sources_[peer])
                  : absl::OkStatus();
      found.Update(Find(peer, cell(peer).said.out, out_bytes, &targets_[peer]));
      if (!found.ok()) return found;
    }
    if (steps_ < kChunksMax / 2) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("a collective of ", call().bytes(),
                     " bytes is more than can be numbered between hosts"));
  }

  absl::Status Find(int peer, Place place, size_t bytes, std::byte** found) {
    auto resolved = board().borrowing(peer).Resolve(place, bytes);
    if (resolved.ok()) *found = *resolved;
    return resolved.status();
  }

  // --- Acting ---

  absl::StatusOr<Progress> Part() override {
    bool moved = false;
    for (auto act : {&Relay::HearAnnouncements, &Relay::Put, &Relay::Fold,
                     &Relay::Give, &Relay::Take}) {
      absl::StatusOr<bool> acted = (this->*act)();
      if (!acted.ok()) return std::move(acted).status();
      moved |= *acted;
    }
    if (moved) return Progress::kMoved;
    if (!heard_ || given_ < steps_ || taken_ < steps_) {
      return Progress::kNothing;
    }
    return Leave();
  }

  // What was sent has gone.
  absl::StatusOr<Progress> Leave() {
    std::vector<Transfers*> all = {&sends_};
    for (Slots* slots : {&carries_out_, &slots_out_}) {
      for (Transfers& slot : *slots) all.push_back(&slot);
    }
    for (Transfers* transfers : all) {
      if (!transfers->Done()) return Progress::kNothing;
      absl::Status gone = transfers->WaitAll();
      if (!gone.ok()) return crew_.OfLink(gone);
    }
    return Progress::kDone;
  }

  // Nothing of another host is used before it has said the same as this rank.
  absl::StatusOr<bool> HearAnnouncements() {
    if (heard_ || !announcements_.HaveMoved()) return false;
    absl::Status agreed = announcements_.Agree();
    if (!agreed.ok()) return crew_.OfLink(agreed);
    return heard_ = true;
  }

  absl::StatusOr<bool> Put() {
    if (!folds() || put_ == steps_) return false;
    if (staged_) {
      if (!MayPut(put_)) return false;
      for (int to = 0; to < size(); ++to) {
        const Piece piece = course_->PieceOf(to, put_);
        if (to == rank() || piece.count == 0) continue;
        kernels::Copy(Part(rank(), put_, to), In(piece), Bytes(piece));
      }
      Say(&Cell::staged, put_ + 1);
    }
    ++put_;
    return true;
  }

  // Whether what is under way in a slot has moved, and nothing is left.
  absl::StatusOr<bool> Empty(Transfers& slot) {
    if (slot.empty()) return true;
    if (!slot.Done()) return false;
    absl::Status moved = slot.WaitAll();
    if (!moved.ok()) return crew_.OfLink(moved);
    return true;
  }

  absl::StatusOr<bool> Fold() {
    // Not so far ahead that a slot would still hold what is to be given.
    if (!folds() || folded_ == steps_ || folded_ == put_ ||
        folded_ - given_ == kWindow) {
      return false;
    }
    const uint64_t step = folded_;
    const Piece piece = Mine(step);
    if (piece.count > 0) {
      if (staged_ && !AllHave(&Cell::staged, board().others(), step + 1)) {
        return false;
      }
      const bool onto = course_->carry_from() >= 0;
      if (onto && !heard_) return false;
      for (Slots* slots : {&carries_in_, &carries_out_, &slots_out_}) {
        absl::StatusOr<bool> empty = Empty((*slots)[step % kWindow]);
        if (!empty.ok() || !*empty) return empty;
      }
      FoldPiece(piece, step, onto ? CarrySlot(carry_in_, step) : nullptr);
      absl::Status posted = SendFolded(piece, step);
      posted.Update(AskForCarry(step + kWindow));
      if (!posted.ok()) return crew_.OfLink(posted);
    }
    ++folded_;
    return true;
  }

  void FoldPiece(const Piece& piece, uint64_t step, const std::byte* carry) {
    inputs_.clear();
    for (int from = 0; from < size(); ++from) {
      inputs_.push_back(from == rank() ? In(piece)
                        : staged_      ? Part(from, step, rank())
                                  : sources_[from] + piece.begin * element_);
    }
    if (course_->carry_to() >= 0) {
      kernels::ReduceToCarry(carry, inputs_, CarrySlot(carry_out_, step),
                             piece.count, call().dtype, call().op);
    } else {
      kernels::ReduceFromCarry(carry, inputs_, ResultPlace(piece, step),
                               piece.count, call().dtype, call().op,
                               crew_.placement.ranks());
    }
  }

  absl::Status SendFolded(const Piece& piece, uint64_t step) {
    if (course_->carry_to() < 0) return PassOn(step, ResultPlace(piece, step));
    return carries_out_[step % kWindow].Add(
        crew_.link.Send(course_->carry_to(), CarryTag(step),
                        CarrySlot(carry_out_, step), CarryBytes(piece)));
  }

  absl::StatusOr<bool> Give() {
    if (given_ == steps_ || (folds() && given_ == folded_)) return false;
    const uint64_t step = given_;
    // The place that it gives from must be free, too.
    if (!folds() && staged_ && !MayPut(step)) return false;
    const Piece piece = Mine(step);
    if (piece.count > 0 && piece.reader != Piece::kNobody) {
      const bool linked = course_->ResultFrom(step) >= 0;
      if (linked) {
        if (!heard_) return false;
        absl::StatusOr<bool> come = Empty(results_in_[step % kWindow]);
        if (!come.ok() || !*come) return come;
      }
      const bool own = !folds() && !linked;
      GivePiece(piece, step, own ? Own(piece) : ResultPlace(piece, step));
      if (linked) {
        absl::Status posted = PassOn(step, ResultPlace(piece, step));
        if (!posted.ok()) return crew_.OfLink(posted);
      }
    }
    if (absl::Status asked = AskForResult(step + kWindow); !asked.ok()) {
      return crew_.OfLink(asked);
    }
    ++given_;
    if (staged_) {
      Say(&Cell::folded, given_);
    } else {
      taken_ = given_;  // nothing is left to take
    }
    return true;
  }

  void GivePiece(const Piece& piece, uint64_t step, const std::byte* from) {
    if (Reads(rank(), piece) && from != Out(piece)) {
      kernels::Copy(Out(piece), from, Bytes(piece));
    }
    if (staged_) {
      if (piece.reader != rank() && size() > 1) {
        kernels::Copy(Part(rank(), step, rank()), from, Bytes(piece));
      }
      return;
    }
    for (int reader = 0; reader < size(); ++reader) {
      if (reader == rank() || !Reads(reader, piece)) continue;
      kernels::Copy(targets_[reader] + OffsetFor(reader, piece), from,
                    Bytes(piece));
    }
  }

  absl::StatusOr<bool> Take() {
    if (!staged_ || taken_ == given_ ||
        !AllHave(&Cell::folded, board().others(), taken_ + 1)) {
      return false;
    }
    for (int from = 0; from < size(); ++from) {
      const Piece piece = course_->PieceOf(from, taken_);
      if (from == rank() || !Reads(rank(), piece)) continue;
      kernels::Copy(Out(piece), Part(from, taken_, from), Bytes(piece));
    }
    Say(&Cell::taken, ++taken_);
    return true;
  }

  const Crew& crew_;
  const std::unique_ptr<Course> course_;
  const uint64_t steps_;
  const size_t element_;
  const size_t carry_element_;

  // Memory before the transfers that use it.
  Scratch carry_in_;
  Scratch carry_out_;
  Scratch results_;
  Announcements announcements_;
  Slots carries_in_;
  Slots carries_out_;
  Slots results_in_;
  Slots slots_out_;  // results sent from slots
  Transfers sends_;  // and from `out`
  absl::Status linked_;

  bool heard_ = false;
  bool staged_ = false;
  size_t part_bytes_ = 0;
  std::vector<std::byte*> sources_;  // by index: where others have `in`
  std::vector<std::byte*> targets_;  // and `out`
  std::vector<const void*> inputs_;
  uint64_t put_ = 0;
  uint64_t folded_ = 0;
  uint64_t given_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<Task> MakeRelay(const Call& call, const Crew& crew) {
  return std::make_unique<Relay>(call, crew);
}

}  // namespace lockstep::transport
