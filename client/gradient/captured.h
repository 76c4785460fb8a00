// A step as CUDA graphs: the state that all its launches share.
//
//   captured   body: [backward] Submit ... FinishAsync [update]
//   launched   [backward][pack][all-reduce] ... [record][all-gather][gate]
//              [update]
//
// The graph has no part of the host: what changes from step to step is sealed
// before each launch (step_gate.h), and what the device decides is in the
// journal after it.
//
// With steps in flight each graph has a second one without the body, for the
// steps behind one that ran out of data: an operation of NCCL is in a graph on
// all ranks or on none.
//
// Threads: captured by the caller's thread and the comm queue's.

#ifndef LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_
#define LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/gradient/pending.h"
#include "client/transport/device_context.h"
#include "kernels/step_gate.h"
#include "lockstep/stream.h"
#include "lockstep/verdict.h"
#include "protocol/ids.h"

namespace lockstep::gradient {

struct Captured {
  // One graph for each step in flight: each has buckets of its own.
  struct Part {
    // Where the update reads them; the engine's, so that the destruction of a
    // step in progress frees no memory, which would wait for the device.
    VerdictScalars* scalars = nullptr;
    std::unique_ptr<transport::DeviceContext::Graph> graph;
    std::unique_ptr<transport::DeviceContext::Graph> void_graph;
    bool finished = false;  // FinishAsync was captured
    std::vector<int> completed;
    // The event on the queue's stream after which the scalars are written.
    std::promise<absl::StatusOr<Event>> verdict_captured;
  };
  Part& capturing() { return parts[part]; }

  // --- Fixed after the capture ---
  Revision revision;  // the revision whose buckets the graphs use
  double max_norm = 0;
  std::vector<int> completed;  // parameters, in the order of their Submits
  std::vector<bool> gave;      // by parameter
  std::vector<Part> parts;     // by LayoutVersions::turn
  std::unique_ptr<Stream> void_stream;
  // What the records of a graph of the program say.
  std::optional<kernels::GateContext> replay;

  // --- During the capture ---
  size_t part = 0;
  absl::Status error;  // the first of a call that is a part; under the engine's
                       // lock
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_
