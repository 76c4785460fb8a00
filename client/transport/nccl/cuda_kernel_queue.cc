#include "client/transport/nccl/cuda_kernel_queue.h"

#include <memory>
#include <utility>

#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "kernels/gate_tiles.h"

namespace lockstep::transport::nccl {
namespace {

// The argument of a function that a stream runs once on the host.
struct HostCall {
  absl::AnyInvocable<absl::Status()> work;
  std::shared_ptr<FirstError> error;

  static void Run(void* call) {
    const std::unique_ptr<HostCall> self(static_cast<HostCall*>(call));
    self->error->Set(self->work());
  }
};

}  // namespace

template <typename Call>
void CudaKernelQueue::Do(const char* name, Call call) {
  if (!status_.ok()) return;
  const DeviceScope scope(cuda_);
  const MutexLock lock(mutex_ == nullptr ? &unused_ : mutex_);
  status_ = Check(cuda_, call(stream_.handle()), name);
  used_ = true;
}

void CudaKernelQueue::Copy(const void* from, void* to, size_t bytes) {
  if (bytes == 0) return;
  Do("MemcpyAsync", [&](CudaStreamHandle stream) {
    return cuda_.MemcpyAsync(to, from, bytes, stream);
  });
}

void CudaKernelQueue::Zero(void* data, size_t bytes) {
  if (bytes == 0) return;
  Do("MemsetAsync", [&](CudaStreamHandle stream) {
    return cuda_.MemsetAsync(data, 0, bytes, stream);
  });
}

void CudaKernelQueue::Pack(std::span<const kernels::TensorSlot> slots,
                           DType dtype, double weight, bool add, void* bucket) {
  Do("kernel Pack", [&](CudaStreamHandle stream) {
    if (add) return kernels_.PackAdded(slots, dtype, weight, bucket, stream);
    if (weight == 1.0) return kernels_.Pack(slots, dtype, bucket, stream);
    return kernels_.PackScaled(slots, dtype, weight, bucket, stream);
  });
}

void CudaKernelQueue::WriteFlags(std::span<const uint8_t> on, DType dtype,
                                 void* flags) {
  Do("kernel WriteFlags", [&](CudaStreamHandle stream) {
    return kernels_.WriteFlags(on, dtype, flags, stream);
  });
}

void CudaKernelQueue::Scale(void* data, DType dtype, double factor,
                            size_t count) {
  Do("kernel Scale", [&](CudaStreamHandle stream) {
    return kernels_.Scale(data, dtype, factor, count, stream);
  });
}

void CudaKernelQueue::CastScale(const void* from, DType from_dtype,
                                double factor, void* to, DType to_dtype,
                                size_t count) {
  Do("kernel CastScale", [&](CudaStreamHandle stream) {
    return kernels_.CastScale(from, from_dtype, factor, to, to_dtype, count,
                              stream);
  });
}

void CudaKernelQueue::CastFeedback(const void* from, const void* residual,
                                   DType from_dtype, void* to, DType to_dtype,
                                   void* next, size_t count) {
  Do("kernel CastFeedback", [&](CudaStreamHandle stream) {
    return kernels_.CastFeedback(from, residual, from_dtype, to, to_dtype, next,
                                 count, stream);
  });
}

void CudaKernelQueue::AddLeaf(std::span<const void* const> left,
                              const void* leaf, DType dtype, double weight,
                              void* out, DType out_dtype, size_t count) {
  Do("kernel AddLeaf", [&](CudaStreamHandle stream) {
    return kernels_.AddLeaf(left, leaf, dtype, weight, out, out_dtype, count,
                            stream);
  });
}

void CudaKernelQueue::ReducePairs(const void* inputs, int rows, DType dtype,
                                  double factor, void* out, DType out_dtype,
                                  size_t count) {
  Do("kernel ReducePairs", [&](CudaStreamHandle stream) {
    return kernels_.ReducePairs(inputs, rows, dtype, factor, out, out_dtype,
                                count, stream);
  });
}

void CudaKernelQueue::AddFiniteCheck(
    const void* data, DType dtype,
    std::span<const kernels::ElementRange> ranges, void* scratch,
    kernels::FiniteCheck* total) {
  Do("kernel AddFiniteCheck", [&](CudaStreamHandle stream) {
    return kernels_.AddFiniteCheck(data, dtype, ranges,
                                   /*inverse_scale=*/1.0, scratch, total,
                                   stream);
  });
}

void CudaKernelQueue::ScaleAndCheck(
    void* data, DType dtype, double factor, const kernels::ElementRange& scaled,
    std::span<const kernels::ElementRange> checked, void* scratch,
    kernels::FiniteCheck* total) {
  Do("kernel ScaleAndCheck", [&](CudaStreamHandle stream) {
    return kernels_.ScaleAndCheck(data, dtype, factor, scaled, checked, scratch,
                                  total, stream);
  });
}

// Outside of the capture it would run now, and no gate would end it.
void CudaKernelQueue::BeginReplay(const kernels::GateContext& context) {
  const absl::StatusOr<CudaCaptureId> capture = stream_.FindCapture();
  status_.Update(capture.status());
  if (!status_.ok()) return;
  if (*capture == 0 || *capture != launcher_.open_capture()) {
    status_ = absl::FailedPreconditionError(
        "the capture has ended, or was invalid for a while");
    return;
  }
  Do("kernel BeginReplay", [&](CudaStreamHandle stream) {
    return kernels_.BeginReplay(context, stream);
  });
}

void CudaKernelQueue::WriteStepRecord(const kernels::GateContext& context,
                                      kernels::FiniteCheck* norm,
                                      kernels::StepRecord* record) {
  Do("kernel WriteStepRecord", [&](CudaStreamHandle stream) {
    return kernels_.WriteStepRecord(context, norm, record, stream);
  });
}

void CudaKernelQueue::GateStep(const kernels::GateContext& context,
                               const kernels::StepRecord* own,
                               const kernels::StepRecord* records,
                               VerdictScalars* scalars) {
  if (kernels::HasTiles(context.world)) {
    Do("kernel VerifyTiles", [&](CudaStreamHandle stream) {
      return kernels_.VerifyTiles(context, records, stream);
    });
  }
  Do("kernel GateStep", [&](CudaStreamHandle stream) {
    return kernels_.GateStep(context, own, records, scalars, stream);
  });
}

void CudaKernelQueue::CommitCopy(const VerdictScalars* verdict,
                                 const void* from, void* to, size_t bytes) {
  Do("kernel CommitCopy", [&](CudaStreamHandle stream) {
    return kernels_.CommitCopy(verdict, from, to, bytes, stream);
  });
}

void CudaKernelQueue::FillBoxes(std::span<const kernels::BoxFill> boxes,
                                std::span<void* const> out) {
  Do("kernel FillBoxes", [&](CudaStreamHandle stream) {
    return kernels_.FillBoxes(boxes, out, stream);
  });
}

void CudaKernelQueue::CopyBoxes(std::span<const kernels::StridedBox> boxes,
                                std::span<const void* const> in,
                                std::span<void* const> out) {
  Do("kernel CopyBoxes", [&](CudaStreamHandle stream) {
    return kernels_.CopyBoxes(boxes, in, out, stream);
  });
}

void CudaKernelQueue::SumBoxes(std::span<const kernels::StridedBox> boxes,
                               std::span<const void* const> in,
                               std::span<void* const> out, bool add) {
  Do("kernel SumBoxes", [&](CudaStreamHandle stream) {
    return kernels_.SumBoxes(boxes, in, out, add, stream);
  });
}

void CudaKernelQueue::RunLocalStep(const kernels::LocalStep& step) {
  Do("kernel RunLocalStep", [&](CudaStreamHandle stream) {
    return kernels_.RunLocalStep(step, stream);
  });
}

void CudaKernelQueue::CallOnce(absl::AnyInvocable<absl::Status()> work) {
  if (stream_.capture() != 0) {
    return status_.Update(absl::FailedPreconditionError(
        "work that runs once cannot be part of a graph"));
  }
  auto call = std::make_unique<HostCall>(
      HostCall{.work = std::move(work), .error = stream_.error()});
  Do("LaunchHostFunc", [&](CudaStreamHandle stream) {
    const CudaResult result =
        cuda_.LaunchHostFunc(stream, &HostCall::Run, call.get());
    // The device's runtime owns an enqueued call.
    if (result == CudaResult::kSuccess) (void)call.release();
    return result;
  });
}

void CudaKernelQueue::WaitFor(const Event& event) {
  if (status_.ok()) status_ = stream_.TryWaitFor(event);
}

Event CudaKernelQueue::Done() {
  // An unused queue on the shared stream has nothing to wait for. A caller's
  // stream may have earlier work.
  if (!used_ && mutex_ != nullptr) return Event();
  auto event = stream_.TryRecord();
  status_.Update(event.status());
  return Event(std::make_shared<CudaEventState>(std::move(event)));
}

Event CudaKernelQueue::Mark() {
  if (mutex_ != nullptr || stream_.capture() != 0) return Done();
  return stream_.Mark();
}

absl::Status CudaKernelQueue::status() const { return status_; }

}  // namespace lockstep::transport::nccl
