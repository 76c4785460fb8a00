// A pool of events, since creating one costs more host time than all other uses
// of it by an operation.
//
//   Take ──▶ recorded once, waited for, queried ──▶ GiveBack ──▶ Take ...
//
// A stream that waits for an event waits for the record at the time of its
// call, so an event may be recorded again while streams still wait for its
// former record. Only a *query* would get the new record: an event must not be
// given back while it may still be queried. CudaEvent (event_state.h) gives it
// back when its last reference is dropped.
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_POOL_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_POOL_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_api.h"

namespace lockstep::transport::nccl {

class EventPool {
 public:
  struct Source {
    std::function<CudaResult(CudaEventHandle*)> make;
    std::function<CudaResult(CudaEventHandle)> destroy;
  };

  explicit EventPool(Source source) : source_(std::move(source)) {}
  // Destroys the events that were given back; the others are not affected.
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // Returns the event given back last, or else a new one.
  CudaResult Take(CudaEventHandle* event);
  void GiveBack(CudaEventHandle event);

 private:
  const Source source_;
  Mutex mutex_;
  std::vector<CudaEventHandle> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_POOL_H_
