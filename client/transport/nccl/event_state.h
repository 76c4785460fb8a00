// Moments on a device: events, and events that are still to come.
//
// An event says something only once it has been recorded behind the work it
// stands for. The launch thread records it later than the caller asks for the
// operation, so what the caller gets is a EventPromise: the promise of an
// event.
//
//   caller          Launch ───────────▶ waits for the publication, then lets
//                      │                a stream wait for the event
//   launch thread      └▶ enqueue, poll until it is queued, record, Publish
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_api.h"
#include "lockstep/stream.h"

namespace lockstep::transport::nccl {

// One CUDA event, recorded once and never again: a reused event would tell
// those who still wait for its former moment that this one has come.
class CudaEvent {
 public:
  // A fresh event behind everything that `stream` holds now. `captured`: the
  // stream is being captured. Such an event is a place in a graph and no
  // moment: streams of the capture may wait for it, but it never comes, and
  // must not be asked about.
  static absl::StatusOr<std::shared_ptr<CudaEvent>> Record(
      CudaApi* cuda, CudaStreamHandle stream, bool captured = false);
  ~CudaEvent() { cuda_->EventDestroy(handle_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Whether it has come; an error of the device, if it never will.
  absl::StatusOr<bool> Reached() const;
  bool captured() const { return captured_; }
  CudaEventHandle handle() const { return handle_; }

 private:
  CudaEvent(CudaApi* cuda, CudaEventHandle handle, bool captured)
      : cuda_(cuda), handle_(handle), captured_(captured) {}

  CudaApi* const cuda_;
  const CudaEventHandle handle_;
  const bool captured_;
};

using CudaEvents = std::vector<std::shared_ptr<CudaEvent>>;

// When an operation will have run, once it is queued: its event, which comes
// after all that it had to wait for. If the operation is given up before it is
// queued, the events of what it had to wait for.
class EventPromise {
 public:
  // By the launch thread, once.
  void Publish(CudaEvents events);

  bool published() const;
  // None before it is published.
  CudaEvents events() const;
  // False if the deadline passed first.
  bool Wait(const Deadline& deadline) const;

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool published_ ABSL_GUARDED_BY(mutex_) = false;
  CudaEvents events_ ABSL_GUARDED_BY(mutex_);
};

// All that a stream held when the moment was taken.
class CudaEventState final : public Event::State {
 public:
  CudaEventState(CudaEvents events,
                 std::vector<std::shared_ptr<EventPromise>> publications)
      : events_(std::move(events)), publications_(std::move(publications)) {}

  // As Reached; true also after an error of the device: nothing more will come.
  bool Done() const override;
  // The device's error, if it never comes; FailedPrecondition for a place in a
  // graph (CudaEvent::Record).
  absl::Status Wait(absl::Duration timeout) const override;

  // Whether all of it has come; an error of the device, if it never will.
  absl::StatusOr<bool> Reached() const;

  // Whether all its events are known.
  bool published() const;
  // Whether one of those that are is a place in a graph.
  bool captured() const;

  // The events that are known by now.
  CudaEvents Known() const;

  // Lets `stream` wait for it. Everything must have been published.
  absl::Status Join(CudaApi& cuda, CudaStreamHandle stream) const;

  const CudaEvents& events() const { return events_; }
  const std::vector<std::shared_ptr<EventPromise>>& publications() const {
    return publications_;
  }

 private:
  const CudaEvents events_;
  const std::vector<std::shared_ptr<EventPromise>> publications_;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_
