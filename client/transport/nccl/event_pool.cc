#include "client/transport/nccl/event_pool.h"

namespace lockstep::transport::nccl {

EventPool::~EventPool() {
  for (const CudaEventHandle event : free_) source_.destroy(event);
}

CudaResult EventPool::Take(CudaEventHandle* event) {
  {
    MutexLock lock(&mutex_);
    if (!free_.empty()) {
      *event = free_.back();
      free_.pop_back();
      return CudaResult::kSuccess;
    }
  }
  return source_.make(event);
}

void EventPool::GiveBack(CudaEventHandle event) {
  MutexLock lock(&mutex_);
  free_.push_back(event);
}

}  // namespace lockstep::transport::nccl
