// The DeviceContext::StreamGate of a GPU: Begin waits for Release, and then
// enqueues a copy of its message to the device.
//
// CUDA cannot wait for the host without a function on the host, which would
// hold up those of all streams: so the caller of Begin waits.
//
// When the gate is destroyed, work enqueued on the stream before may still read
// the message: its memory is used again once an event behind that work has
// completed (CudaDeviceState::Reclaim).
//
// Threads: Release by any, the rest by the caller of the stream.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_GATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_GATE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/transport/device_context.h"
#include "client/transport/nccl/cuda_device_state.h"
#include "client/transport/nccl/cuda_stream.h"

namespace lockstep::transport::nccl {

class CudaStreamGate final : public DeviceContext::StreamGate {
 public:
  // `message` and `staging`: `bytes` on the device, and pinned.
  CudaStreamGate(std::shared_ptr<CudaDeviceState> device, CudaStream* stream,
                 std::shared_ptr<void> message, std::shared_ptr<void> staging,
                 size_t bytes)
      : device_(std::move(device)),
        stream_(stream),
        tail_(stream->tail()),
        message_(std::move(message)),
        staging_(std::move(staging)),
        bytes_(bytes) {}
  ~CudaStreamGate() override;

  // Where the copy was refused, the pinned one, which kernels can read, too.
  const void* message() const override {
    return (is_copied_ ? message_ : staging_).get();
  }

  void Begin() override;
  void Release(const absl::Status& status, const void* message) override;

 private:
  const std::shared_ptr<CudaDeviceState> device_;
  CudaStream* const stream_;          // used until Begin returns
  std::shared_ptr<StreamTail> tail_;  // of the stream
  std::shared_ptr<void> message_;
  std::shared_ptr<void> staging_;
  const size_t bytes_;
  bool is_copied_ = true;
  Mutex mutex_;
  CondVar changed_;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_STREAM_GATE_H_
