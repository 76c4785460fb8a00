// One rank's part of a collective that runs in chunks by a schedule
// (chunk_schedule.h), on one host or on several.
//
//   put      copies its contributions for this host's givers to its stage
//   reduce   reduces its chunks, onto the partial sum of the host before, if
//            any; the sum is sent to the next host, or is the result
//   give     gives the result, reduced here or received, to this host
//   take     copies the results that others give from their stages
//
// In the arena no stage is used and nothing is copied. A rank reads a chunk
// from all and writes the result to all:
//
//   rank 0   [ chunk 0 | chunk 1 ]        0 reads ─┬─ and writes chunk 0
//   rank 1   [ chunk 0 | chunk 1 ]                 └─ of both
//
// In private memory: a chunk of a stage has a part for each rank of the host;
// the owner's part is for the results that it gives:
//
//   stage of 0   [ given by 0 | 0's for 1  ]
//   stage of 1   [ 1's for 0  | given by 1 ]
//
// Additions are in rank order in both cases, so the bits are the same.

#include "client/transport/shm/chunked_collective.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "client/transport/shm/collective.h"
#include "client/transport/shm/copy_mode_check.h"
#include "client/transport/shm/reduce_check.h"
#include "kernels/copy.h"

namespace lockstep::transport {
namespace {

// Inlined, so that a collective of few ranks allocates nothing.
template <class T>
using EachRank = absl::InlinedVector<T, 8>;

// `ranks`: of the whole group.
size_t InCount(const CollectiveOp& call, size_t ranks) {
  return call.count * (call.kind == CollectiveKind::kReduceScatter ? ranks : 1);
}
size_t OutCount(const CollectiveOp& call, size_t ranks) {
  return call.count * (call.kind == CollectiveKind::kAllGather ? ranks : 1);
}

// On one host each rank reduces a slice (ReduceSliceOf, or its own block).
class LocalSchedule final : public ChunkSchedule {
 public:
  LocalSchedule(const CollectiveOp& call, int ranks, size_t chunk)
      : call_(call), ranks_(ranks), chunk_(chunk) {}

  uint64_t steps() const override {
    return (Slice(0).count + chunk_ - 1) / chunk_;
  }
  Chunk ChunkOf(int index, uint64_t step) const override {
    const SliceRange slice = Slice(index);
    const size_t begin = std::min<size_t>(step * chunk_, slice.count);
    return {slice.begin + begin, std::min(chunk_, slice.count - begin),
            scatters() ? index : Chunk::kAll};
  }

 private:
  bool scatters() const { return call_.kind == CollectiveKind::kReduceScatter; }
  // No slice is longer than the first.
  SliceRange Slice(int of) const {
    return scatters() ? SliceRange{of * call_.count, call_.count}
                      : ReduceSliceOf(call_, ranks_, of);
  }

  const CollectiveOp& call_;
  const int ranks_;
  const size_t chunk_;
};

class ChunkedCollective final : public Collective {
 public:
  ChunkedCollective(const CollectiveOp& call, ShmGroup& shm_group,
                    std::optional<RemotePart> remote)
      : Collective(call, shm_group),
        remote_(std::move(remote)),
        element_(SizeOf(call.dtype)),
        in_bytes_(InCount(call, ranks()) * element_),
        out_bytes_(OutCount(call, ranks()) * element_),
        check_(call),
        sources_(size()),
        targets_(size()) {
    // On one host AllArrived makes the schedule.
    if (has_hosts()) schedule_ = std::move(remote_->schedule);
  }

 private:
  bool has_hosts() const { return remote_.has_value(); }
  RemoteTransfers& transfers() { return *remote_->transfers; }
  int ranks() const { return has_hosts() ? remote_->ranks : size(); }
  bool scatters() const {
    return call().kind == CollectiveKind::kReduceScatter;
  }
  bool reduces() const {
    return scatters() || call().kind == CollectiveKind::kAllReduce;
  }
  // Whether ranks give results to each other.
  bool gives() const { return has_hosts() || !scatters(); }
  bool staged(int of) const { return (staged_ & MaskOf(of)) != 0; }

