// Which rank moves what in a collective that is cut in chunks. Deterministic:
// identical on all ranks.
//
// On its host each chunk has one giver, at one step of that giver's. The chunk
// is reduced there, arrives there from another host, or is the giver's own, and
// is given to all its readers on the host.
//
//            step 0     step 1     step 2
//   index 0  [chunk]    [chunk]    [chunk]
//   index 1  [chunk]    [chunk]    (empty)

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_SCHEDULE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::transport {

struct Chunk {
  static constexpr int kAll = -1;
  static constexpr int kNobody = -2;

  // Elements: of what is reduced, or of what all have in the end.
  size_t begin = 0;
  size_t count = 0;
  // The index of its one reader on this host, or one of the above.
  int reader = kAll;

  bool IsFor(int index) const {
    return count > 0 && (reader == kAll || reader == index);
  }
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  // The most steps of any rank of this host.
  virtual uint64_t steps() const = 0;
  // The chunk of the rank of this host with `index`; empty beyond its end.
  virtual Chunk ChunkOf(int index, uint64_t step) const = 0;

  // --- Between hosts: about this rank's chunks that are not empty ---

  // The rank whose partial sum it reduces onto, and the rank that receives its
  // own; -1: none.
  virtual int partial_from() const { return -1; }
  virtual int partial_to() const { return -1; }
  // The rank that sends the result; -1: it is this rank's own.
  virtual int ResultFrom(uint64_t) const { return -1; }
  virtual std::vector<int> ResultTo(uint64_t) const { return {}; }
  // The number of the result's message between two ranks.
  virtual uint64_t Message(uint64_t step) const { return step; }

  // All ranks of other hosts that send it anything, and that it sends to.
  virtual std::vector<int> givers() const { return {}; }
  virtual std::vector<int> takers() const { return {}; }
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_SCHEDULE_H_
