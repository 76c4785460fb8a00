// AllGather, Broadcast, AllToAll, AllToAllV and Barrier over shared memory:
// each rank copies its block from every other rank's segment, from its slot if
// the block is small, or chunk by chunk from its stage if the memory is
// private.
//
//   stage of AllGather, Broadcast    [ the block's chunk c                 ]
//   stage of AllToAll, AllToAllV     [ for rank 0 | for rank 1 | ...       ]

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/transport/common/blocks.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/collective.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

class BlockExchange final : public Collective {
 public:
  BlockExchange(const CollectiveOp& call, ShmGroup& shm_group)
      : Collective(call, shm_group), own_(size()), copied_(size()) {
    for (int peer = 0; peer < size(); ++peer) {
      own_[peer] = GivenBlock(call, rank(), peer).value_or(ByteRange());
    }
  }

 private:
  bool uneven() const { return call().kind == CollectiveKind::kAllToAllV; }
  bool split() const {
    return uneven() || call().kind == CollectiveKind::kAllToAll;
  }
  size_t element() const { return SizeOf(call().dtype); }

  // The block that `from` sends to `to`. The call determines it, except in an
  // AllToAllV, where `from` publishes it.
  ByteRange BlockOf(int from, int to) const {
    if (from == rank()) return own_[to];
    if (uneven()) return Table(from)[to];
    return GivenBlock(call(), from, to).value_or(ByteRange());
  }

  // The slot payload of an AllToAllV begins with the table of its blocks.
  ByteRange* Table(int of) const {
    return reinterpret_cast<ByteRange*>(slot(of).small);
  }
  size_t table_bytes() const {
    return uneven() ? size() * sizeof(ByteRange) : 0;
  }

  // The offset in the slot payload of `from`'s block for `to`: the same as in
  // the buffer; uneven blocks are packed behind the table.
  size_t PlaceInCell(int from, int to) const {
    if (!uneven()) return BlockOf(from, to).offset;
    size_t before = table_bytes();
    for (int peer = 0; peer < to; ++peer) before += BlockOf(from, peer).bytes;
    return before;
  }

  // The destination of the block from `from`.
  std::byte* Target(int from) const {
    const ByteRange taken =
        TakenBlock(call(), rank(), from).value_or(ByteRange());
    return Plus(call().out, taken.offset);
  }