  Chunk Mine(uint64_t step) const { return schedule_->ChunkOf(rank(), step); }
  size_t Bytes(const Chunk& chunk) const { return chunk.count * element_; }

  // --- Buffers ---

  const std::byte* In(const Chunk& chunk) const {
    return Plus(call().in, chunk.begin * element_);
  }
  // The offset of a chunk in the `out` of `reader`, an index on this host.
  size_t OffsetFor(int reader, const Chunk& chunk) const {
    const size_t owner = has_hosts() ? remote_->members[reader] : reader;
    const size_t before = scatters() ? owner * call().count : 0;
    return (chunk.begin - before) * element_;
  }
  std::byte* Out(const Chunk& chunk) const {
    return Plus(call().out, OffsetFor(rank(), chunk));
  }
  // The part of `from`'s stage with its contribution for `of`; if they are the
  // same, with the result that it gives.
  std::byte* Part(int from, uint64_t step, int of) const {
    return stage(from, step) + of * part_bytes_;
  }

  // --- Arriving ---

  void Prepare(PublishedCall& published) override {
    published.copy_mode =
        Share(published) ? CopyMode::kDirect : CopyMode::kStaged;
    if (has_hosts()) begun_ = transfers().Begin();
  }

  // Offers the buffers that peers read (inputs) and write (results). False if
  // one is not in the arena.
  bool Share(PublishedCall& published) const {
    return (!reduces() || Offer(call().in, in_bytes_, &published.in)) &&
           (!gives() || Offer(call().out, out_bytes_, &published.out));
  }
  bool Offer(const void* data, size_t bytes, SegmentAddress* place) const {
    if (bytes == 0) return false;
    *place = shm_group().exporter().Offer(data, bytes, shm_group().others());
    return place->segment != 0;
  }

  absl::Status AllArrived() override {
    if (!begun_.ok()) return begun_;
    for (int peer = 0; peer < size(); ++peer) {
      absl::Status checked =
          CheckCopyMode(copy_mode(peer), std::max<size_t>(in_bytes_, 1),
                        /*small_bytes=*/0, peer);
      if (!checked.ok()) return checked;
      if (copy_mode(peer) == CopyMode::kStaged) staged_ |= MaskOf(peer);
    }
    // If ranks write to each other's memory, either all do or none.
    if (gives() && staged_ != 0)
      staged_ = shm_group().others() | MaskOf(rank());
    for (int peer = 0; peer < size(); ++peer) {
      if (absl::Status found = Find(peer); !found.ok()) return found;
    }
    part_bytes_ = shm_group().mine().shape().chunk_bytes / size();
    return MakeSchedule();
  }

  // Sets the addresses where this rank reads `peer`'s contribution, and writes
  // results for it, unless they are staged.
  absl::Status Find(int peer) {
    if (peer == rank()) {
      sources_[peer] = static_cast<const std::byte*>(call().in);
      return absl::OkStatus();
    }
    if (staged(peer)) return absl::OkStatus();
    const PublishedCall& published = slot(peer).published;
    SegmentImporter& importer = shm_group().importer(peer);
    if (reduces()) {
      auto source = importer.Resolve(published.in, in_bytes_);
      if (!source.ok()) return std::move(source).status();
      sources_[peer] = *source;
    }
    if (gives()) {
      auto target = importer.Resolve(published.out, out_bytes_);
      if (!target.ok()) return std::move(target).status();
      targets_[peer] = *target;
    }
    return absl::OkStatus();
  }

