#include "client/transport/hierarchical/course.h"

#include <algorithm>

namespace lockstep::transport {
namespace {

constexpr size_t kLine = 64;             // of a cache, bytes
constexpr size_t kLeastBytes = 8 << 10;  // a message that pays
constexpr size_t kPiecesOfLine = 4;      // pieces of a line, if it can be

size_t Pieces(size_t total, size_t piece) {
  return (total + piece - 1) / piece;
}

// Several pieces to a line, so that they overlap; in whole cache lines.
size_t PieceElements(const Call& call, size_t total, int lines,
                     size_t piece_bytes) {
  const size_t element = SizeOf(call.dtype);
  const size_t even = total * element / (kPiecesOfLine * lines);
  const size_t bytes = std::clamp(
      even / kLine * kLine, std::min(kLeastBytes, piece_bytes), piece_bytes);
  return bytes / element;
}

Piece Cut(size_t begin, size_t total, size_t piece, uint64_t number) {
  const size_t at = number * piece;
  if (at >= total) return {};
  return {begin + at, std::min(piece, total - at)};
}

// What the kinds have in common.
class Base : public Course {
 protected:
  Base(const Call& call, const Placement& placement, int rank, size_t total,
       int lines, size_t piece_bytes)
      : placement_(placement),
        rank_(rank),
        total_(total),
        piece_(PieceElements(call, total, lines, piece_bytes)),
        pieces_(Pieces(total, piece_)) {}

  int host() const { return placement_.host(rank_); }
  int index() const { return placement_.index(rank_); }
  int hosts() const { return placement_.hosts(); }
  uint64_t lines() const { return placement_.lines(); }
  int last() const { return hosts() - 1; }
  int here() const {
    return static_cast<int>(placement_.members(host()).size());
  }
  bool in_line() const { return index() < placement_.lines(); }
  // The rank of this rank's line on `host`.
  int Mate(int host) const { return placement_.members(host)[index()]; }

  const Placement& placement_;
  const int rank_;
  const size_t total_;  // elements that are cut
  const size_t piece_;
  const size_t pieces_;
};

class Reduction : public Base {
 public:
  using Base::Base;
  int carry_from() const override {
    return in_line() && host() > 0 ? Mate(host() - 1) : -1;
  }
  int carry_to() const override {
    return in_line() && host() < last() ? Mate(host() + 1) : -1;
  }
};

class AllReduceCourse final : public Reduction {
 public:
  AllReduceCourse(const Call& call, const Placement& placement, int rank,
                  size_t piece_bytes)
      : Reduction(call, placement, rank, call.count, placement.lines(),
                  piece_bytes) {}

  uint64_t steps() const override { return Pieces(pieces_, lines()); }
  Piece PieceOf(int index, uint64_t step) const override {
    if (index >= placement_.lines()) return {};
    return Cut(0, total_, piece_, step * lines() + index);
  }
  int ResultFrom(uint64_t) const override { return carry_to(); }
  std::vector<int> ResultTo(uint64_t) const override {
    return carry_from() < 0 ? std::vector<int>() : std::vector{carry_from()};
  }
  std::vector<int> givers() const override {
    std::vector<int> both = ResultTo(0);
    if (carry_to() >= 0) both.push_back(carry_to());
    return both;
  }
  std::vector<int> takers() const override { return givers(); }
};

// Piece k of every block whose reader's index belongs to the line, then piece
// k + 1.
class ReduceScatterCourse final : public Reduction {
 public:
  ReduceScatterCourse(const Call& call, const Placement& placement, int rank,
                      size_t piece_bytes)
      : Reduction(call, placement, rank, call.count, 1, piece_bytes),
        blocks_(lines()) {
    for (int reader = 0; reader < placement.ranks(); ++reader) {
      blocks_[placement.index(reader) % lines()].push_back(reader);
    }
  }

  uint64_t steps() const override {
    size_t most = 0;
    for (const auto& blocks : blocks_) most = std::max(most, blocks.size());
    return pieces_ * most;
  }
  Piece PieceOf(int index, uint64_t step) const override {
    if (index >= placement_.lines()) return {};
    const std::vector<int>& blocks = blocks_[index];
    const int reader = blocks[step % blocks.size()];
    Piece piece = Cut(reader * total_, total_, piece_, step / blocks.size());
    piece.reader = placement_.host(reader) == host() ? placement_.index(reader)
                                                     : Piece::kNobody;
    return piece;
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
  // Carries from host to host, results from the last.
  std::vector<int> givers() const override {
    std::vector<int> ranks;
    if (carry_from() >= 0) ranks.push_back(carry_from());
    if (in_line() && host() != last()) ranks.push_back(Mate(last()));
    return ranks;
  }
  std::vector<int> takers() const override {
    std::vector<int> ranks;
    if (carry_to() >= 0) ranks.push_back(carry_to());
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

  std::vector<std::vector<int>> blocks_;  // by line: whose
};

// A rank's own block, then those that it fetches for its host.
class AllGatherCourse final : public Base {
 public:
  AllGatherCourse(const Call& call, const Placement& placement, int rank,
                  size_t piece_bytes)
      : Base(call, placement, rank, call.count, 1, piece_bytes),
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
    return pieces_ * most;
  }
  Piece PieceOf(int index, uint64_t step) const override {
    if (step >= pieces_ * blocks_[index].size()) return {};
    const int owner = blocks_[index][step / pieces_];
    return Cut(owner * total_, total_, piece_, step % pieces_);
  }
  int ResultFrom(uint64_t step) const override {
    return step < pieces_ ? -1 : blocks_[index()][step / pieces_];
  }
  std::vector<int> ResultTo(uint64_t step) const override {
    return step < pieces_ ? takers() : std::vector<int>();
  }
  uint64_t Message(uint64_t step) const override { return step % pieces_; }
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
  std::vector<std::vector<int>> blocks_;  // by index on this host: whose
};

class BroadcastCourse final : public Base {
 public:
  BroadcastCourse(const Call& call, const Placement& placement, int rank,
                  size_t piece_bytes)
      : Base(call, placement, rank, call.count, placement.lines(), piece_bytes),
        root_(call.peer) {}

  uint64_t steps() const override {
    return at_root() ? pieces_ : Pieces(pieces_, lines());
  }
  Piece PieceOf(int index, uint64_t step) const override {
    if (at_root()) {
      return index == placement_.index(root_) ? Cut(0, total_, piece_, step)
                                              : Piece{};
    }
    if (index >= placement_.lines()) return {};
    return Cut(0, total_, piece_, step * lines() + index);
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

std::unique_ptr<Course> MakeCourse(const Call& call, const Placement& placement,
                                   int rank, size_t piece_bytes) {
  switch (call.kind) {
    case CallKind::kAllReduce:
      return std::make_unique<AllReduceCourse>(call, placement, rank,
                                               piece_bytes);
    case CallKind::kReduceScatter:
      return std::make_unique<ReduceScatterCourse>(call, placement, rank,
                                                   piece_bytes);
    case CallKind::kAllGather:
      return std::make_unique<AllGatherCourse>(call, placement, rank,
                                               piece_bytes);
    default:
      return std::make_unique<BroadcastCourse>(call, placement, rank,
                                               piece_bytes);
  }
}

}  // namespace lockstep::transport
