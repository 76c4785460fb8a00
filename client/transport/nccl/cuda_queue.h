// The DeviceContext::Queue of a GPU.
//
//   Launch(k)        wait for events ─▶ before ─▶ communicate ─▶ then
//                       │ enqueues        ▼            ▼          ▼
//   queue's stream   ───┴──────────────[kernels]──[collective]──[kernels]
//   side stream                                       [kernels of a side
//   `then`]
//
// The side stream's kernels run beside the next operation's collective, where
// the operation asks for it. The queue's stream waits for them before the next
// operation that does not.
//
// Threads: operations run on a thread of the queue, or in Drain (SetOnDrain).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_QUEUE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_QUEUE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/device_context.h"
#include "client/transport/nccl/cuda_device_state.h"
#include "client/transport/nccl/cuda_stream.h"
#include "lockstep/stream.h"

namespace lockstep::transport::nccl {

class CudaQueue final : public DeviceContext::Queue {
 public:
  CudaQueue(std::shared_ptr<CudaDeviceState> device,
            std::unique_ptr<CudaStream> stream,
            std::unique_ptr<CudaStream> side_stream, std::string name)
      : device_(std::move(device)),
        stream_(std::move(stream)),
        side_stream_(std::move(side_stream)),
        driver_(std::move(name)) {}

  void Launch(DeviceContext::Operation& operation,
              std::vector<Event> after) override;
  void SetOnDrain(bool on_drain) override;
  void Drain() override { driver_.Synchronize().IgnoreError(); }
  bool IsCapturedWithout(const Stream* stream) const override;

 private:
  void Drive(DeviceContext::Operation& operation,
             const std::vector<Event>& after);
  // With the errors of its calls, which are the stream's.
  absl::Status Communicate(DeviceContext::Operation& operation);

  const std::shared_ptr<CudaDeviceState> device_;
  const std::unique_ptr<CudaStream> stream_;
  const std::unique_ptr<CudaStream> side_stream_;
  bool used_side_stream_ = false;  // since the stream last waited for it
  HostStream driver_;              // last: its work uses all of the above
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_QUEUE_H_
