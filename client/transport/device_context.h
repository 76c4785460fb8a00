// Kernels, transfers and streams over one kind of memory: the host's, or a
// device's. client/gradient decides what runs; only a DeviceContext accesses
// the bytes.
//
//   caller's stream   [backward]◀─Perform: pack ─Done()─┐
//   Queue             ...[collective]   [before][collective][then]   ← one
//                                        └─ waits for ──┘             Operation
//
//   side stream       ...[then]    [then]   ← beside the transfers behind them
//
//   host     a KernelQueue works in the call, on the thread that runs the
//            stream
//   device   a KernelQueue enqueues on the stream, and Done() is its event;
//            memory that it writes must not be read before Done()
//
// Memory is of two kinds: the transport's own (Arena), which only a KernelQueue
// may access; and staging, the host's, which KernelQueue::Copy reads and writes
// without synchronizing.
//
// Threads: any; a Queue's Launch from one at a time. Work runs without a lock.
// Errors:  a device error is the status of the work in which it occurs.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_DEVICE_CONTEXT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_DEVICE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/finite_check.h"
#include "kernels/local_step.h"
#include "kernels/slots.h"
#include "kernels/step_gate.h"
#include "kernels/strided_box.h"
#include "lockstep/arena.h"
#include "lockstep/dtype.h"
#include "lockstep/stream.h"

namespace lockstep::transport {

class DeviceContext {
 public:
  // Runs kernels at one point of a stream, in the order of the calls. Lists
  // (slots, ranges, flags) are read in the call. After the first error, which
  // status() returns, calls have no effect.
  class KernelQueue {
   public:
    virtual ~KernelQueue() = default;

    // Both ends may be staging or the transport's memory; no overlap.
    virtual void Copy(const void* from, void* to, size_t bytes) = 0;
    virtual void Zero(void* data, size_t bytes) = 0;
    // bucket = tensor * weight, or, with `add`, bucket + tensor * weight: the
    // bits of kernels/pack.h.
    virtual void Pack(std::span<const kernels::TensorSlot> slots, DType dtype,
                      double weight, bool add, void* bucket) = 0;
    virtual void WriteFlags(std::span<const uint8_t> on, DType dtype,
                            void* flags) = 0;
    virtual void Scale(void* data, DType dtype, double factor,
                       size_t count) = 0;
    // The bits of kernels/cast_scale.h and kernels/cast_feedback.h.
    virtual void CastScale(const void* from, DType from_dtype, double factor,
                           void* to, DType to_dtype, size_t count) = 0;
    virtual void CastFeedback(const void* from, const void* residual,
                              DType from_dtype, void* to, DType to_dtype,
                              void* next, size_t count) = 0;
    // The bits of kernels/add_leaf.h.
    virtual void AddLeaf(std::span<const void* const> left, const void* leaf,
                         DType dtype, double weight, void* out, DType out_dtype,
                         size_t count) = 0;
    // The bits of kernels/reduce_pairs.h.
    virtual void ReducePairs(const void* inputs, int rows, DType dtype,
                             double factor, void* out, DType out_dtype,
                             size_t count) = 0;
    // `total` is in the transport's memory. `scratch`: from AllocateScratch for
    // these ranges, exclusive until this is done.
    virtual void AddFiniteCheck(const void* data, DType dtype,
                                std::span<const kernels::ElementRange> ranges,
                                void* scratch, kernels::FiniteCheck* total) = 0;
    // The bits of kernels/scale_and_check.h: Scale of `scaled`, then
    // AddFiniteCheck of `checked`, in one pass over memory. `scratch` and
    // `total` as for AddFiniteCheck.
    virtual void ScaleAndCheck(void* data, DType dtype, double factor,
                               const kernels::ElementRange& scaled,
                               std::span<const kernels::ElementRange> checked,
                               void* scratch, kernels::FiniteCheck* total) = 0;

    // The bits of kernels/step_gate.h; GateStep verifies the tiles of records
    // before, if there are several. In the transport's memory: control, `norm`,
    // records, summaries of tiles and scalars; in staging: inputs, journal and
    // board; `stop` is of a StopWord.
    virtual void BeginReplay(const kernels::GateContext& context) = 0;
    virtual void WriteStepRecord(const kernels::GateContext& context,
                                 kernels::FiniteCheck* norm,
                                 kernels::StepRecord* record) = 0;
    virtual void GateStep(const kernels::GateContext& context,
                          const kernels::StepRecord* own,
                          const kernels::StepRecord* records,
                          VerdictScalars* scalars) = 0;

    // The bits of kernels/verdict_gate.h; all in the transport's memory.
    virtual void CommitCopy(const VerdictScalars* verdict, const void* from,
                            void* to, size_t bytes) = 0;

