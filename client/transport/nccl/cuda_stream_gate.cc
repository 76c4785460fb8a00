#include "client/transport/nccl/cuda_stream_gate.h"

#include <cstring>

#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {

CudaStreamGate::~CudaStreamGate() {
  device_->Retire({.message = std::move(message_),
                   .staging = std::move(staging_),
                   .readers = StreamFence(std::move(tail_))});
}

void CudaStreamGate::Begin() {
  {
    MutexLock lock(&mutex_);
    while (!released_) changed_.Wait(&mutex_);
  }
  CudaApi& cuda = *device_->cuda;
  const DeviceScope scope(cuda);
  is_copied_ = Check(cuda,
                     cuda.MemcpyAsync(message_.get(), staging_.get(), bytes_,
                                      stream_->handle()),
                     "MemcpyAsync")
                   .ok();
}

void CudaStreamGate::Release(const absl::Status& status, const void* message) {
  MutexLock lock(&mutex_);
  stream_->error()->Set(status);
  std::memcpy(staging_.get(), message, bytes_);
  released_ = true;
  changed_.NotifyAll();
}

}  // namespace lockstep::transport::nccl