  absl::Status MakeSchedule() {
    if (!has_hosts()) {
      const size_t bytes = staged_ != 0 ? part_bytes_ : kStepBytes / 4;
      const size_t chunk = WholeRuns(bytes / element_);
      schedule_ = std::make_unique<LocalSchedule>(call(), size(), chunk);
      check_.Begin(ReduceSliceOf(call(), size(), rank()), chunk);
    }
    steps_ = schedule_->steps();
    if (!staged(rank())) put_ = steps_;
    if (steps_ < kChunksMax / 2) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        AbslView(Name(call().kind)), " of ", std::max(in_bytes_, out_bytes_),
        " bytes is more than can be numbered in chunks: use the arena, on one "
        "host"));
  }

  // Identical on all ranks, with or without checks.
  static size_t WholeRuns(size_t elements) {
    return elements > kernels::kSumRun ? elements - elements % kernels::kSumRun
                                       : elements;
  }

  // --- Running ---

  absl::StatusOr<AdvanceResult> Part() override {
    bool moved = Put();
    if (has_hosts()) {
      for (absl::StatusOr<bool> acted :
           {transfers().Compare(), ReduceOntoPartial(), Give()}) {
        if (!acted.ok()) return std::move(acted).status();
        moved |= *acted;
      }
    } else {
      moved |= ReduceToAll();
    }
    moved |= Take();
    if (given_ == steps_ && taken_ == steps_) {
      if (!has_hosts()) return AdvanceResult::kDone;
      absl::StatusOr<bool> done = transfers().Done();
      if (!done.ok()) return std::move(done).status();
      if (*done) return AdvanceResult::kDone;
    }
    return moved ? AdvanceResult::kMoved : AdvanceResult::kNothing;
  }

  bool Put() {
    if (!reduces() || put_ == steps_ || !MayPut(put_)) return false;
    for (int to = 0; to < size(); ++to) {
      const Chunk chunk = schedule_->ChunkOf(to, put_);
      if (to == rank() || chunk.count == 0) continue;
      kernels::Copy(Part(rank(), put_, to), In(chunk), Bytes(chunk));
    }
    Publish(&CollectiveSlot::staged, ++put_, staged_);
    return true;
  }

  // Whether all staged inputs of the next chunk have been put.
  bool HasInputs(const Chunk& chunk) {
    return chunk.count == 0 ||
           AllHave(&CollectiveSlot::staged, staged_, reduced_ + 1);
  }

  // On one host: reduces the next chunk, and writes the result where its
  // readers find it.
  bool ReduceToAll() {
    if (reduced_ == put_) return false;
    const Chunk chunk = Mine(reduced_);
    if (!HasInputs(chunk)) return false;
    FindInputs(chunk, reduced_);
    outs_.clear();
    outs_.push_back(Out(chunk));
    for (int reader = 0; reader < size(); ++reader) {
      if (targets_[reader] == nullptr) continue;
      outs_.push_back(targets_[reader] + OffsetFor(reader, chunk));
    }
    if (staged(rank()) && gives()) {
      outs_.push_back(Part(rank(), reduced_, rank()));
    }
    check_.Reduce({chunk.begin, chunk.count}, inputs_, outs_);
    if (++reduced_ == steps_) check_.End(Out({.begin = Mine(0).begin}));
    Gave();
    return true;
  }

  absl::StatusOr<bool> ReduceOntoPartial() {
    // At most kWindow ahead, so that no result is overwritten before it is
    // given.
    if (!reduces() || reduced_ == put_ ||
        reduced_ - given_ == RemoteTransfers::kWindow) {
      return false;
    }
    const Chunk chunk = Mine(reduced_);
    if (!HasInputs(chunk)) return false;
    if (chunk.count > 0) {
      absl::StatusOr<bool> can = transfers().CanReduce(reduced_);
      if (!can.ok() || !*can) return can;
      FindInputs(chunk, reduced_);
      absl::Status reduced = transfers().Reduce(inputs_, reduced_);
      if (!reduced.ok()) return reduced;
    }
    ++reduced_;
    return true;
  }

