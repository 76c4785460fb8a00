// What is done to bytes where they lie: in the host's memory, or a device's.
// Who shapes a step (client/gradient) says what; only a Compute touches bytes.
//
//   caller's stream   [backward]◀─Perform: pack ─Done()─┐
//   Queue             ...[collective]   [before][collective][then]   ← one
//                                        └─ waits for ──┘             Operation
//
//   aside             ...[then]    [then]   ← beside the transfers behind them
//
//   host     a Site works at once, on the thread that the stream has got to
//   device   a Site enqueues on the stream, and Done() is its event; memory
//            that a Site writes must not be read before Done() has come
//
// Memory is of three kinds: the transport's own (Arena), which only a Site may
// touch; staging, the host's, which Site::Copy reads and writes without a stop;
// and, for Copy's source alone, none other.
//
// Threads: any; a Queue's Launch from one at a time. Work runs without a lock.
// Errors:  of the device, as a Status of the work that met them.

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
#include "kernels/slots.h"
#include "lockstep/arena.h"
#include "lockstep/dtype.h"
#include "lockstep/stream.h"

namespace lockstep::transport {

class DeviceContext {
 public:
  // A place in a stream where bytes are worked on, in the order of the calls.
  // Lists (slots, ranges, flags) are read in the call. Nothing happens after
  // the first error, which status() has.
  class KernelQueue {
   public:
    virtual ~KernelQueue() = default;

    // Both ends may be staging or the transport's memory; no overlap.
    virtual void Copy(const void* from, void* to, size_t bytes) = 0;
    virtual void Zero(void* data, size_t bytes) = 0;
    // bucket = tensor * weight, or, with `add`, bucket + tensor * weight: the
    // bits of kernels/pack.h.
    virtual void Pack(std::span<const kernels::Slot> slots, DType dtype,
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
    // `total` is in the transport's memory. `scratch`: AllocateScratch for
    // these ranges, for nobody else until it is done.
    virtual void AddFiniteCheck(const void* data, DType dtype,
                                std::span<const kernels::ElementRange> ranges,
                                void* scratch, kernels::FiniteCheck* total) = 0;

    // The host's part, when the stream gets there; what is asked for behind it
    // waits for it. It may run on a thread of the device's runtime: it must be
    // short, wait for nobody and use no stream. It lives until then, and in a
    // graph, which gets there in each launch, until the last has ended.
    virtual void Call(absl::AnyInvocable<void()>* work) = 0;

    // When all that was asked for so far will have been done.
    virtual Event Done() = 0;
    virtual absl::Status status() const = 0;
  };

  using Work = absl::AnyInvocable<absl::Status(KernelQueue&)>;

  // A transfer, with what is done on both sides of it: an object that its owner
  // makes once and launches in every step.
  class Operation {
   public:
    virtual ~Operation() = default;
    virtual absl::Status Before(KernelQueue&) { return absl::OkStatus(); }
    // Enqueues on the stream, and returns whether it could. Only if `Before`
    // returned OK.
    virtual absl::Status Communicate(Stream&) { return absl::OkStatus(); }
    // Gets what `Before` and `Communicate` returned. What it asks its Site for
    // runs behind the transfer. The queue does not touch the operation after
    // this.
    virtual void Then(KernelQueue&, const absl::Status&) {}
    // What `Then` asks for may run beside the operations that follow, in order
    // with that of others that are aside; the next one that is not waits.
    virtual bool on_side_stream() const { return false; }
  };

  // Operations in order. `Before` and `Then` run on the queue's thread, or on
  // that of who calls Drain: in the host behind the transfer itself; in a
  // device once it is enqueued, so a `Then` that reads what has been moved
  // waits for its Site's Done. Destruction runs all that was launched.
  class Queue {
   public:
    virtual ~Queue() = default;
    // Runs `operation` once all of `after` have come. It must live until it has
    // run, and may be launched again then. Never blocks, and, in the host's
    // memory and without events, does not allocate.
    virtual void Launch(Operation& operation, std::vector<Event> after) = 0;
    // Runs `work` once, in order with the operations.
    void Run(absl::AnyInvocable<void(KernelQueue&)> work,
             std::vector<Event> after = {});
    // Who runs what is launched from now on: who calls Drain, or the queue's
    // own thread, as at first.
    virtual void SetOnDrain(bool on_drain) = 0;
    // Runs what was launched, or waits for who does.
    virtual void Drain() = 0;
  };

