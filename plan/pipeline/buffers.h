// Assigns a buffer to each message of a pipeline, on both sides.
//
//   received  as few buffers as possible without making a sender wait: the next
//             message uses the buffer that has been free for longest, if it was
//             free before the message is sent. A buffer freed at the same time
//             is not used: it would be late if sending takes time.
//   sent      two buffers per type and direction, used alternately, so that one
//             is sent while the next is computed
//
// ir.h defines how long a message uses its buffer.

#ifndef LOCKSTEP_PLAN_PIPELINE_BUFFERS_H_
#define LOCKSTEP_PLAN_PIPELINE_BUFFERS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plan/pipeline/flow.h"

namespace lockstep::plan {

// The task after which a receiver's buffer is free, and the time when it ends.
struct Release {
  int task = -1;
  int64_t at = 0;
};

class BufferPools {
 public:
  // Assigns buffers to every part of the message. Call it in the order of the
  // flow; `number` is the index of the message.
  void Place(Message& message, int number, const Release& release);

 private:
  // Interchangeable buffers: equal rank, direction (sent or received), kind
  // (activation or gradient) and type.
  using Class = std::tuple<int, bool, bool, std::string>;

  struct Received {
    int buffer;
    Release release;
  };
  struct Sent {
    int buffer;
    int message;
  };

  void PlaceSent(const Message& message, int number, MessagePart& part);
  void PlaceReceived(const Message& message, const Release& release,
                     MessagePart& part);

  std::map<int, int> buffers_;  // number of buffers of each rank
  std::map<Class, std::vector<Received>> received_;
  std::map<Class, std::deque<Sent>> sent_;  // the oldest first
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_BUFFERS_H_
