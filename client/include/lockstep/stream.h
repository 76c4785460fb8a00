// An ordered queue of work, and the moments that can be waited for in it.
//
// A Stream is where operations of the data plane are enqueued: a host queue
// with a thread of its own, or (with NCCL) a CUDA stream. Work enqueued on one
// stream runs in order; two streams are ordered only by events:
//
//   compute   [backward layer 9][backward layer 8]──Record()──▶ Event
//   comm                                             Wait(event)─▶[all-reduce]
//
// Threads: every method may be called from any thread; the order of calls from
//          different threads is the order in which they got in.
// Errors:  work that fails makes the *stream's* first error, which Synchronize
//          returns; later work still runs (operations of an aborted
//          communicator return at once), so that no waiter is left behind.

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

// A moment in a stream. A value: copies speak of the same moment. A default
// constructed event is already complete.
class LOCKSTEP_EXPORT Event {
 public:
  // The moment as the kind of stream that recorded it knows it.
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

  // Blocks until Done or until `timeout` has passed (DeadlineExceeded). Says
  // nothing about whether that work succeeded. FailedPrecondition in work of
  // the stream itself, which it would wait for.
  absl::Status Wait(absl::Duration timeout = absl::InfiniteDuration()) const {
    return state_ == nullptr ? absl::OkStatus() : state_->Wait(timeout);
  }

  // For streams, which know the moments of their own kind. Null if complete
  // from the start.
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

class LOCKSTEP_EXPORT Stream {
 public:
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The moment when all that was enqueued so far has run. Does not block.
  virtual Event Record() = 0;

  // Later work on this stream starts only after `event`. Does not block.
  virtual void WaitFor(const Event& event) = 0;

  // Blocks until all that was enqueued has run; the stream's first error, which
  // it clears. FailedPrecondition in work of the stream itself.
  virtual absl::Status Synchronize() = 0;

 protected:
  Stream() = default;
};

// A host queue: runs work in order, on one thread of its own, or on the threads
// of its callers, or of who waits for it.
//
// kThread: the thread is named `name` (cut to 15 bytes; shown by ps and
//          debuggers), starts with the first work and takes no signals.
// kInline: whoever enqueues runs what is queued before the call returns, unless
//          another caller is at it. For callers that would wait at once anyway:
//          it saves two switches of threads, many times a small operation's
//          own time. Nothing then overlaps with the caller, and an operation
//          must not need what the same thread would do next.
// kOnWait: nobody runs anything until somebody waits for it, for an Event or by
//          Synchronize: who does runs what is queued up to there. For callers
//          that must not block where they enqueue and will wait later.
//
// Destruction runs all that was enqueued; it must not happen in the stream's
// own work.
class LOCKSTEP_EXPORT HostStream final : public Stream {
 public:
  enum class Execution { kThread, kInline, kOnWait };

  explicit HostStream(std::string name = "ls-stream",
                      Execution execution = Execution::kThread);
  ~HostStream() override;

  // From kThread to kOnWait, or back. What was enqueued before is run as it
  // would have been; the order stays. InvalidArgument, and no change, from or
  // to kInline.
  absl::Status SetExecution(Execution execution);
  Execution execution() const;

  // Enqueues `work`; does not block, unless it runs it. Its status, if not OK,
  // becomes the stream's first error. `work` is destroyed before later work
  // runs.
  void Enqueue(absl::AnyInvocable<absl::Status()> work);

  // Enqueues `work` if the call would run it first, of all that is queued: on a
  // kInline stream that is idle. Else false, and nothing has happened. For work
  // that is small beside what it costs to keep it.
  bool TryRun(absl::FunctionRef<absl::Status()> work);

  Event Record() override;
  void WaitFor(const Event& event) override;
  absl::Status Synchronize() override;

 private:
  class LOCKSTEP_HIDDEN Queue;
  class LOCKSTEP_HIDDEN EventState;
  std::shared_ptr<Queue> queue_;  // events know it
};

}  // namespace lockstep

#endif  // LOCKSTEP_STREAM_H_
