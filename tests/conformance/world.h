// The processes of a job, as threads of a test, over any transport.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_WORLD_H_
#define LOCKSTEP_TESTS_CONFORMANCE_WORLD_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/transport/transport.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::conformance {

// The processes of a job, from the transport's point of view.
class World {
 public:
  virtual ~World() = default;
  // The transport of process `rank`. Called from one thread.
  virtual transport::Transport& at(int rank) = 0;
  // A stream of process `rank` that its communicators accept. Any thread may
  // call it.
  virtual std::unique_ptr<Stream> MakeStream(int rank, const std::string& name);
  // Enqueues work of the test on such a stream. Any thread may call it.
  virtual void Enqueue(Stream& stream, std::function<void()> work);
};

// Connects one group and returns its communicators in rank order. If a status
// is not OK, the test fails and the vector is empty.
std::vector<std::unique_ptr<Communicator>> Connect(World& world, int size,
                                                   const std::string& name);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_WORLD_H_
