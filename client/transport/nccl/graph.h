// CUDA graphs: a piece of a step, captured once and launched again and again.
//
//   auto graph = Capture(*transport, stream, [&] {
//     backward(stream);                              // the caller's kernels
//     return gradients->AllReduce(..., stream);      // this transport's
//   });
//   for (;;) { (*graph)->Launch(stream); ... }
//
//   capture  stream     [backward]──┐                 ┌──[update]
//            member's               └─[all-reduce]────┘      nothing runs
//
//   launch   one operation of the launch order (launcher.h): it begins when it
//            is its turn, and what is posted behind it begins when it has ended
//
// A graph holds its communicators: NCCL does not end one, by an abort neither,
// while a graph that uses it lives. So graphs belong to the transport, which
// destroys them before it ends their communicators; a Graph is then an empty
// shell, and Launch says why. That is also why a capture that somebody else
// began is refused: nobody could destroy that graph in time.
//
// What is captured is what the body enqueued: these buffers, these lists, these
// communicators. When buckets move (a new revision), capture anew.
//
// Threads: Capture and Launch as the calls of the stream; one capture at a time
//          in a transport. While it lasts, communicators that take part in it
//          start nothing else, and an abort waits for its end: the body must
//          not wait for the device.
// Errors:  of Capture: what the body returned or the communicators met;
//          FailedPrecondition while another one lasts; InvalidArgument for a
//          transport that is not NCCL; Internal for what CUDA cannot capture
//          (work of another stream that was not joined again, say).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_GRAPH_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_GRAPH_H_

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

class Launcher;
struct CaptureState;

class Graph {
 public:
  Graph(std::shared_ptr<Launcher> launcher,
        std::shared_ptr<CaptureState> captured)
      : launcher_(std::move(launcher)), captured_(std::move(captured)) {}
  // Destroys it; a launch that runs goes on.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Enqueues it on `stream`, as an operation of a communicator. Its error is
  // the stream's.
  void Launch(CudaStream& stream);

 private:
  const std::shared_ptr<Launcher> launcher_;
  const std::shared_ptr<CaptureState> captured_;
};

// Captures what `body` enqueues on `stream`, and on streams that wait for it
// and that it waits for again. Nothing of it runs.
absl::StatusOr<std::unique_ptr<Graph>> Capture(
    const Transport& transport, CudaStream& stream,
    absl::FunctionRef<absl::Status()> body);
absl::StatusOr<std::unique_ptr<Graph>> Capture(
    const std::shared_ptr<Launcher>& launcher, CudaStream& stream,
    absl::FunctionRef<absl::Status()> body);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_GRAPH_H_
