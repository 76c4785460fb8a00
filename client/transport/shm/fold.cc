// AllReduce and ReduceScatter over shared memory.
//
// Small: every contribution lies in a cell, and each rank folds all for itself.
//
// In the arena, an all-reduce is in place: rank p owns slice p, reads it from
// all, and writes the result to all. Nothing is copied.
//
//   rank 0   [ slice 0 | slice 1 ]        0 reads ─┬─ and writes slice 0
//   rank 1   [ slice 0 | slice 1 ]                 └─ of both
//
// Private: contributions pass through the stages chunk by chunk; a chunk holds
// a part for each rank, its own part is where its result goes:
//
//   stage of 0   [ result of 0 | 0's for 1   ]
//   stage of 1   [ 1's for 0   | result of 1 ]
//
// The order of every addition is the ranks', so the way makes no difference to
// the bits.

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "client/transport/shm/collective.h"
#include "client/transport/shm/fold_check.h"
#include "client/transport/slices.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

// A small operation of few ranks allocates nothing for them.
template <class T>
using EachRank = absl::InlinedVector<T, 8>;

class Fold final : public Collective {
 public:
  Fold(const Call& call, Board& board)
      : Collective(call, board),
        element_(SizeOf(call.dtype)),
        check_(call),
        inputs_(size()),
        sources_(size()),
        targets_(size()) {}

 private:
  bool scatter() const { return call().kind == CallKind::kReduceScatter; }
  size_t total() const { return call().count * (scatter() ? size() : 1); }

  Range Slice(int of) const {
    return scatter() ? Range{of * call().count, call().count}
                     : FoldSlice(call(), size(), of);
  }
  // Chunk `c` of a slice.
  Range Chunk(int of, uint64_t c) const {
    const Range slice = Slice(of);
    const size_t begin = std::min<size_t>(c * chunk_, slice.count);
    return {slice.begin + begin, std::min(chunk_, slice.count - begin)};
  }

  const std::byte* In(size_t index) const {
    return Plus(call().in, index * element_);
  }
  // Where element `index` of the whole result goes.
  std::byte* Out(size_t index) const {
    const size_t before = scatter() ? Slice(rank()).begin : 0;
    return Plus(call().out, (index - before) * element_);
  }

  void Prepare(Said& said) override {
    const size_t bytes = total() * element_;
    if (bytes <= kSmallBytes) {
      if (bytes > 0) kernels::Copy(mine().small, call().in, bytes);
      return;
    }
    said.way = Way::kStaged;
    const Place in =
        board().lending().Offer(call().in, bytes, board().others());
    if (in.segment == 0) return;
    if (!scatter()) {
      said.out = board().lending().Offer(call().out, bytes, board().others());
      if (said.out.segment == 0) return;
    }
    said.in = in;
    said.way = Way::kDirect;
  }

