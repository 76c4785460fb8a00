// Events on a device, and promises of events.
//
// An event is meaningful only once it has been recorded after its work. The
// launch thread records it later than the caller's call, so the caller gets an
// EventPromise.
//
//   caller          Launch ───────────▶ waits for Publish, then makes a stream
//                      │                wait for the event
//   launch thread      └▶ enqueue, poll until it is queued, record, Publish
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_api.h"
#include "lockstep/stream.h"

namespace lockstep::transport::nccl {

// One CUDA event, recorded once and never again: re-recording would mislead
// queries that are still about its former record.
class CudaEvent {
 public:
  // A fresh event after all work on `stream` now. `captured`: the stream is
  // being captured. Such an event is a node of a graph: streams of the capture
  // may wait for it, but it never completes and must not be queried.
  static absl::StatusOr<std::shared_ptr<CudaEvent>> Record(
      CudaApi* cuda, CudaStreamHandle stream, bool captured = false);
  ~CudaEvent() { cuda_->EventDestroy(handle_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Whether it has completed; an error of the device if it never will.
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

// The completion of an operation, available once it is queued: its event, which
// follows everything that it had to wait for. If the operation is given up
// before it is queued: what it had to wait for, of which some may still be
// promised.
class EventPromise {
 public:
  using All = std::vector<std::shared_ptr<EventPromise>>;

  EventPromise() = default;
  // Published, with no events, once `host`, of a stream on the host, is
  // complete.
  explicit EventPromise(Event host) : host_(std::move(host)) {}

  // Called once, by the launch thread or the owner of a gate. `also`: of an
  // operation that is given up; it is published with the last of them.
  void Publish(CudaEvents events, const All& also = {});

  bool published() const;
  // Empty before it is published.
  CudaEvents events() const;
  // Returns false if the deadline passed first.
  bool Wait(const Deadline& deadline) const;

 private:
  const std::optional<Event> host_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  // Adds to `events` what is known, and to `promised` what is not.
  static void Resolve(const std::shared_ptr<EventPromise>& promise,
                      CudaEvents* events, All* promised);

  bool published_ ABSL_GUARDED_BY(mutex_) = false;
  CudaEvents events_ ABSL_GUARDED_BY(mutex_);
  All also_ ABSL_GUARDED_BY(mutex_);  // none of them has others
};

// All work that a stream had when the state was made.
class CudaEventState final : public Event::State {
 public:
  CudaEventState(CudaEvents events,
                 std::vector<std::shared_ptr<EventPromise>> promises)
      : events_(std::move(events)), promises_(std::move(promises)) {}

  // As Reached, but true after a device error: nothing more will complete.
  bool Done() const override;
  // The device's error if it never completes; FailedPrecondition for a node of
  // a graph (CudaEvent::Record).
  absl::Status Wait(absl::Duration timeout) const override;

  // Whether all of it is complete; an error of the device if it never will be.
  absl::StatusOr<bool> Reached() const;

  // Whether all its promises are published.
  bool published() const;
  // Whether one of the published events is a node of a graph.
  bool captured() const;

  // The events published so far.
  CudaEvents Known() const;

  // Makes `stream` wait for it. Everything must have been published.
  absl::Status Join(CudaApi& cuda, CudaStreamHandle stream) const;

  const CudaEvents& events() const { return events_; }
  const std::vector<std::shared_ptr<EventPromise>>& promises() const {
    return promises_;
  }

 private:
  const CudaEvents events_;
  const std::vector<std::shared_ptr<EventPromise>> promises_;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_
