// Makes a device current for the calling thread while the scope exists, then
// restores the thread's state.
//
//   caller's thread   device 0, mode global ──[ ours ]── device 0, mode global
//                                            └ device 3, mode relaxed
//
// A caller of this library may have its own current device, or none, which its
// kernels use. And a thread that is not in relaxed mode invalidates any capture
// that the process has begun in global mode (torch does so), even by querying
// an event. So each call of the tables is made inside a scope. The launch
// thread is inside one from beginning to end; all other code that calls CUDA
// makes a scope around its calls, but not around the caller's code.
//
// Threads: any; a scope belongs to its thread. Inside another scope of the same
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

  // An error if the device could not be made current: then nothing has changed.
  // If it succeeded once, it always does.
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
