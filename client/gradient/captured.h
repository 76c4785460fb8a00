// A step as a CUDA graph: what all its launches share, and the one that is
// under way.
//
//   captured   body: [backward] Submit ... FinishAsync [update]
//   launched   [backward][pack][all-reduce] ... (enter)[verdict](judge)[update]
//                                                 host            host
//
// The host has its part in the middle of the graph, as nodes that run on a
// thread of the device's runtime. `enter` fills the ballot: epoch, revision and
// step, samples, the operator's word, as they are in this launch; nothing of
// them is captured. `judge` lets the step pass, or not, and writes the scalars
// that the update behind it asks. What takes longer, or uses the device, comes
// once the graph has ended, on the comm queue's thread.
//
// Threads: captured by the caller's; a launch's fields by its nodes, then by
//          the comm queue's thread. One launch at a time.

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
#include "plan/words/ids.h"

namespace lockstep::gradient {

struct Captured {
  // --- Fixed once it is captured ---
  Revision revision;  // whose buckets it has
  double max_norm = 0;
  std::vector<int> completed;  // parameters, in the order of their Submits
  bool finished = false;       // FinishAsync was captured
  absl::AnyInvocable<void()> enter;
  absl::AnyInvocable<void()> judge;
  ArenaBuffer staged;   // the scalars as the host writes them ...
  ArenaBuffer scalars;  // ... and where the update reads them
  std::unique_ptr<transport::DeviceContext::Graph> graph;

  // --- While it is being captured ---
  Event closing;  // the stream, where the step is finished
  // Where the queue's stream has the scalars.
  std::promise<absl::StatusOr<Event>> verdict_captured;

  // --- One launch ---
  std::shared_ptr<PendingVerdict::State> entered;  // null: it was not
  absl::StatusOr<Verdict> reduced;
  bool passed = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_CAPTURED_H_
