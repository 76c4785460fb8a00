// A training step as a CUDA graph: captured once, launched for every step.
//
//   auto stream = DeviceStream::Wrap(*session, cuda_stream);
//   const auto capture = [&] {
//     return sync->Capture(**stream, [&]() -> absl::Status {
//       Backward<<<..., cuda_stream>>>(batch, ...);         // the caller's
//       for (auto& p : model)
//         if (auto s = sync->Submit(p.id, **stream); !s.ok()) return s;
//       auto pending = sync->FinishAsync({}, 1.0, **stream);
//       if (!pending.ok()) return pending.status();
//       auto s = (*stream)->AwaitQueued();
//       Update<<<..., cuda_stream>>>(pending->scalars(), ...);   // gated
//       return s;
//     });
//   };
//   auto step = capture();
//   for (;;) {
//     if ((*step)->stale()) step = capture();      // buckets were cut anew
//     Load(&batch);                                // into the same memory
//     auto pending = (*step)->Launch({.samples = 64}, **stream);
//     auto verdict = pending->Wait();
//     if (verdict->IsLast()) break;
//   }
//
//   graph  [backward][pack][all-reduce] ..(host)[verdict](host)[update, gated]
//                     └ this library's ┘  └ this rank's ballot; pass or not
//
// What a launch does is what the same calls would have done one by one, bit for
// bit: the buckets' reductions overlap backward as they were captured to. What
// is captured are addresses, lists and numbers of the body's calls: gradients,
// buckets, weights of micro-batches, FinishAsync's max_norm. What is not: the
// step's number, samples, loss scale, more_data and the operator's word, which
// each launch says anew. Data of a batch goes into memory that the captured
// kernels read.
//
// The update must ask the scalars (verdict_scalars.h): it runs in the same
// graph as the verdict, and the host lets it, in the middle of the graph, only
// if the step has passed. Nothing else of a graph may change registered state.
//
// All ranks capture, and launch, the same steps: NCCL's operations are captured
// on all ranks of a communicator or on none, and a launched graph meets the
// others' launches of theirs. Eager steps may come between, on all ranks.
//
// A later revision of the plan cuts buckets anew, between two steps, on all
// ranks after the same verdict. A graph has the buckets of its capture, and so
// is stale from then on: it is never launched, and every rank captures again.
// A program without OnMoved keeps its buckets, and its graphs.
//
// The executable graph is this object's: the library destroys it before it ends
// the communicators that it holds, when the epoch ends too; what is left is a
// shell whose Launch says why.
//
// Threads: as GradientSync's step calls. The body runs on the calling thread.
//          Meanwhile no communicator of the process may be used for anything
//          else, and the body must not wait for the device.
// Ownership: the GradientSync must outlive it. A launch that is under way goes
//          on when it is destroyed.

#ifndef LOCKSTEP_CAPTURED_STEP_H_
#define LOCKSTEP_CAPTURED_STEP_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lockstep/export.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/stream.h"

namespace lockstep {

class LOCKSTEP_EXPORT CapturedStep {
 public:
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  // One step, behind what `stream` holds: as the body's Submits and
  // FinishAsync, and later work on `stream` starts after its verdict. Blocks
  // until the host has let go of the step before. Errors: FailedPrecondition
  // once it is stale, or in the middle of another step; as FinishAsync.
  absl::StatusOr<PendingVerdict> Launch(const FinishOptions& options,
                                        Stream& stream);

  // Buckets have been cut anew since it was captured: capture again. Changes
  // only while a verdict is exchanged, and with it on all ranks.
  bool stale() const;

  // The library's own side.
  class LOCKSTEP_HIDDEN State;
  explicit CapturedStep(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CAPTURED_STEP_H_
