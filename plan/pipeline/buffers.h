// Which buffer each message of a pipeline lies in, on both sides.
//
//   received  as few as keep every sender from waiting: the next message takes
//             the buffer that has been free for longest, if it was free before
//             the message is sent. One that is freed at that very moment would
//             be free too late if sending takes time.
//   sent      two of a type and direction in turn, so that one is sent while
//             the next is computed
//
// ir.h says how long a message holds its buffer.

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

// The task after which a receiver's buffer is free, and the moment of its end.
struct Release {
  int task = -1;
  int64_t at = 0;
};

class BufferPools {
 public:
  // Gives every part of the message its buffers. Messages come in the order of
  // the flow, `number` counts them.
  void Place(Message& message, int number, const Release& release);

 private:
  // Buffers that can stand for each other: rank, sent or received, activation
  // or gradient, type.
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

  std::map<int, int> buffers_;  // of each rank
  std::map<Class, std::vector<Received>> received_;
  std::map<Class, std::deque<Sent>> sent_;  // the oldest first
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_BUFFERS_H_
