// Events that are made once and taken many times: making one costs more host
// time than all that an operation does with it.
//
//   Take ──▶ recorded once, waited for, asked ──▶ GiveBack ──▶ Take ...
//
// CUDA keeps for each waiting stream the moment it waits for, so an event may
// be recorded anew while streams still wait for its former moment. Only who
// would still *ask* about that moment must not have given it back: CudaEvent
// (moment.h) does when nobody holds it.
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
  // Destroys the events that were given back; the others live on.
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  // The one that was given back last, if there is one; else a new one.
  CudaResult Take(CudaEventHandle* event);
  void GiveBack(CudaEventHandle event);

 private:
  const Source source_;
  Mutex mutex_;
  std::vector<CudaEventHandle> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_EVENT_POOL_H_
