// Streams (ordered queues of work) and events (points in a stream).
//
// Operations of the data plane are enqueued on a Stream: a queue on the host or
// (with NCCL) a CUDA stream. Work on one stream runs in order; only events
// order the work of two streams:
//
//   compute   [backward layer 9][backward layer 8]──Record()──▶ Event
//   comm                                          WaitFor(event)─▶[all-reduce]
//
// Threads: every method may be called from any thread. Calls from different
//          threads take effect in the order in which they acquire the lock.
// Errors:  the first failing work sets the error of the *stream*, which
//          Synchronize returns. Later work still runs (operations of an aborted
//          communicator return immediately), so that every wait ends.

#ifndef LOCKSTEP_STREAM_H_
#define LOCKSTEP_STREAM_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/export.h"

namespace lockstep {

// A point in a stream. A value: copies refer to the same point. A default
// constructed event is complete.
class LOCKSTEP_EXPORT Event {
 public:
  // Implemented by each kind of stream.
  class LOCKSTEP_EXPORT State {
   public:
    virtual ~State() = default;
    virtual bool Done() const = 0;
    virtual absl::Status Wait(absl::Duration timeout) const = 0;
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // True once all work enqueued before the event has run.
  bool Done() const { return state_ == nullptr || state_->Done(); }

  // Blocks until Done or until `timeout` has passed (DeadlineExceeded). OK does
  // not mean that the work succeeded. FailedPrecondition if called from work of
  // the same stream, which would wait for itself.
  absl::Status Wait(absl::Duration timeout = absl::InfiniteDuration()) const {
    return state_ == nullptr ? absl::OkStatus() : state_->Wait(timeout);
  }

  // For implementations of Stream, which recognise their own State. Null for a
  // default constructed event.
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

class LOCKSTEP_EXPORT Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Returns the point after all work enqueued so far. Does not block.
  virtual Event Record() = 0;

  // Later work on this stream starts only after `event`. Does not block.
  virtual void WaitFor(const Event& event) = 0;

  // Blocks until all enqueued work has run. Returns and clears the stream's
  // first error. FailedPrecondition if called from work of the same stream.
  virtual absl::Status Synchronize() = 0;

 protected:
  Stream() = default;
};

// A queue on the host that runs work in order: on its own thread, on the
// threads that enqueue, or on the threads that wait.
//
// kThread: one thread of the stream, named `name` (truncated to 15 bytes; shown
//          by ps and debuggers). It starts with the first work and blocks all
//          signals.
// kInline: the enqueuing thread runs the queued work before the call returns,
//          unless another caller is already running it. For callers that would
//          wait immediately: this saves two context switches, which cost many
//          times a small operation. Nothing overlaps with the caller, and work
//          must not depend on what the same thread does next.
// kOnWait: work runs only when a thread waits, for an Event or in Synchronize:
//          that thread runs the work queued up to there. For callers that must
//          not block when they enqueue and wait later.
//
// The destructor runs all enqueued work; it must not be called from work of the
// stream.
class LOCKSTEP_EXPORT HostStream final : public Stream {
 public:
  enum class Execution { kThread, kInline, kOnWait };

  explicit HostStream(std::string name = "ls-stream",
                      Execution execution = Execution::kThread);
  ~HostStream() override;

  // Switches between kThread and kOnWait. Work enqueued before runs as before;
  // the order is kept. InvalidArgument without effect from or to kInline.
  absl::Status SetExecution(Execution execution);
  Execution execution() const;

  // Enqueues `work`; does not block, unless it runs the work (kInline). A
  // status that is not OK becomes the stream's error if it is the first. `work`
  // is destroyed before later work runs.
  void Enqueue(absl::AnyInvocable<absl::Status()> work);

  // Runs `work` immediately if the stream is kInline and idle. Otherwise
  // returns false without effect. For work that is cheap relative to enqueuing
  // it.
  bool TryRun(absl::FunctionRef<absl::Status()> work);

  Event Record() override;
  void WaitFor(const Event& event) override;
  absl::Status Synchronize() override;

 private:
  class LOCKSTEP_HIDDEN Queue;
  class LOCKSTEP_HIDDEN EventState;
  std::shared_ptr<Queue> queue_;  // shared with events
};

}  // namespace lockstep

#endif  // LOCKSTEP_STREAM_H_