  void Prepare(PublishedCall& published) override {
    if (uneven()) {
      std::copy(own_.begin(), own_.end(), Table(rank()));
      published.call.bytes = 0;  // each pair has its own, see FindSource
    }
    size_t given = 0;
    size_t reach = 0;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      given = split() ? given + own_[peer].bytes : own_[peer].bytes;
      reach = std::max(reach, own_[peer].offset + own_[peer].bytes);
    }
    if (given == 0) return;
    const size_t space =
        uneven() ? table_bytes() + given + own_[rank()].bytes : reach;
    if (space <= kSmallBytes) return FillCell();
    published.copy_mode = CopyMode::kDirect;
    published.in = shm_group().exporter().Offer(SourceOf(call()), reach,
                                                shm_group().others());
    if (published.in.segment == 0) published.copy_mode = CopyMode::kStaged;
  }

  void FillCell() {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank() || own_[peer].bytes == 0) continue;
      kernels::Copy(mine().small + PlaceInCell(rank(), peer),
                    Plus(SourceOf(call()), own_[peer].offset),
                    own_[peer].bytes);
      if (!split()) return;
    }
  }

  absl::Status AllArrived() override {
    sources_.assign(size(), nullptr);
    RankMask staged = 0;
    size_t longest = 0;
    for (int from = 0; from < size(); ++from) {
      if (absl::Status found = FindSource(from); !found.ok()) return found;
      if (copy_mode(from) != CopyMode::kStaged) continue;
      staged |= MaskOf(from);
      for (int to = 0; to < size(); ++to) {
        if (to != from) longest = std::max(longest, BlockOf(from, to).bytes);
      }
    }
    staged_ = staged;
    part_bytes_ =
        shm_group().mine().shape().chunk_bytes / (split() ? size() : 1);
    chunks_ = (longest + part_bytes_ - 1) / part_bytes_;
    if (chunks_ < kChunksMax) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("a block of ", longest, " bytes of private memory is ",
                     "more than passes through the stage: use the arena"));
  }

  // Sets the address from which this rank reads the block from `from`, unless
  // that is staged.
  absl::Status FindSource(int from) {
    const ByteRange block = BlockOf(from, rank());
    if (uneven() && block.bytes != call().out_counts[from] * element()) {
      return WithFailedPeer(
          absl::DataLossError(absl::StrCat(
              "rank ", from, " sent ", block.bytes, " bytes where ",
              call().out_counts[from] * element(), " were expected")),
          from);
    }
    if (block.bytes == 0) return absl::OkStatus();
    if (from == rank()) {
      sources_[from] = Plus(SourceOf(call()), block.offset);
    } else if (copy_mode(from) == CopyMode::kInline) {
      const size_t place = PlaceInCell(from, rank());
      if (place > kSmallBytes || block.bytes > kSmallBytes - place) {
        return WithFailedPeer(
            absl::DataLossError(absl::StrCat("the slot of rank ", from,
                                             " is corrupt: a block of ",
                                             block.bytes, " bytes at ", place)),
            from);
      }
      sources_[from] = slot(from).small + place;
    } else if (copy_mode(from) == CopyMode::kDirect) {
      SegmentAddress place = slot(from).published.in;
      place.offset += block.offset;
      auto resolved = shm_group().importer(from).Resolve(place, block.bytes);
      if (!resolved.ok()) return std::move(resolved).status();
      sources_[from] = *resolved;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<AdvanceResult> Part() override {
    bool moved = PutChunk();
    moved |= TakeChunk();
    moved |= CopyPiece();
    if (moved) return AdvanceResult::kMoved;
    const bool put = put_ == chunks_ || copy_mode(rank()) != CopyMode::kStaged;
    return put && taken_ == chunks_ ? AdvanceResult::kDone
                                    : AdvanceResult::kNothing;
  }

  // Copies one piece of a block that is not staged.
  bool CopyPiece() {
    for (int step = 0; step < size(); ++step) {
      const int from = (rank() + step) % size();  // each rank starts elsewhere
      const size_t bytes = BlockOf(from, rank()).bytes;
      if (sources_[from] == nullptr || copied_[from] == bytes) continue;
      const size_t piece = std::min(kStepBytes, bytes - copied_[from]);
      std::byte* const to = Target(from) + copied_[from];
      const std::byte* const source = sources_[from] + copied_[from];
      if (to != source) kernels::Copy(to, source, piece);
      copied_[from] += piece;
      return true;
    }
    return false;
  }

  // Offset and length of chunk `c` of a block.
  ByteRange ChunkOf(const ByteRange& block, uint64_t c) const {
    const uint64_t begin = std::min<uint64_t>(c * part_bytes_, block.bytes);
    return {begin, std::min<uint64_t>(part_bytes_, block.bytes - begin)};
  }

  bool PutChunk() {
    if (copy_mode(rank()) != CopyMode::kStaged || put_ == chunks_ ||
        !MayPut(put_)) {
      return false;
    }
    for (int to = 0; to < size(); ++to) {
      if (to == rank()) continue;
      const ByteRange chunk = ChunkOf(own_[to], put_);
      if (chunk.bytes > 0) {
        kernels::Copy(stage(rank(), put_) + (split() ? to * part_bytes_ : 0),
                      Plus(SourceOf(call()), own_[to].offset + chunk.offset),
                      chunk.bytes);
      }
      if (!split()) break;
    }
    Publish(&CollectiveSlot::staged, ++put_, staged_);
    return true;
  }

  bool TakeChunk() {
    if (taken_ == chunks_ ||
        !AllHave(&CollectiveSlot::staged, staged_, taken_ + 1)) {
      return false;
    }
    for (int from = 0; from < size(); ++from) {
      if (from == rank() || (staged_ & MaskOf(from)) == 0) continue;
      const ByteRange chunk = ChunkOf(BlockOf(from, rank()), taken_);
      if (chunk.bytes == 0) continue;
      kernels::Copy(Target(from) + chunk.offset,
                    stage(from, taken_) + (split() ? rank() * part_bytes_ : 0),
                    chunk.bytes);
    }
    Publish(&CollectiveSlot::taken, ++taken_, shm_group().others());
    return true;
  }

  std::vector<ByteRange> own_;
  std::vector<const std::byte*> sources_;  // by rank; null: none, or staged
  std::vector<size_t> copied_;             // bytes, by rank
  RankMask staged_ = 0;
  size_t part_bytes_ = 1;
  uint64_t chunks_ = 0;
  uint64_t put_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveTask> MakeExchange(const CollectiveOp& call,
                                             ShmGroup& shm_group) {
  return std::make_unique<BlockExchange>(call, shm_group);
}

}  // namespace lockstep::transport