  // Holds a stream until the host says how to go on.
  class StreamGate {
   public:
    virtual ~StreamGate() = default;
    // Memory that the stream's work can read, as many bytes as were asked for.
    // Zeros before Release, for work that does not wait. Valid as long as the
    // hold; on a device also for work that was enqueued on the stream before
    // the hold was destroyed.
    virtual const void* message() const = 0;
    // The stream stands from here on. Once, by who asked for the hold, when
    // Release can come without it: a host's stream may run on that very thread,
    // and then this blocks until Release. A device's stream stands already.
    virtual void Begin() {}
    // Once, from any thread: the stream goes on with `message`, and with
    // `status`, unless it is OK, as its error.
    virtual void Release(const absl::Status& status, const void* message) = 0;
  };

  // What was captured: launched again and again, with the same buffers.
  class Graph {
   public:
    // Of a graph that a stream still has to get to: that launch goes on.
    virtual ~Graph() = default;
    // Enqueues all of it. Does not block; errors are the stream's.
    virtual void Launch(Stream& stream) = 0;
  };

  virtual ~DeviceContext() = default;

  // Zeroed, aligned as the arena's. ResourceExhausted.
  virtual absl::StatusOr<ArenaBuffer> AllocateStaging(size_t bytes) = 0;

  // What AddFiniteCheck needs for `ranges`; empty if nothing. Slow on a device:
  // not in a step. ResourceExhausted.
  virtual absl::StatusOr<ArenaBuffer> AllocateScratch(
      std::span<const kernels::ElementRange> ranges) = 0;

  // InvalidArgument for a stream of another kind than this memory's, and for
  // one that is being captured into a graph, unless by Capture.
  virtual absl::Status CheckStream(const Stream& stream) const = 0;

  // Captures what `body` enqueues on `stream`, and all that Queues enqueue
  // behind it: nothing of it runs. `body` must not wait for a device, and must
  // let the stream wait for what it launched on Queues. Errors: of `body`;
  // FailedPrecondition for the host's memory, and while another one lasts.
  virtual absl::StatusOr<std::unique_ptr<Graph>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body) = 0;
  // Is what is enqueued on `stream` now part of that?
  virtual bool Captures(const Stream& stream) const = 0;

  // Work behind all that `stream` holds. Host: when the stream gets there, and
  // the work's error becomes the stream's. Device: in the call, which returns
  // the work's error; it waits until the host has let go of every Hold of the
  // stream. Without a stream (null): in the call, on nothing's heels.
  virtual absl::Status Perform(Stream* stream, Work work) = 0;

  // Must what all ranks launch together be launched in one order over all
  // communicators? A device runs few operations at a time; in the host each
  // communicator waits for nobody but its peers.
  virtual bool NeedsOneOrder() const = 0;

  // A stream of its own, for operations and Sites; its thread, if it has one,
  // is called `name`.
  virtual absl::StatusOr<std::unique_ptr<Stream>> MakeStream(
      std::string name) = 0;

  // From Hold::Begin on later work on `stream` waits for its Release, which
  // must come. The stream must live until then.
  virtual absl::StatusOr<std::shared_ptr<StreamGate>> GateStream(
      Stream& stream, size_t message_bytes) = 0;

  // What to wait for before anything that the work on `stream` so far brings
  // about: the wait runs that work, if nobody else would. Complete at once for
  // streams that run by themselves.
  virtual Event Driver(Stream&) const { return Event(); }

  // Its thread is called `name`.
  virtual absl::StatusOr<std::unique_ptr<Queue>> MakeQueue(
      std::string name) = 0;
};

// In this process's own memory, with the loops of kernels/ and host streams.
std::unique_ptr<DeviceContext> MakeHostDeviceContext();

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_DEVICE_CONTEXT_H_
