// Assigns the chunks of a collective to ranks and steps. Deterministic:
// identical on all ranks.
//
// On each host a chunk has one giver, at one of the giver's steps. The giver
// reduces the chunk, receives it from another host, or owns it, and gives it to
// all its readers on the host.
//
//            step 0     step 1     step 2
//   index 0  [chunk]    [chunk]    [chunk]
//   index 1  [chunk]    [chunk]    (empty)

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_CHUNK_SCHEDULE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_CHUNK_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::transport {

struct Chunk {
  static constexpr int kAll = -1;
  static constexpr int kNobody = -2;

  // In elements of the reduced input, or else of the output.
  size_t begin = 0;
  size_t count = 0;
  // The index of its only reader on this host, or one of the above.
  int reader = kAll;

  bool IsFor(int index) const {
    return count > 0 && (reader == kAll || reader == index);
  }
};

class ChunkSchedule {
 public:
  virtual ~ChunkSchedule() = default;

  // The maximum number of steps of the ranks on this host.
  virtual uint64_t steps() const = 0;
  // The chunk of rank `index` on this host; empty after its last step.
  virtual Chunk ChunkOf(int index, uint64_t step) const = 0;

  // --- Between hosts: for this rank's chunks that are not empty ---

  // The rank from which this rank receives a partial sum, and the rank to which
  // it sends its own; -1: none.
  virtual int partial_from() const { return -1; }
  virtual int partial_to() const { return -1; }
  // The rank that sends the result; -1: this rank makes it.
  virtual int ResultFrom(uint64_t) const { return -1; }
  virtual std::vector<int> ResultTo(uint64_t) const { return {}; }
  // The number of the result's message, for its tag.
  virtual uint64_t Message(uint64_t step) const { return step; }

  // All ranks of other hosts from which this rank receives, and to which it
  // sends.
  virtual std::vector<int> givers() const { return {}; }
  virtual std::vector<int> takers() const { return {}; }
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_CHUNK_SCHEDULE_H_
