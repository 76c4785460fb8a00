// Events on a device.
//
// An event is recorded in the call that enqueues its work, and refers to that
// record for ever.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
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

// All work that a stream had when the state was made.
class CudaEventState final : public Event::State {
 public:
  // Null: nothing, complete. An error: it could not be recorded, so nothing can
  // be ordered behind it, and every wait for it returns the error.
  explicit CudaEventState(absl::StatusOr<std::shared_ptr<CudaEvent>> event)
      : event_(std::move(event)) {}

  // As Reached, but true after a device error: nothing more will complete.
  bool Done() const override;
  // The device's error if it never completes; FailedPrecondition for a node of
  // a graph (CudaEvent::Record); the error of the record.
  absl::Status Wait(absl::Duration timeout) const override;

  // Whether it is complete; an error of the device if it never will be.
  absl::StatusOr<bool> Reached() const;

  // Makes `stream` wait for it; the error of Wait, or of the call, if it does
  // not.
  absl::Status Join(CudaApi& cuda, CudaStreamHandle stream) const;

 private:
  const absl::StatusOr<std::shared_ptr<CudaEvent>> event_;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_STATE_H_