  void FindInputs(const Chunk& chunk, uint64_t step) {
    inputs_.clear();
    for (int from = 0; from < size(); ++from) {
      inputs_.push_back(staged(from) && from != rank()
                            ? Part(from, step, rank())
                            : sources_[from] + chunk.begin * element_);
    }
  }

  absl::StatusOr<bool> Give() {
    if (given_ == (reduces() ? reduced_ : steps_)) return false;
    const uint64_t step = given_;
    // The staging buffer for it must be free, too.
    if (!reduces() && staged_ != 0 && !MayPut(step)) return false;
    const Chunk chunk = Mine(step);
    if (chunk.count > 0 && chunk.reader != Chunk::kNobody) {
      absl::StatusOr<bool> has = transfers().HasResult(step);
      if (!has.ok() || !*has) return has;
      GiveChunk(chunk, step);
    }
    absl::Status passed = transfers().Forward(step);
    if (!passed.ok()) return passed;
    Gave();
    return true;
  }

  void GiveChunk(const Chunk& chunk, uint64_t step) {
    const std::byte* const from = transfers().Result(step);
    if (chunk.IsFor(rank()) && from != Out(chunk)) {
      kernels::Copy(Out(chunk), from, Bytes(chunk));
    }
    if (staged_ != 0) {
      if (chunk.reader != rank() && size() > 1) {
        kernels::Copy(Part(rank(), step, rank()), from, Bytes(chunk));
      }
      return;
    }
    for (int reader = 0; reader < size(); ++reader) {
      if (reader == rank() || !chunk.IsFor(reader)) continue;
      kernels::Copy(targets_[reader] + OffsetFor(reader, chunk), from,
                    Bytes(chunk));
    }
  }

  // Called after the step's chunk is where its readers find it.
  void Gave() {
    ++given_;
    if (gives() && staged_ != 0) {
      return Publish(&CollectiveSlot::reduced, given_, shm_group().others());
    }
    taken_ = given_;  // there is nothing to take
    if (staged_ != 0)
      Publish(&CollectiveSlot::taken, taken_, shm_group().others());
  }

  bool Take() {
    if (taken_ == given_ ||
        !AllHave(&CollectiveSlot::reduced, shm_group().others(), taken_ + 1)) {
      return false;
    }
    for (int from = 0; from < size(); ++from) {
      const Chunk chunk = schedule_->ChunkOf(from, taken_);
      if (from == rank() || !chunk.IsFor(rank())) continue;
      kernels::Copy(Out(chunk), Part(from, taken_, from), Bytes(chunk));
    }
    Publish(&CollectiveSlot::taken, ++taken_, shm_group().others());
    return true;
  }

  // Outlives remote_, whose transfers use it.
  std::unique_ptr<const ChunkSchedule> schedule_;
  std::optional<RemotePart> remote_;  // none: the ShmGroup is the whole group
  const size_t element_;
  const size_t in_bytes_;
  const size_t out_bytes_;
  absl::Status begun_;
  ReduceCheck check_;

  RankMask staged_ = 0;
  size_t part_bytes_ = 0;
  EachRank<const std::byte*> sources_;  // by index: address of its `in`
  EachRank<std::byte*> targets_;        // by index: address of its `out`
  EachRank<const void*> inputs_;        // of the chunk being reduced
  EachRank<void*> outs_;
  uint64_t steps_ = 0;
  uint64_t put_ = 0;
  uint64_t reduced_ = 0;
  uint64_t given_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveTask> MakeLocalReduction(const CollectiveOp& call,
                                                   ShmGroup& shm_group) {
  return std::make_unique<ChunkedCollective>(call, shm_group, std::nullopt);
}

std::unique_ptr<CollectiveTask> MakeChunkedCollective(const CollectiveOp& call,
                                                      ShmGroup& shm_group,
                                                      RemotePart remote) {
  return std::make_unique<ChunkedCollective>(call, shm_group,
                                             std::move(remote));
}

}  // namespace lockstep::transport
