// The table of the kernels in kernels/device. A launch uses the thread's
// current device, which must be the stream's (device_scope.h).

#include <cuda_runtime_api.h>

#include "client/transport/nccl/gpu.h"
#include "kernels/device/add_leaf.h"
#include "kernels/device/cast_feedback.h"
#include "kernels/device/cast_scale.h"
#include "kernels/device/finite_check.h"
#include "kernels/device/flags.h"
#include "kernels/device/local_step.h"
#include "kernels/device/pack.h"
#include "kernels/device/reduce.h"
#include "kernels/device/reduce_pairs.h"
#include "kernels/device/scale_and_check.h"
#include "kernels/device/step_gate.h"
#include "kernels/device/strided_box.h"
#include "kernels/device/verdict_gate.h"

namespace lockstep::transport::nccl {
namespace {

namespace device = kernels::device;

class DeviceKernels final : public KernelApi {
 public:
  CudaResult Pack(Slots slots, DType dtype, void* bucket,
                  CudaStreamHandle stream) override {
    return Result(device::Pack(slots, dtype, bucket, stream));
  }
  CudaResult PackScaled(Slots slots, DType dtype, double weight, void* bucket,
                        CudaStreamHandle stream) override {
    return Result(device::PackScaled(slots, dtype, weight, bucket, stream));
  }
  CudaResult PackAdded(Slots slots, DType dtype, double weight, void* bucket,
                       CudaStreamHandle stream) override {
    return Result(device::PackAdded(slots, dtype, weight, bucket, stream));
  }
  CudaResult Unpack(const void* bucket, Slots slots, DType dtype,
                    CudaStreamHandle stream) override {
    return Result(device::Unpack(bucket, slots, dtype, stream));
  }
  CudaResult UnpackScaled(const void* bucket, Slots slots, DType dtype,
                          double factor, CudaStreamHandle stream) override {
    return Result(device::UnpackScaled(bucket, slots, dtype, factor, stream));
  }
  CudaResult ScaleSlots(void* bucket, Slots slots, DType dtype, double factor,
                        CudaStreamHandle stream) override {
    return Result(device::ScaleSlots(bucket, slots, dtype, factor, stream));
  }
  CudaResult ZeroSlots(void* bucket, Slots slots, DType dtype,
                       CudaStreamHandle stream) override {
    return Result(device::ZeroSlots(bucket, slots, dtype, stream));
  }

  CudaResult WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags,
                        CudaStreamHandle stream) override {
    return Result(device::WriteFlags(on, dtype, flags, stream));
  }
  CudaResult CastScale(const void* src, DType src_dtype, double factor,
                       void* dst, DType dst_dtype, size_t count,
                       CudaStreamHandle stream) override {
    return Result(device::CastScale(src, src_dtype, factor, dst, dst_dtype,
                                    count, stream));
  }
  CudaResult CastFeedback(const void* src, const void* residual,
                          DType src_dtype, void* dst, DType dst_dtype,
                          void* next, size_t count,
                          CudaStreamHandle stream) override {
    return Result(device::CastFeedback(src, residual, src_dtype, dst, dst_dtype,
                                       next, count, stream));
  }
  CudaResult ReduceRows(const void* inputs, int rows, void* out, size_t count,
                        DType dtype, ReduceOp op,
                        CudaStreamHandle stream) override {
    return Result(
        device::ReduceRows(inputs, rows, out, count, dtype, op, stream));
  }
  CudaResult AddLeaf(std::span<const void* const> left, const void* leaf,
                     DType dtype, double weight, void* out, DType out_dtype,
                     size_t count, CudaStreamHandle stream) override {
    return Result(device::AddLeaf(left, leaf, dtype, weight, out, out_dtype,
                                  count, stream));
  }
  CudaResult ReducePairs(const void* inputs, int rows, DType dtype,
                         double factor, void* out, DType out_dtype,
                         size_t count, CudaStreamHandle stream) override {
    return Result(device::ReducePairs(inputs, rows, dtype, factor, out,
                                      out_dtype, count, stream));
  }
  CudaResult AddFiniteCheck(const void* data, DType dtype, Ranges ranges,
                            double inverse_scale, void* scratch,
                            kernels::FiniteCheck* total,
                            CudaStreamHandle stream) override {
    return Result(device::AddFiniteCheck(data, dtype, ranges, inverse_scale,
                                         scratch, total, stream));
  }
  CudaResult ScaleAndCheck(void* data, DType dtype, double factor,
                           const kernels::ElementRange& scaled, Ranges checked,
                           void* scratch, kernels::FiniteCheck* total,
                           CudaStreamHandle stream) override {
    return Result(device::ScaleAndCheck(data, dtype, factor, scaled, checked,
                                        scratch, total, stream));
  }
  CudaResult RunLocalStep(const kernels::LocalStep& step,
                          CudaStreamHandle stream) override {
    return Result(device::RunLocalStep(step, stream));
  }
  CudaResult CopyBoxes(Boxes boxes, Inputs in, Outputs out,
                       CudaStreamHandle stream) override {
    return Result(device::CopyBoxes(boxes, in, out, stream));
  }
  CudaResult FillBoxes(BoxFills fills, Outputs out,
                       CudaStreamHandle stream) override {
    return Result(device::FillBoxes(fills, out, stream));
  }
  CudaResult SumBoxes(Boxes boxes, Inputs in, Outputs out, bool add,
                      CudaStreamHandle stream) override {
    return Result(device::SumBoxes(boxes, in, out, add, stream));
  }

  CudaResult BeginReplay(const kernels::GateContext& context,
                         CudaStreamHandle stream) override {
    return Result(device::BeginReplay(context, stream));
  }
  CudaResult WriteStepRecord(const kernels::GateContext& context,
                             kernels::FiniteCheck* norm,
                             kernels::StepRecord* record,
                             CudaStreamHandle stream) override {
    return Result(device::WriteStepRecord(context, norm, record, stream));
  }
  CudaResult VerifyTiles(const kernels::GateContext& context,
                         const kernels::StepRecord* records,
                         CudaStreamHandle stream) override {
    return Result(device::VerifyTiles(context, records, stream));
  }
  CudaResult GateStep(const kernels::GateContext& context,
                      const kernels::StepRecord* own,
                      const kernels::StepRecord* records,
                      VerdictScalars* scalars,
                      CudaStreamHandle stream) override {
    return Result(device::GateStep(context, own, records, scalars, stream));
  }

  CudaResult CommitCopy(const VerdictScalars* verdict, const void* from,
                        void* to, size_t bytes,
                        CudaStreamHandle stream) override {
    return Result(device::CommitCopy(verdict, from, to, bytes, stream));
  }
  CudaResult CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                          Slots slots, DType dtype,
                          CudaStreamHandle stream) override {
    return Result(device::CommitUnpack(verdict, bucket, slots, dtype, stream));
  }

 private:
  static CudaResult Result(device::Launched launched) {
    return static_cast<CudaResult>(launched);
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<KernelApi>> LoadKernels() {
  return std::make_shared<DeviceKernels>();
}

}  // namespace lockstep::transport::nccl
