// A step as a CUDA graph: the state that all its launches share, and the state
// of the current launch.
//
//   captured   body: [backward] Submit ... FinishAsync [update]
//   launched   [backward][pack][all-reduce] ... (enter)[verdict](judge)[update]
//                                                 host            host
//
// `enter` and `judge` are host nodes of the graph, run by a thread of the CUDA
// runtime. `enter` fills the StepSummary with the epoch, revision, step,
// samples and commands of this launch; none of them is captured. `judge`
// decides whether the step passes, and writes the scalars that the update
// reads. Work that is slow or uses the device runs after the graph, on the comm
// queue's thread.
//
// Threads: captured by the caller's thread; a launch's fields are written by
//          its host nodes, then by the comm queue's thread. One launch at a
//          time.

#ifndef LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_
#define LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_

#include <future>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "client/gradient/pending.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "lockstep/stream.h"
#include "lockstep/verdict.h"
#include "protocol/ids.h"

namespace lockstep::gradient {

struct Captured {
  // --- Fixed after the capture ---
  Revision revision;  // the revision whose buckets the graph uses
  double max_norm = 0;
  std::vector<int> completed;  // parameters, in the order of their Submits
  bool finished = false;       // FinishAsync was captured
  absl::AnyInvocable<void()> enter;
  absl::AnyInvocable<void()> judge;
  ArenaBuffer staged;   // the scalars as the host writes them ...
  ArenaBuffer scalars;  // ... and where the update reads them
  std::unique_ptr<transport::DeviceContext::Graph> graph;

  // --- During the capture ---
  Event closing;  // recorded on the stream where the step is finished
  // The event on the queue's stream after which the scalars are written.
  std::promise<absl::StatusOr<Event>> verdict_captured;

  // --- One launch ---
  std::shared_ptr<PendingVerdict::State> entered;  // null: not entered
  absl::StatusOr<Verdict> reduced;
  bool passed = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_
