// Who moves what in a collective over several hosts: pure, and the same thought
// on all ranks.
//
// A collective is cut in pieces. On its host each piece has one giver, at one
// step of that giver's; it comes from another host, or is the giver's own, and
// is given to all readers on the host.
//
//   AllReduce, ReduceScatter    a line of ranks, one on each host, has every
//                               so manieth piece
//
//     host 0  fold ──carry──▶ host 1  fold ──carry──▶ host 2  fold: result
//             give ◀─result──         give ◀─result──         give
//
//     (ReduceScatter: the last host sends a result straight to its one reader's
//     host)
//
//   Broadcast    root ──▶ its host; and along the lines ──▶ host ──▶ host
//   AllGather    each rank ──▶ its host; ──▶ one rank of every other ──▶ its
//                host
//
// A step of a rank waits only for steps with no higher number of others, and
// carries go up where results come down: so it cannot deadlock.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_COURSE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_COURSE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/transport/call.h"
#include "client/transport/hierarchical/placement.h"

namespace lockstep::transport {

struct Piece {
  static constexpr int kAll = -1;
  static constexpr int kNobody = -2;

  // Elements: of what is reduced, or of what all have in the end.
  size_t begin = 0;
  size_t count = 0;
  // Who of this host gets it, an index.
  int reader = kAll;
};

class Course {
 public:
  virtual ~Course() = default;

  // Of the ranks of this host, the longest.
  virtual uint64_t steps() const = 0;
  // Of the rank of this host with `index`; empty beyond its end.
  virtual Piece PieceOf(int index, uint64_t step) const = 0;

  // --- Of this rank's pieces, where they are not empty ---

  // Whose carry it folds onto, and to whom its own carry goes; -1: nobody's.
  virtual int carry_from() const { return -1; }
  virtual int carry_to() const { return -1; }
  // Where the result comes from; -1: it is this rank's own.
  virtual int ResultFrom(uint64_t step) const = 0;
  virtual std::vector<int> ResultTo(uint64_t step) const = 0;
  // What number the result's message has between two ranks.
  virtual uint64_t Message(uint64_t step) const { return step; }

  // All ranks of other hosts that give it anything, or get.
  virtual std::vector<int> givers() const = 0;
  virtual std::vector<int> takers() const = 0;
};

// For `rank`. `call` is an AllReduce, a ReduceScatter, an AllGather or a
// Broadcast; pieces are of at most `piece_bytes`.
std::unique_ptr<Course> MakeCourse(const Call& call, const Placement& placement,
                                   int rank, size_t piece_bytes);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_COURSE_H_
