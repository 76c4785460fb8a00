// CUDA graphs: a part of a step, captured once and launched many times.
//
//   auto graph = Capture(*transport, stream, [&] {
//     backward(stream);                              // the caller's kernels
//     return gradients->AllReduce(..., stream);      // this transport's
//   });
//   for (;;) { (*graph)->Launch(stream); ... }
//
//   capture  stream         [backward]──┐                 ┌──[update]
//            communicator's             └─[all-reduce]────┘      nothing runs
//
//   launch   one operation of the launch order (launcher.h): it begins at its
//            position, and the next operation begins after it has ended
//
// A graph keeps its communicators alive: NCCL does not destroy one, not even by
// an abort, while a graph that uses it exists. So graphs belong to the
// transport, which destroys them before their communicators; a Graph is then
// empty, and Launch returns why. For the same reason operations in a capture
// that other code began are refused, unless that has joined (Launcher::
// JoinCapture): then the program destroys the graph, CUDA tells when it has,
// and the communicators are freed after that.
//
// The graph contains what the body enqueued: these buffers, these lists, these
// communicators. When buckets move (a new revision), capture again.
//
// Threads: Capture and Launch as the calls of the stream; one capture at a time
//          in a transport. Operations of other threads on communicators that
//          take part in it wait for its end, as does the release of what an
//          abort ends: the body must not wait for the device.
// Errors:  of Capture: errors of the body or the communicators;
//          FailedPrecondition during another capture; InvalidArgument for a
//          transport that is not NCCL; Internal for what CUDA cannot capture
//          (such as work on another stream that was not joined again).

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
class CaptureState;

class LaunchableGraph {
 public:
  LaunchableGraph(std::shared_ptr<Launcher> launcher,
                  std::shared_ptr<CaptureState> captured)
      : launcher_(std::move(launcher)), captured_(std::move(captured)) {}
  // Destroys the graph; a running launch continues.
  ~LaunchableGraph();
  LaunchableGraph(const LaunchableGraph&) = delete;
  LaunchableGraph& operator=(const LaunchableGraph&) = delete;

  // Enqueues the graph on `stream`, as an operation of a communicator, and
  // returns the event behind it, which may be one that could not be recorded.
  // An error: nothing was enqueued. All errors are reported on the stream, too.
  absl::StatusOr<Event> Launch(CudaStream& stream);

 private:
  const std::shared_ptr<Launcher> launcher_;
  const std::shared_ptr<CaptureState> captured_;
};

// Captures the work that `body` enqueues on `stream`, and on streams that are
// forked from it and joined again. None of it runs.
absl::StatusOr<std::unique_ptr<LaunchableGraph>> Capture(
    const Transport& transport, CudaStream& stream,
    absl::FunctionRef<absl::Status()> body);
absl::StatusOr<std::unique_ptr<LaunchableGraph>> Capture(
    const std::shared_ptr<Launcher>& launcher, CudaStream& stream,
    absl::FunctionRef<absl::Status()> body);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_GRAPH_H_
