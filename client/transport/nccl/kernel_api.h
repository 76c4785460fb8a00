// The kernels that run beside NCCL's, as a table of functions with the
// signatures of their host twins (kernels/) and a stream. The twins define each
// result, bit for bit.
//
// Enqueues on `stream` and returns; allocates nothing and waits for nothing.
// The stream's device must be current: call inside a DeviceScope.
//
// Threads: any; one stream by one thread at a time.
// Memory:  on the device, except lists (slots, ranges, flags, boxes and their
//          pointers), which are copied in the call. Memory that pointers refer
//          to must live until the stream has run the kernel. A captured kernel
//          (CUDA graphs) keeps the lists and pointers of its call.
// Errors:  CUDA's numbers. A wrong argument ends the process, as in the twin.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_API_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_API_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "client/transport/nccl/cuda_api.h"
#include "kernels/finite_check.h"
#include "kernels/local_step.h"
#include "kernels/slots.h"
#include "kernels/step_gate.h"
#include "kernels/strided_box.h"
#include "lockstep/dtype.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::transport::nccl {

class KernelApi {
 public:
  using Slots = std::span<const kernels::TensorSlot>;
  using Ranges = std::span<const kernels::ElementRange>;
  using Boxes = std::span<const kernels::StridedBox>;
  using BoxFills = std::span<const kernels::BoxFill>;
  using Inputs = std::span<const void* const>;
  using Outputs = std::span<void* const>;

  virtual ~KernelApi() = default;

  // --- kernels/pack.h: many tensors and their bucket, in one launch ---
  virtual CudaResult Pack(Slots slots, DType dtype, void* bucket,
                          CudaStreamHandle stream) = 0;
  virtual CudaResult PackScaled(Slots slots, DType dtype, double weight,
                                void* bucket, CudaStreamHandle stream) = 0;
  virtual CudaResult PackAdded(Slots slots, DType dtype, double weight,
                               void* bucket, CudaStreamHandle stream) = 0;
  virtual CudaResult Unpack(const void* bucket, Slots slots, DType dtype,
                            CudaStreamHandle stream) = 0;
  virtual CudaResult UnpackScaled(const void* bucket, Slots slots, DType dtype,
                                  double factor, CudaStreamHandle stream) = 0;
  virtual CudaResult ScaleSlots(void* bucket, Slots slots, DType dtype,
                                double factor, CudaStreamHandle stream) = 0;
  virtual CudaResult ZeroSlots(void* bucket, Slots slots, DType dtype,
                               CudaStreamHandle stream) = 0;

  // --- kernels/flags.h ---
  virtual CudaResult WriteFlags(std::span<const uint8_t> on, DType dtype,
                                void* flags, CudaStreamHandle stream) = 0;

  // --- kernels/cast_scale.h ---
  virtual CudaResult CastScale(const void* src, DType src_dtype, double factor,
                               void* dst, DType dst_dtype, size_t count,
                               CudaStreamHandle stream) = 0;
  CudaResult Scale(void* data, DType dtype, double factor, size_t count,
                   CudaStreamHandle stream) {
    return CastScale(data, dtype, factor, data, dtype, count, stream);
  }

  // --- kernels/cast_feedback.h ---
  virtual CudaResult CastFeedback(const void* src, const void* residual,
                                  DType src_dtype, void* dst, DType dst_dtype,
                                  void* next, size_t count,
                                  CudaStreamHandle stream) = 0;

  // --- kernels/reduce.h; min and max propagate NaN, which NCCL's (fminf,
  // fmaxf) do not ---
  virtual CudaResult ReduceRows(const void* inputs, int rows, void* out,
                                size_t count, DType dtype, ReduceOp op,
                                CudaStreamHandle stream) = 0;

  // --- kernels/add_leaf.h; `left` is read in the call ---
  virtual CudaResult AddLeaf(std::span<const void* const> left,
                             const void* leaf, DType dtype, double weight,
                             void* out, DType out_dtype, size_t count,
                             CudaStreamHandle stream) = 0;

  // --- kernels/reduce_pairs.h ---
  virtual CudaResult ReducePairs(const void* inputs, int rows, DType dtype,
                                 double factor, void* out, DType out_dtype,
                                 size_t count, CudaStreamHandle stream) = 0;

  // --- kernels/finite_check.h ---
  // `scratch`: FiniteCheckScratchBytes(ranges). *total is in device memory too;
  // zero it first (CudaApi::MemsetAsync).
  virtual CudaResult AddFiniteCheck(const void* data, DType dtype,
                                    Ranges ranges, double inverse_scale,
                                    void* scratch, kernels::FiniteCheck* total,
                                    CudaStreamHandle stream) = 0;

  // --- kernels/scale_and_check.h; `scratch` and *total as above ---
  virtual CudaResult ScaleAndCheck(void* data, DType dtype, double factor,
                                   const kernels::ElementRange& scaled,
                                   Ranges checked, void* scratch,
                                   kernels::FiniteCheck* total,
                                   CudaStreamHandle stream) = 0;

  // --- kernels/local_step.h ---
  virtual CudaResult RunLocalStep(const kernels::LocalStep& step,
                                  CudaStreamHandle stream) = 0;

  // --- kernels/strided_box.h: many boxes in one launch ---
  virtual CudaResult CopyBoxes(Boxes boxes, Inputs in, Outputs out,
                               CudaStreamHandle stream) = 0;
  virtual CudaResult FillBoxes(BoxFills fills, Outputs out,
                               CudaStreamHandle stream) = 0;
  virtual CudaResult SumBoxes(Boxes boxes, Inputs in, Outputs out, bool add,
                              CudaStreamHandle stream) = 0;

  // --- kernels/step_gate.h, kernels/gate_tiles.h; stop, inputs, journal and
  // board in pinned memory ---
  virtual CudaResult BeginReplay(const kernels::GateContext& context,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult WriteStepRecord(const kernels::GateContext& context,
                                     kernels::FiniteCheck* norm,
                                     kernels::StepRecord* record,
                                     CudaStreamHandle stream) = 0;
  virtual CudaResult VerifyTiles(const kernels::GateContext& context,
                                 const kernels::StepRecord* records,
                                 CudaStreamHandle stream) = 0;
  virtual CudaResult GateStep(const kernels::GateContext& context,
                              const kernels::StepRecord* own,
                              const kernels::StepRecord* records,
                              VerdictScalars* scalars,
                              CudaStreamHandle stream) = 0;

  // --- kernels/verdict_gate.h: no effect unless the verdict commits ---
  virtual CudaResult CommitCopy(const VerdictScalars* verdict, const void* from,
                                void* to, size_t bytes,
                                CudaStreamHandle stream) = 0;
  virtual CudaResult CommitUnpack(const VerdictScalars* verdict,
                                  const void* bucket, Slots slots, DType dtype,
                                  CudaStreamHandle stream) = 0;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_API_H_
