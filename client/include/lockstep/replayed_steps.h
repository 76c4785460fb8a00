// Training steps in CUDA graphs that the program captures and launches itself,
// such as those of torch.cuda.graph.
//
//   auto replays = sync->BeginReplays();                  // once, all ranks
//
//   cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);   // the program's
//   auto stream = DeviceStream::Wrap(*session, s);
//   (*replays)->JoinCapture(**stream);
//   Backward<<<..., s>>>(batch, ...);
//   for (auto& p : model) sync->Submit(p.id, **stream);
//   auto pending = sync->FinishAsync({.samples = 64}, 1.0, **stream);
//   Update<<<..., s>>>(pending->scalars(), ...);              // gated
//   cudaStreamEndCapture(s, &graph);                          // instantiate it
//
//   for (;;) {
//     Load(&batch, s);           // into the same memory, on the same stream
//     cudaGraphLaunch(exec, s);  // no call of this library
//     auto next = (*replays)->Next(absl::Milliseconds(1));
//     if (next.ok() && next->verdict.IsLast()) break;
//   }
//
// docs/gradients.md has the loop that knows which launches were void.
//
//   graph  [backward][pack][all-reduce][copy] .. [record][all-gather][gate]
//          [update]      └ the library ─────────────────────────────┘  gated
//
// The device decides each launch, as always (verdict_scalars.h): its step
// passes on all ranks or on none. Nothing waits for the host. With
// GradientSync::Capture and CapturedStep::Launch the host takes part in each
// launch, and gives each its own FinishOptions; prefer that where the program
// can call Launch.
//
// A launch that is *void* changes nothing, on all ranks alike: MayUpdate is
// false. So a program gives its batch again. Launches are void
//
//   while the job is paused      behind the step with which it pauses
//   behind a save                until every rank has called Next once more,
//                                after it got the verdict that holds the save
//   behind the last step         and behind one with which the job grows
//   when the host is late        it reads verdicts on a thread of its own; if
//                                kInFlightMax steps of a rank have not been
//                                read, launches are void until they are
//
// A save is of the state behind its step, and that of the launch that Next has
// returned: wait for the stream, whose update may not have run yet, save, and
// only then call Next again, which lets launches go on.
//
// Next tells which launch each step was; launches between two of them were
// void, and so were those behind the last one, up to decided(). Call it now and
// then, on every rank: who never does, never acts on a
// save or on the end.
//
// All ranks launch the same steps in the same order, as often as each other:
// those that are missing on a rank are waited for. Once the job ends ranks may
// differ: a launch that waits in vain is aborted a second later. While a launch
// is running, no other operation of the session may run on the device.
//
// What is fixed with the graph: addresses, lists, micro-batch weights, max_norm
// and the FinishOptions, unless SetInput replaces them for a launch. The plan
// keeps its revision from BeginReplays on, on all ranks. Each bucket is copied
// once more in each launch: a rank whose launch ends in a failure may have to
// apply its step later, and by then the buckets are overwritten
// (docs/decisions/0034); Session::Recover copies them back to the views. So
// gradients take twice the memory, and each launch reads and writes them once
// more.
//
// Eager steps are allowed in between, on all ranks and on a stream: the first
// Submit waits for that stream and for the launches before it, and FinishAsync
// and CapturedStep::Launch for their verdict, since launches may follow. Obey
// it before the next launch: a save is of the state behind it. After an error
// of Next: wait for the stream, destroy the graph and what was instantiated
// from it, and only then call Session::Recover or destroy the GradientSync.
// NCCL frees no communicator while a graph has operations of it; Recover
// refuses to begin, and what a graph could still write to is never freed.
//
// Threads: as the step calls of GradientSync; Next and launches may be
//          on different threads.
// Ownership: the GradientSync must outlive this object.

#ifndef LOCKSTEP_REPLAYED_STEPS_H_
#define LOCKSTEP_REPLAYED_STEPS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/export.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/stream.h"

namespace lockstep {

struct LOCKSTEP_EXPORT ReplayedVerdict {
  // The launch whose step has passed: launches of all graphs are counted
  // together, from 0.
  uint64_t launch = 0;
  // Steps before it whose verdicts were dropped, since nobody asked for them.
  uint64_t missed = 0;
  // `contributed` is empty: it is fixed with the graph.
  Verdict verdict;
};

class LOCKSTEP_EXPORT ReplayedSteps {
 public:
  // The steps that have passed and that the host has not read, at most.
  static constexpr int kInFlightMax = 31;

  ~ReplayedSteps();
  ReplayedSteps(const ReplayedSteps&) = delete;
  ReplayedSteps& operator=(const ReplayedSteps&) = delete;

  // Inside the program's own capture of `stream`: the Submits that follow, on
  // streams of the capture, up to and including FinishAsync, are one step of
  // its graph. FinishAsync returns where the launches write their scalars, and
  // no verdict; or the first error of a call of the step: then give up the
  // capture. No other operation of the session's communicators may be enqueued
  // until the capture has ended; an eager step before that is refused. Errors:
  // InvalidArgument for a stream of the host; FailedPrecondition outside of a
  // capture, in one that is invalid, in the middle of a step, during another
  // capture. What fails has no effect, and the epoch goes on, unless a call of
  // NCCL has failed.
  absl::Status JoinCapture(Stream& stream);
  // The capture has failed, or FinishAsync will not be called. Without effect
  // behind FinishAsync, unless that was refused.
  void LeaveCapture();

  // What launch number `launch` says in place of the captured FinishOptions:
  // all of them, so repeat samples and per_sample. A void launch uses it up.
  // Call it before that launch. Errors: as FinishAsync; OutOfRange for a launch
  // that is decided, or kInFlightMax + 1 or more behind the last decided one.
  absl::Status SetInput(uint64_t launch, const FinishOptions& options);

  // The verdict of the next step that has passed, in order; waits for it.
  // Verdicts that the program leaves here are kept, the newest 1024. Errors:
  // DeadlineExceeded after `timeout`; as FinishAsync, once the verdicts of an
  // epoch that has ended have been returned.
  absl::StatusOr<ReplayedVerdict> Next(absl::Duration timeout);

  // How many launches the device has decided. Next returns those that have
  // passed, also with a timeout of zero: all others of them were void. Launches
  // behind a step with which the job pauses are not counted before it resumes.
  uint64_t decided() const;

  // Internal.
  class LOCKSTEP_HIDDEN State;
  explicit ReplayedSteps(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_REPLAYED_STEPS_H_