    // The bits of kernels/strided_box.h.
    virtual void FillBoxes(std::span<const kernels::BoxFill> boxes,
                           std::span<void* const> out) = 0;
    virtual void CopyBoxes(std::span<const kernels::StridedBox> boxes,
                           std::span<const void* const> in,
                           std::span<void* const> out) = 0;
    virtual void SumBoxes(std::span<const kernels::StridedBox> boxes,
                          std::span<const void* const> in,
                          std::span<void* const> out, bool add) = 0;

    // The bits of kernels/local_step.h. Staging is as good as the transport's
    // memory, but slower.
    virtual void RunLocalStep(const kernels::LocalStep& step) = 0;

    // Runs `work` once on the host when the stream reaches it; later calls wait
    // for it. It may run on a thread of the device's runtime, so it must be
    // short, not block and use no stream. Its error becomes the stream's.
    // Destroys `work` on the thread that ran it, so it must not own memory of
    // the device. FailedPrecondition in a graph.
    virtual void CallOnce(absl::AnyInvocable<absl::Status()> work) = 0;

    // An event: all calls so far are done. Nothing may rely on it if it could
    // not be recorded: its Wait, and status() from then on, return the error.
    virtual Event Done() = 0;
    // The same for a Queue's launch to wait for. On a device it may include
    // what the stream gets until that launch, so that several calls on a stream
    // cost one event.
    virtual Event Mark() { return Done(); }
    virtual absl::Status status() const = 0;
  };

  using Work = absl::AnyInvocable<absl::Status(KernelQueue&)>;

  // A transfer, with the kernels before and after it. The owner makes it once
  // and launches it in every step.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual absl::Status Before(KernelQueue&) { return absl::OkStatus(); }
    // Enqueues the transfer on the stream; an error if it could not. Called
    // only if `Before` returned OK.
    virtual absl::Status Communicate(Stream&) { return absl::OkStatus(); }
    // Gets the status of `Before` and `Communicate`, or the first error of what
    // these enqueued. The kernels that it calls run after the transfer. The
    // queue does not use the operation afterwards.
    virtual void Then(KernelQueue&, const absl::Status&) {}
    // Whether the kernels of `Then` may run beside the following operations, on
    // the side stream, in order with others there. The next operation that is
    // not on the side stream waits for them.
    virtual bool on_side_stream() const { return false; }
  };

  // Runs operations in order. `Before`, `Communicate` and `Then` run on the
  // queue's thread, or on the thread that calls Drain. On the host `Then` runs
  // after the transfer; on a device once it is enqueued, so a `Then` that reads
  // the result waits for its KernelQueue's Done. The destructor runs all
  // launched operations.
  class Queue {
   public:
    virtual ~Queue() = default;
    // Runs `operation` once all of `after` are done. It must live until it has
    // run, and may then be launched again. Never blocks. On the host, without
    // events, it does not allocate.
    virtual void Launch(Operation& operation, std::vector<Event> after) = 0;
    // Runs `work` once, in order with the operations.
    void Run(absl::AnyInvocable<void(KernelQueue&)> work,
             std::vector<Event> after = {});
    // Whether later launches run on the thread that calls Drain, instead of the
    // queue's own thread (the default).
    virtual void SetOnDrain(bool on_drain) = 0;
    // Runs all launched operations, or waits until they have run.
    virtual void Drain() = 0;
    // Whether its operations are still part of a capture, which has not ended,
    // and `stream` is not; null: of any capture.
    virtual bool IsCapturedWithout(const Stream* /*stream*/) const {
      return false;
    }
  };

  // Blocks a stream until the host releases it with a message.
  class StreamGate {
   public:
    virtual ~StreamGate() = default;
    // The message, which work that is enqueued on the stream after Begin can
    // read: `message_bytes` long. On the host zeros before Release, for work
    // that does not wait. Valid as long as the gate; on a device also for work
    // that was enqueued on the stream before the gate was destroyed.
    virtual const void* message() const = 0;
    // Blocks the stream from here on. Called once, by the caller of GateStream,
    // when Release no longer depends on this thread: a host stream may run on
    // it, and a device stream has to wait there, so that this call may block
    // until Release.
    virtual void Begin() {}
    // Called once, from any thread: the stream continues, with `message`. An
    // error in `status` becomes the stream's.
    virtual void Release(const absl::Status& status, const void* message) = 0;
  };

  // Captured work: launched repeatedly, with the same buffers.
  class Graph {
   public:
    // A launch that its stream has not reached yet still runs.
    virtual ~Graph() = default;
    // Enqueues all captured work and returns the event behind it, which may be
    // one that could not be recorded. Does not block. An error: nothing was
    // enqueued.
    virtual absl::StatusOr<Event> Launch(Stream& stream) = 0;
  };