  absl::Status Met() override {
    for (int peer = 0; peer < size(); ++peer) {
      if (way(peer) == Way::kStaged) staged_ |= MaskOf(peer);
    }
    // An all-reduce is direct for all or for none.
    if (!scatter() && staged_ != 0) staged_ = board().others() | MaskOf(rank());
    for (int peer = 0; peer < size(); ++peer) {
      if (absl::Status found = Find(peer); !found.ok()) return found;
    }
    const size_t part = board().mine().shape().chunk_bytes / size();
    chunk_ = WholeRuns((staged_ != 0 ? part : kPieceBytes / 4) / element_);
    part_bytes_ = part;
    // A small all-reduce is folded whole by each.
    whole_ = !scatter() && way(rank()) == Way::kSmall;
    const size_t longest = whole_ ? total() : Slice(0).count;
    chunks_ = (longest + chunk_ - 1) / chunk_;
    check_.Begin(Slice(rank()), whole_ ? 0 : chunk_);
    if (chunks_ < kChunksMax) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("a reduction of ", total() * element_,
                     " bytes of private "
                     "memory is more than passes through the stage: use the "
                     "arena"));
  }

  // The same on all ranks, whether they check what they sum or not.
  static size_t WholeRuns(size_t elements) {
    return elements > kernels::kSumRun ? elements - elements % kernels::kSumRun
                                       : elements;
  }

  // Where `peer`'s contribution begins, and its result, unless they pass the
  // stage.
  absl::Status Find(int peer) {
    const size_t bytes = total() * element_;
    if (peer == rank()) {
      sources_[peer] = In(0);
      return absl::OkStatus();
    }
    if (way(peer) == Way::kSmall) sources_[peer] = cell(peer).small;
    if ((staged_ & MaskOf(peer)) != 0 || way(peer) != Way::kDirect) {
      return absl::OkStatus();
    }
    const Said& said = cell(peer).said;
    auto in = board().borrowing(peer).Resolve(said.in, bytes);
    if (!in.ok()) return std::move(in).status();
    sources_[peer] = *in;
    if (scatter()) return absl::OkStatus();
    auto out = board().borrowing(peer).Resolve(said.out, bytes);
    if (!out.ok()) return std::move(out).status();
    targets_[peer] = *out;
    return absl::OkStatus();
  }

  absl::StatusOr<Progress> Part() override {
    bool moved = PutChunk();
    moved |= FoldChunk();
    moved |= TakeChunk();
    if (moved) return Progress::kMoved;
    const bool put = !staged(rank()) || put_ == chunks_;
    return put && folded_ == chunks_ && taken_ == chunks_ ? Progress::kDone
                                                          : Progress::kNothing;
  }

  bool staged(int of) const { return (staged_ & MaskOf(of)) != 0; }

  bool PutChunk() {
    if (!staged(rank()) || put_ == chunks_ || !MayPut(put_)) return false;
    for (int to = 0; to < size(); ++to) {
      const Range chunk = Chunk(to, put_);
      if (to == rank() || chunk.count == 0) continue;
      kernels::Copy(stage(rank(), put_) + to * part_bytes_, In(chunk.begin),
                    chunk.count * element_);
    }
    Say(&Cell::staged, ++put_);
    return true;
  }

  bool FoldChunk() {
    if (folded_ == chunks_ || !AllHave(&Cell::staged, staged_, folded_ + 1)) {
      return false;
    }
    // Its own result goes where its own stage must be free.
    if (staged(rank()) && put_ <= folded_) return false;
    const Range mine = whole_
                           ? Range{folded_ * chunk_,
                                   std::min(chunk_, total() - folded_ * chunk_)}
                           : Chunk(rank(), folded_);
    for (int from = 0; from < size(); ++from) {
      inputs_[from] = staged(from) && from != rank()
                          ? stage(from, folded_) + rank() * part_bytes_
                          : sources_[from] + mine.begin * element_;
    }
    outs_.assign(1, Out(mine.begin));
    for (std::byte* target : targets_) {
      if (target != nullptr) {
        outs_.push_back(target + mine.begin * element_);
      }
    }
    const bool back = staged(rank()) && !scatter();
    if (back) {
      outs_.push_back(stage(rank(), folded_) + rank() * part_bytes_);
    }
    check_.Fold(mine, inputs_, outs_);
    if (++folded_ == chunks_) check_.End(Out(Slice(rank()).begin));
    if (back) {
      Say(&Cell::folded, folded_);
      return true;
    }
    taken_ = folded_;  // nothing comes back
    if (staged_ != 0) Say(&Cell::taken, taken_);
    return true;
  }

  bool TakeChunk() {
    if (taken_ == chunks_ || taken_ >= folded_ ||
        !AllHave(&Cell::folded, board().others(), taken_ + 1)) {
      return false;
    }
    for (int from = 0; from < size(); ++from) {
      const Range chunk = Chunk(from, taken_);
      if (from == rank() || chunk.count == 0) continue;
      kernels::Copy(Out(chunk.begin), stage(from, taken_) + from * part_bytes_,
                    chunk.count * element_);
    }
    Say(&Cell::taken, ++taken_);
    return true;
  }

  const size_t element_;
  FoldCheck check_;
  EachRank<const void*> inputs_;
  EachRank<void*> outs_;
  EachRank<const std::byte*> sources_;
  EachRank<std::byte*> targets_;
  RankMask staged_ = 0;
  bool whole_ = false;
  size_t chunk_ = 1;  // elements of one rank's part
  size_t part_bytes_ = 0;
  uint64_t chunks_ = 0;
  uint64_t put_ = 0;
  uint64_t folded_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<Task> MakeFold(const Call& call, Board& board) {
  return std::make_unique<Fold>(call, board);
}

}  // namespace lockstep::transport
