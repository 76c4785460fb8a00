// Operations on a CUDA stream: copies, kernels, events. The first error of a
// call is kept; later calls then do nothing.
//
// Threads: one, but for `mutex`.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_KERNEL_QUEUE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_KERNEL_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/transport/device_context.h"
#include "client/transport/nccl/cuda_device_state.h"
#include "client/transport/nccl/cuda_stream.h"

namespace lockstep::transport::nccl {

class CudaKernelQueue final : public DeviceContext::KernelQueue {
 public:
  // `mutex`: locked by each call if other threads use the stream too; may be
  // null.
  CudaKernelQueue(CudaDeviceState& device, CudaStream& stream,
                  Mutex* mutex = nullptr)
      : cuda_(*device.cuda),
        kernels_(*device.kernels),
        launcher_(*device.launcher),
        stream_(stream),
        mutex_(mutex) {}

  void Copy(const void* from, void* to, size_t bytes) override;
  void Zero(void* data, size_t bytes) override;
  void Pack(std::span<const kernels::TensorSlot> slots, DType dtype,
            double weight, bool add, void* bucket) override;
  void WriteFlags(std::span<const uint8_t> on, DType dtype,
                  void* flags) override;
  void Scale(void* data, DType dtype, double factor, size_t count) override;
  void CastScale(const void* from, DType from_dtype, double factor, void* to,
                 DType to_dtype, size_t count) override;
  void CastFeedback(const void* from, const void* residual, DType from_dtype,
                    void* to, DType to_dtype, void* next,
                    size_t count) override;
  void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
               double weight, void* out, DType out_dtype,
               size_t count) override;
  void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                   void* out, DType out_dtype, size_t count) override;
  void AddFiniteCheck(const void* data, DType dtype,
                      std::span<const kernels::ElementRange> ranges,
                      void* scratch, kernels::FiniteCheck* total) override;
  void ScaleAndCheck(void* data, DType dtype, double factor,
                     const kernels::ElementRange& scaled,
                     std::span<const kernels::ElementRange> checked,
                     void* scratch, kernels::FiniteCheck* total) override;

  void BeginReplay(const kernels::GateContext& context) override;
  void WriteStepRecord(const kernels::GateContext& context,
                       kernels::FiniteCheck* norm,
                       kernels::StepRecord* record) override;
  void GateStep(const kernels::GateContext& context,
                const kernels::StepRecord* own,
                const kernels::StepRecord* records,
                VerdictScalars* scalars) override;

  void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                  size_t bytes) override;

  void FillBoxes(std::span<const kernels::BoxFill> boxes,
                 std::span<void* const> out) override;
  void CopyBoxes(std::span<const kernels::StridedBox> boxes,
                 std::span<const void* const> in,
                 std::span<void* const> out) override;
  void SumBoxes(std::span<const kernels::StridedBox> boxes,
                std::span<const void* const> in, std::span<void* const> out,
                bool add) override;
  void RunLocalStep(const kernels::LocalStep& step) override;

  void CallOnce(absl::AnyInvocable<absl::Status()> work) override;

  // Later calls wait for `event`.
  void WaitFor(const Event& event);
  Event Done() override;
  Event Mark() override;
  absl::Status status() const override;

 private:
  template <typename Call>
  void Do(const char* name, Call call);

  CudaApi& cuda_;
  KernelApi& kernels_;
  const Launcher& launcher_;
  CudaStream& stream_;
  Mutex* const mutex_;
  Mutex unused_;
  bool used_ = false;
  absl::Status status_;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_KERNEL_QUEUE_H_
