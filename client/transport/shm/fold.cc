// AllReduce and ReduceScatter over shared memory.
//
// A reduce-scatter of little: every contribution lies in a cell, and each rank
// folds its slice. (An all-reduce of little is small_fold.cc's.)
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
#include "client/transport/shm/way_check.h"
#include "client/transport/slices.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

// A small operation of few ranks allocates nothing for them.
template <class T>
using EachRank = absl::InlinedVector<T, 8>;

// Where a rank's contribution begins, and its result: null if they pass the
// stage.
struct Ends {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

class Fold final : public Collective {
 public:
  Fold(const Call& call, Board& board)
      : Collective(call, board),
        element_(SizeOf(call.dtype)),
        check_(call),
        ends_(size()) {}

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
    part_bytes_ = board().mine().shape().chunk_bytes / size();
    const size_t piece = staged_ != 0 ? part_bytes_ : kPieceBytes / 4;
    chunk_ = WholeRuns(piece / element_);
    chunks_ = (Slice(0).count + chunk_ - 1) / chunk_;
    check_.Begin(Slice(rank()), chunk_);
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

  // Fills in `peer`'s ends.
  absl::Status Find(int peer) {
    const size_t bytes = total() * element_;
    if (peer == rank()) {
      ends_[peer].source = In(0);
      return absl::OkStatus();
    }
    absl::Status checked = CheckWay(way(peer), bytes, kSmallBytes, peer);
    if (!checked.ok()) return checked;
    if (way(peer) == Way::kSmall) ends_[peer].source = cell(peer).small;
    if ((staged_ & MaskOf(peer)) != 0 || way(peer) != Way::kDirect) {
      return absl::OkStatus();
    }
    const Said& said = cell(peer).said;
    auto in = board().borrowing(peer).Resolve(said.in, bytes);
    if (!in.ok()) return std::move(in).status();
    ends_[peer].source = *in;
    if (scatter()) return absl::OkStatus();
    auto out = board().borrowing(peer).Resolve(said.out, bytes);
    if (!out.ok()) return std::move(out).status();
    ends_[peer].target = *out;
    return absl::OkStatus();
  }

  absl::StatusOr<Progress> Part() override {
    bool moved = PutChunk();
    moved |= FoldChunk();
    moved |= TakeChunk();
    const bool put = !staged(rank()) || put_ == chunks_;
    if (put && folded_ == chunks_ && taken_ == chunks_) return Progress::kDone;
    return moved ? Progress::kMoved : Progress::kNothing;
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
    Say(&Cell::staged, ++put_, staged_);
    return true;
  }

  bool FoldChunk() {
    if (folded_ == chunks_ || !AllHave(&Cell::staged, staged_, folded_ + 1)) {
      return false;
    }
    // Its own result goes where its own stage must be free.
    if (staged(rank()) && put_ <= folded_) return false;
    const Range mine = Chunk(rank(), folded_);
    inputs_.clear();
    outs_.clear();
    outs_.push_back(Out(mine.begin));
    for (int from = 0; from < size(); ++from) {
      const auto [source, target] = ends_[from];
      inputs_.push_back(staged(from) && from != rank()
                            ? stage(from, folded_) + rank() * part_bytes_
                            : source + mine.begin * element_);
      if (target != nullptr) outs_.push_back(target + mine.begin * element_);
    }
    const bool back = staged(rank()) && !scatter();
    if (back) {
      outs_.push_back(stage(rank(), folded_) + rank() * part_bytes_);
    }
    check_.Fold(mine, inputs_, outs_);
    if (++folded_ == chunks_) check_.End(Out(Slice(rank()).begin));
    if (back) {
      Say(&Cell::folded, folded_, board().others());
      return true;
    }
    taken_ = folded_;  // nothing comes back
    if (staged_ != 0) Say(&Cell::taken, taken_, board().others());
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
    Say(&Cell::taken, ++taken_, board().others());
    return true;
  }

  const size_t element_;
  FoldCheck check_;
  EachRank<Ends> ends_;
  EachRank<const void*> inputs_;  // of the chunk that is folded
  EachRank<void*> outs_;
  RankMask staged_ = 0;
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
