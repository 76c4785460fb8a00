// Makes the calling thread a device's for as long as it lives, and leaves the
// thread as it was.
//
//   caller's thread   device 0, mode global ──[ ours ]── device 0, mode global
//                                            └ device 3, mode relaxed
//
// A caller of this library has a current device of its own, and perhaps none:
// its own kernels go there. And a thread that is not in relaxed mode makes a
// capture invalid that anybody in the process has begun in global mode, as
// torch does, by asking whether an event has come. So each call of the tables
// is made inside a scope. The launch thread is inside from beginning to end;
// everything else that calls CUDA makes a scope for its calls, and none around
// code of the caller's.
//
// Threads: any; a scope is its thread's own. Inside another one of the same
// device it costs nothing.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_DEVICE_SCOPE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_DEVICE_SCOPE_H_

#include "client/transport/nccl/cuda_api.h"

namespace lockstep::transport::nccl {

class DeviceScope {
 public:
  // `cuda` must outlive it.
  explicit DeviceScope(CudaApi& cuda) : outer_(inside_) {
    if (outer_ == &cuda) return;
    result_ = cuda.EnterThread(&before_);
    if (result_ != CudaResult::kSuccess) return;
    entered_ = &cuda;
    inside_ = &cuda;
  }
  ~DeviceScope() {
    if (entered_ == nullptr) return;
    inside_ = outer_;
    entered_->LeaveThread(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  // An error, if the device could not be made the thread's: nothing has
  // changed. Once it could, it can again.
  CudaResult result() const { return result_; }

 private:
  inline static thread_local CudaApi* inside_ = nullptr;

  CudaApi* const outer_;
  CudaApi* entered_ = nullptr;
  CudaThread before_;
  CudaResult result_ = CudaResult::kSuccess;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_DEVICE_SCOPE_H_
