#include "client/transport/hierarchical/hierarchical_schedule.h"

#include <algorithm>

namespace lockstep::transport {
namespace {

constexpr size_t kLine = 64;              // a cache line, in bytes
constexpr size_t kLeastBytes = 64 << 10;  // the smallest efficient message
constexpr size_t kChunksOfLine = 2;       // chunks per line, if large enough

size_t Chunks(size_t total, size_t chunk) {
  return (total + chunk - 1) / chunk;
}

// Several chunks per line, so that they overlap; in whole cache lines.
size_t ChunkElements(const CollectiveOp& call, size_t total, int lines,
                     size_t chunk_bytes) {
  const size_t element = SizeOf(call.dtype);
  const size_t even = total * element / (kChunksOfLine * lines);
  const size_t bytes = std::clamp(
      even / kLine * kLine, std::min(kLeastBytes, chunk_bytes), chunk_bytes);
  return bytes / element;
}

Chunk Cut(size_t begin, size_t total, size_t chunk, uint64_t number) {
  const size_t at = number * chunk;
  if (at >= total) return {};
  return {begin + at, std::min(chunk, total - at)};
}

// The base of all schedules.
class Base : public ChunkSchedule {
 protected:
  Base(const CollectiveOp& call, const Placement& placement, int rank,
       size_t total, int lines, size_t chunk_bytes)
      : placement_(placement),
        rank_(rank),
        total_(total),
        chunk_(ChunkElements(call, total, lines, chunk_bytes)),
        chunks_(Chunks(total, chunk_)) {}

  int host() const { return placement_.host(rank_); }
  int index() const { return placement_.index(rank_); }
  int hosts() const { return placement_.hosts(); }
  uint64_t lines() const { return placement_.lines(); }
  int last() const { return hosts() - 1; }
  int here() const {
    return static_cast<int>(placement_.members(host()).size());
  }
  bool in_line() const { return index() < placement_.lines(); }
  // The rank on `host` in this rank's line.
  int Mate(int host) const { return placement_.members(host)[index()]; }

  const Placement& placement_;
  const int rank_;
  const size_t total_;  // elements to divide
  const size_t chunk_;
  const size_t chunks_;
};

class Reduction : public Base {
 public:
  using Base::Base;
  int partial_from() const override {
    return in_line() && host() > 0 ? Mate(host() - 1) : -1;
  }
  int partial_to() const override {
    return in_line() && host() < last() ? Mate(host() + 1) : -1;
  }
};

class AllReduceSchedule final : public Reduction {
 public:
  AllReduceSchedule(const CollectiveOp& call, const Placement& placement,
                    int rank, size_t chunk_bytes)
      : Reduction(call, placement, rank, call.count, placement.lines(),
                  chunk_bytes) {}

  uint64_t steps() const override { return Chunks(chunks_, lines()); }
  Chunk ChunkOf(int index, uint64_t step) const override {
    if (index >= placement_.lines()) return {};
    return Cut(0, total_, chunk_, step * lines() + index);
  }
  int ResultFrom(uint64_t) const override { return partial_to(); }
  std::vector<int> ResultTo(uint64_t) const override {
    return partial_from() < 0 ? std::vector<int>()
                              : std::vector{partial_from()};
  }
  std::vector<int> givers() const override {
    std::vector<int> both = ResultTo(0);
    if (partial_to() >= 0) both.push_back(partial_to());
    return both;
  }
  std::vector<int> takers() const override { return givers(); }
};

// A line has the blocks of the readers whose index modulo lines() is its own:
// chunk k of every block, then chunk k + 1.
class ReduceScatterSchedule final : public Reduction {
 public:
  ReduceScatterSchedule(const CollectiveOp& call, const Placement& placement,
                        int rank, size_t chunk_bytes)
      : Reduction(call, placement, rank, call.count, 1, chunk_bytes),
        blocks_(lines()) {
    for (int reader = 0; reader < placement.ranks(); ++reader) {
      blocks_[placement.index(reader) % lines()].push_back(reader);
    }
  }

  uint64_t steps() const override {
    size_t most = 0;
    for (const auto& blocks : blocks_) most = std::max(most, blocks.size());
    return chunks_ * most;
  }
  Chunk ChunkOf(int index, uint64_t step) const override {
    if (index >= placement_.lines()) return {};
    const std::vector<int>& blocks = blocks_[index];
    const int reader = blocks[step % blocks.size()];
    Chunk chunk = Cut(reader * total_, total_, chunk_, step / blocks.size());
    chunk.reader = placement_.host(reader) == host() ? placement_.index(reader)
                                                     : Chunk::kNobody;
    return chunk;
  }
  int ResultFrom(uint64_t step) const override {
    const bool here = HostOfReader(step) == host();
    return here && host() != last() ? Mate(last()) : -1;
  }
  std::vector<int> ResultTo(uint64_t step) const override {
    const int there = HostOfReader(step);
    if (host() != last() || there == last()) return {};
    return {Mate(there)};
  }
  // Partial sums from the host before, results from the last host.
  std::vector<int> givers() const override {
    std::vector<int> ranks;
    if (partial_from() >= 0) ranks.push_back(partial_from());
    if (in_line() && host() != last()) ranks.push_back(Mate(last()));
    return ranks;
  }
  std::vector<int> takers() const override {
    std::vector<int> ranks;
    if (partial_to() >= 0) ranks.push_back(partial_to());
    for (int there = 0; in_line() && host() == last() && there < last();
         ++there) {
      ranks.push_back(Mate(there));
    }
    return ranks;
  }