  // A graph that the program captures, launches and destroys.
  class ProgramGraph {
   public:
    virtual ~ProgramGraph() = default;
    // Whether nothing of it is left: neither the graph, nor what was
    // instantiated from it. Waits until then, at most for `timeout`.
    virtual bool AwaitDestroyed(absl::Duration timeout) = 0;
  };

  virtual ~DeviceContext() = default;

  // Zeroed staging memory, aligned as the arena's. Errors: ResourceExhausted.
  virtual absl::StatusOr<ArenaBuffer> AllocateStaging(size_t bytes) = 0;

  // A word that kernels read, and that is set before any communicator of the
  // device is aborted, by whom ever: what runs after it sees the word, though a
  // kernel that was aborted returns as if it had succeeded. Zero until then;
  // set for good. Errors: ResourceExhausted.
  class StopWord {
   public:
    virtual ~StopWord() = default;
    virtual const volatile uint32_t* address() const = 0;
    virtual void Set() = 0;  // this and is_set from any thread
    virtual bool is_set() const = 0;
  };
  virtual absl::StatusOr<std::shared_ptr<StopWord>> MakeStopWord() = 0;

  // Scratch memory for AddFiniteCheck or ScaleAndCheck of `ranges`; empty if
  // they need none. Slow on a device: not to be called in a step. Errors:
  // ResourceExhausted.
  virtual absl::StatusOr<ArenaBuffer> AllocateScratch(
      std::span<const kernels::ElementRange> ranges) = 0;

  // InvalidArgument for a stream of another kind of memory, and for one that is
  // being captured into a graph other than by Capture.
  virtual absl::Status CheckStream(const Stream& stream) const = 0;

  // Captures the work that `body` enqueues on `stream`, and all that Queues
  // enqueue behind it; none of it runs. `body` must not wait for a device, and
  // must make the stream wait for its launches on Queues. Errors: those of
  // `body`; FailedPrecondition for host memory, and during another capture.
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body) = 0;
  // The program captures `stream`: what is enqueued on it from now on, and what
  // Queues enqueue behind it, becomes part of the program's graph, until
  // LeaveCapture. The stream must wait for launches on Queues before that.
  // While the graph exists, its communicators are not freed. Errors:
  // FailedPrecondition for host memory, for a stream that is not captured, and
  // during another capture.
  virtual absl::StatusOr<std::shared_ptr<ProgramGraph>> JoinCapture(
      Stream& stream) = 0;
  // Errors: of the communicators that take part.
  virtual absl::Status LeaveCapture() = 0;
  // Whether work enqueued on `stream` now becomes part of a capture.
  virtual bool Captures(const Stream& stream) const = 0;

  // Runs `work` behind all work on `stream`. Host: when the stream reaches it,
  // and its error becomes the stream's. Device: the call enqueues it and
  // returns its error.
  // Without a stream (null): immediately, without ordering.
  virtual absl::Status Perform(Stream* stream, Work work) = 0;

  // Whether all ranks must launch collectives in one order across
  // communicators. A device needs it: it runs few operations at a time. On the
  // host each communicator waits for its peers only.
  virtual bool NeedsOneOrder() const = 0;

  // A new stream for operations and kernels. If it has a thread, that is named
  // `name`.
  virtual absl::StatusOr<std::unique_ptr<Stream>> MakeStream(
      std::string name) = 0;

  // Makes a gate: work after StreamGate::Begin waits for Release, which must be
  // called. The stream must live until then.
  virtual absl::StatusOr<std::shared_ptr<StreamGate>> GateStream(
      Stream& stream, size_t message_bytes) = 0;

  // Makes later work on `stream` wait for `event`; the error of a device if it
  // does not.
  virtual absl::Status WaitFor(Stream& stream, const Event& event) = 0;
  // The first error of what was enqueued on a stream of MakeStream since the
  // last TakeError. On the host the communicators have all errors.
  virtual absl::Status TakeError(Stream&) { return absl::OkStatus(); }

  // An event after all work on `stream` so far. Wait for it before any effect
  // of that work: the wait runs the work if no other thread does. Already done
  // for streams that run on their own.
  virtual Event Driver(Stream&) const { return Event(); }

  // `name` names its thread.
  virtual absl::StatusOr<std::unique_ptr<Queue>> MakeQueue(
      std::string name) = 0;
};

// For host memory, with the CPU kernels of kernels/ and host streams.
std::unique_ptr<DeviceContext> MakeHostDeviceContext();

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_DEVICE_CONTEXT_H_
