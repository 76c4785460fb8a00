// The processes of a job, as threads of a test: what a transport's tests run
// over, whichever it is.

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

// The processes of a job, as far as the transport can tell.
class World {
 public:
  virtual ~World() = default;
  // The transport of process `rank`. Called from one thread.
  virtual transport::Transport& at(int rank) = 0;
  // A stream of process `rank` that its communicators take. From any thread.
  virtual std::unique_ptr<Stream> MakeStream(int rank, const std::string& name);
  // Work of the caller's own on such a stream. From any thread.
  virtual void Enqueue(Stream& stream, std::function<void()> work);
};

// The communicators of one group, in rank order. All have OK status, or the
// test fails and the vector is empty.
std::vector<std::unique_ptr<Communicator>> Connect(World& world, int size,
                                                   const std::string& name);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_WORLD_H_