 private:
  int HostOfReader(uint64_t step) const {
    const std::vector<int>& blocks = blocks_[index()];
    return placement_.host(blocks[step % blocks.size()]);
  }

  std::vector<std::vector<int>> blocks_;  // by line: the readers
};

// A rank's own block, then the blocks that it receives for its host.
class AllGatherSchedule final : public Base {
 public:
  AllGatherSchedule(const CollectiveOp& call, const Placement& placement,
                    int rank, size_t chunk_bytes)
      : Base(call, placement, rank, call.count, 1, chunk_bytes),
        blocks_(here()) {
    for (int index = 0; index < here(); ++index) {
      blocks_[index].push_back(placement.members(host())[index]);
    }
    for (int step = 1; step < hosts(); ++step) {
      for (int owner : placement.members((host() + step) % hosts())) {
        blocks_[placement.index(owner) % here()].push_back(owner);
      }
    }
  }

  uint64_t steps() const override {
    size_t most = 0;
    for (const auto& blocks : blocks_) most = std::max(most, blocks.size());
    return chunks_ * most;
  }
  Chunk ChunkOf(int index, uint64_t step) const override {
    if (step >= chunks_ * blocks_[index].size()) return {};
    const int owner = blocks_[index][step / chunks_];
    return Cut(owner * total_, total_, chunk_, step % chunks_);
  }
  int ResultFrom(uint64_t step) const override {
    return step < chunks_ ? -1 : blocks_[index()][step / chunks_];
  }
  std::vector<int> ResultTo(uint64_t step) const override {
    return step < chunks_ ? takers() : std::vector<int>();
  }
  uint64_t Message(uint64_t step) const override { return step % chunks_; }
  std::vector<int> givers() const override {
    return {blocks_[index()].begin() + 1, blocks_[index()].end()};
  }
  std::vector<int> takers() const override {
    std::vector<int> ranks;
    for (int there = 0; there < hosts(); ++there) {
      if (there == host()) continue;
      const std::vector<int>& members = placement_.members(there);
      ranks.push_back(members[index() % members.size()]);
    }
    return ranks;
  }

 private:
  std::vector<std::vector<int>> blocks_;  // by index on this host: the owners
};

class BroadcastSchedule final : public Base {
 public:
  BroadcastSchedule(const CollectiveOp& call, const Placement& placement,
                    int rank, size_t chunk_bytes)
      : Base(call, placement, rank, call.count, placement.lines(), chunk_bytes),
        root_(call.peer) {}

  uint64_t steps() const override {
    return at_root() ? chunks_ : Chunks(chunks_, lines());
  }
  Chunk ChunkOf(int index, uint64_t step) const override {
    if (at_root()) {
      return index == placement_.index(root_) ? Cut(0, total_, chunk_, step)
                                              : Chunk{};
    }
    if (index >= placement_.lines()) return {};
    return Cut(0, total_, chunk_, step * lines() + index);
  }
  int ResultFrom(uint64_t) const override {
    if (at_root()) return -1;
    const int before = (host() + hosts() - 1) % hosts();
    return before == placement_.host(root_) ? root_ : Mate(before);
  }
  std::vector<int> ResultTo(uint64_t step) const override {
    const int next = (host() + 1) % hosts();
    if (next == placement_.host(root_)) return {};
    return {at_root() ? placement_.members(next)[step % lines()] : Mate(next)};
  }
  uint64_t Message(uint64_t step) const override {
    return at_root() ? step : step * lines() + index();
  }
  std::vector<int> givers() const override {
    return at_root() || !in_line() ? std::vector<int>()
                                   : std::vector{ResultFrom(0)};
  }
  std::vector<int> takers() const override {
    if (at_root() ? rank_ != root_ : !in_line()) return {};
    std::vector<int> ranks;
    const uint64_t lines_out = at_root() ? lines() : 1;
    for (uint64_t line = 0; line < lines_out; ++line) {
      for (int taker : ResultTo(line)) ranks.push_back(taker);
    }
    return ranks;
  }

 private:
  bool at_root() const { return host() == placement_.host(root_); }

  const int root_;
};

}  // namespace

std::unique_ptr<const ChunkSchedule> MakeHierarchicalSchedule(
    const CollectiveOp& call, const Placement& placement, int rank,
    size_t chunk_bytes) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return std::make_unique<AllReduceSchedule>(call, placement, rank,
                                                 chunk_bytes);
    case CollectiveKind::kReduceScatter:
      return std::make_unique<ReduceScatterSchedule>(call, placement, rank,
                                                     chunk_bytes);
    case CollectiveKind::kAllGather:
      return std::make_unique<AllGatherSchedule>(call, placement, rank,
                                                 chunk_bytes);
    default:
      return std::make_unique<BroadcastSchedule>(call, placement, rank,
                                                 chunk_bytes);
  }
}

}  // namespace lockstep::transport
