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
//       Update<<<..., cuda_stream>>>(pending->scalars(), ...);   // gated
//       return absl::OkStatus();
//     });
//   };
//   auto step = capture();
//   for (;;) {
//     if ((*step)->stale()) step = capture();      // buckets have moved
//     Load(&batch);                                // into the same memory
//     auto pending = (*step)->Launch({.samples = 64}, **stream);
//     auto verdict = pending->Wait();
//     if (verdict->IsLast()) break;
//   }
//
//   graph  [backward][pack][all-reduce] .. [record][all-gather][gate][update]
//                     └ the library ──────────────────────────────┘  gated
//
// A launch has the same results, bit for bit, as the captured calls made one by
// one, and its reductions overlap the backward pass in the same way. The graph
// contains the addresses, lists and numbers of the body's calls: gradients,
// buckets, micro-batch weights, FinishAsync's max_norm. Each launch supplies
// the step number, samples, loss scale, more_data and the operator's command.
// The program writes each batch into the memory that the captured kernels read.
//
// The update must check the scalars (verdict_scalars.h): it runs in the same
// graph as the gate, which permits it only if the step has passed. Nothing else
// in a graph may change registered state.
//
// In a job with run_ahead the body is called run_ahead + 1 times (once more
// with buckets.windows), and steps use the graphs in turn, eager ones in
// between included (docs/gradients.md, "Captured steps").
//
// All ranks capture, and launch, the same steps: NCCL operations are captured
// on all ranks of a communicator or on none, and the launches of all ranks
// communicate with each other. Eager steps are allowed in between, on all
// ranks.
//
// A later revision of the plan moves the buckets between two steps, on all
// ranks after the same verdict. A graph has the buckets of its capture and is
// then stale: it is never launched again, and every rank captures a new one. A
// program without OnMoved keeps its buckets and its graphs.
//
// The library owns the executable graph and destroys it before its
// communicators, also when the epoch ends. After that Launch returns the cause.
//
// Threads: as the step calls of GradientSync. The body runs on the calling
//          thread. During the capture the process must not use its
//          communicators otherwise, and the body must not wait for the device.
// Ownership: the GradientSync must outlive this object. Destruction does not
//          stop a launch in progress.

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

  // Runs one step after the work enqueued on `stream`: the body's Submits and
  // FinishAsync. Later work on `stream` starts after the graph. Blocks until
  // the host has completed the previous step or, in a job with run_ahead, the
  // one run_ahead + 1 before. Errors: FailedPrecondition once
  // it is stale, or in the middle of another step; as FinishAsync.
  absl::StatusOr<PendingVerdict> Launch(const FinishOptions& options,
                                        Stream& stream);

  // True if buckets have moved since the capture: capture again, with no step
  // in flight. Changes only with a verdict, the same one on all ranks. In a job
  // with run_ahead it blocks as Launch does.
  bool stale() const;

  // Internal.
  class LOCKSTEP_HIDDEN State;
  explicit CapturedStep(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CAPTURED_STEP_H_
