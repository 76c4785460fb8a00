// The kernels of fake devices: their host references, in stream order.

#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/add_leaf.h"
#include "kernels/cast_feedback.h"
#include "kernels/cast_scale.h"
#include "kernels/flags.h"
#include "kernels/gate_tiles.h"
#include "kernels/local_step.h"
#include "kernels/pack.h"
#include "kernels/reduce.h"
#include "kernels/reduce_pairs.h"
#include "kernels/scale_and_check.h"
#include "kernels/step_gate.h"
#include "kernels/step_replays.h"
#include "kernels/strided_box.h"
#include "kernels/verdict_gate.h"
#include "tests/support/fake_cuda.h"

namespace lockstep::fake {
namespace {

using kernels::TensorSlot;
using transport::nccl::CudaResult;
using transport::nccl::CudaStreamHandle;
using transport::nccl::KernelApi;

class FakeKernels final : public KernelApi {
 public:
  FakeKernels(Scheduler* scheduler, int device)
      : scheduler_(*scheduler), device_(device) {}

  CudaResult Pack(Slots slots, DType dtype, void* bucket,
                  CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::Pack(At(list), dtype, At(bucket));
    });
  }
  CudaResult PackScaled(Slots slots, DType dtype, double weight, void* bucket,
                        CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::PackScaled(At(list), dtype, weight, At(bucket));
    });
  }
  CudaResult PackAdded(Slots slots, DType dtype, double weight, void* bucket,
                       CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::PackAdded(At(list), dtype, weight, At(bucket));
    });
  }
  CudaResult Unpack(const void* bucket, Slots slots, DType dtype,
                    CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::Unpack(At(bucket), At(list), dtype);
    });
  }
  CudaResult UnpackScaled(const void* bucket, Slots slots, DType dtype,
                          double factor, CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::UnpackScaled(At(bucket), At(list), dtype, factor);
    });
  }
  CudaResult ScaleSlots(void* bucket, Slots slots, DType dtype, double factor,
                        CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::ScaleSlots(At(bucket), At(list), dtype, factor);
    });
  }
  CudaResult ZeroSlots(void* bucket, Slots slots, DType dtype,
                       CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::ZeroSlots(At(bucket), At(list), dtype);
    });
  }

  CudaResult WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags,
                        CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(on)] {
      kernels::WriteFlags(list, dtype, At(flags));
    });
  }
  CudaResult CastScale(const void* src, DType src_dtype, double factor,
                       void* dst, DType dst_dtype, size_t count,
                       CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::CastScale(At(src), src_dtype, factor, At(dst), dst_dtype, count);
    });
  }
  CudaResult CastFeedback(const void* src, const void* residual,
                          DType src_dtype, void* dst, DType dst_dtype,
                          void* next, size_t count,
                          CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::CastFeedback(At(src), At(residual), src_dtype, At(dst),
                            dst_dtype, At(next), count);
    });
  }
  CudaResult ReduceRows(const void* inputs, int rows, void* out, size_t count,
                        DType dtype, ReduceOp op,
                        CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::ReduceRows(At(inputs), rows, At(out), count, dtype, op);
    });
  }
  CudaResult AddLeaf(std::span<const void* const> left, const void* leaf,
                     DType dtype, double weight, void* out, DType out_dtype,
                     size_t count, CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(left)] {
      std::vector<const void*> rows;
      for (const void* const row : list) rows.push_back(At(row));
      kernels::AddLeaf(rows, At(leaf), dtype, weight, At(out), out_dtype,
                       count);
    });
  }
  CudaResult ReducePairs(const void* inputs, int rows, DType dtype,
                         double factor, void* out, DType out_dtype,
                         size_t count, CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::ReducePairs(At(inputs), rows, dtype, factor, At(out), out_dtype,
                           count);
    });
  }
  CudaResult AddFiniteCheck(const void* data, DType dtype, Ranges ranges,
                            double inverse_scale, void* scratch,
                            kernels::FiniteCheck* total,
                            CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(ranges)] {
      // The device's kernel writes this scratch, so that one too small is
      // noticed.
      const size_t bytes = kernels::FiniteCheckScratchBytes(list);
      if (bytes > 0) std::memset(At(scratch), 0xff, bytes);
      kernels::AddFiniteCheck(At(data), dtype, list, inverse_scale, At(total));
    });
  }
  CudaResult ScaleAndCheck(void* data, DType dtype, double factor,
                           const kernels::ElementRange& scaled, Ranges checked,
                           void* scratch, kernels::FiniteCheck* total,
                           CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(checked)] {
      const size_t bytes = kernels::FiniteCheckScratchBytes(list);
      if (bytes > 0) std::memset(At(scratch), 0xff, bytes);
      kernels::ScaleAndCheck(At(data), dtype, factor, scaled, list, At(total));
    });
  }
  CudaResult RunLocalStep(const kernels::LocalStep& step,
                          CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(step.list)] {
      kernels::LocalStep there = step;
      there.list = list;
      there.in = At(step.in);
      there.other = At(step.other);
      there.out = At(step.out);
      there.fault = At(step.fault);
      kernels::RunLocalStep(there);
    });
  }
  CudaResult CopyBoxes(Boxes boxes, Inputs in, Outputs out,
                       CudaStreamHandle stream) override {
    return Launch(
        stream, [=, this, list = Copy(boxes), from = Copy(in), to = Copy(out)] {
          kernels::CopyBoxes(list, At(from), At(to));
        });
  }
  CudaResult FillBoxes(BoxFills fills, Outputs out,
                       CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(fills), to = Copy(out)] {
      kernels::FillBoxes(list, At(to));
    });
  }
  CudaResult SumBoxes(Boxes boxes, Inputs in, Outputs out, bool add,
                      CudaStreamHandle stream) override {
    return Launch(
        stream, [=, this, list = Copy(boxes), from = Copy(in), to = Copy(out)] {
          kernels::SumBoxes(list, At(from), At(to), add);
        });
  }

  CudaResult BeginReplay(const kernels::GateContext& context,
                         CudaStreamHandle stream) override {
    return Launch(stream, [=, this] { kernels::BeginReplay(At(context)); });
  }
  CudaResult WriteStepRecord(const kernels::GateContext& context,
                             kernels::FiniteCheck* norm,
                             kernels::StepRecord* record,
                             CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::WriteStepRecord(At(context), At(norm), At(record));
    });
  }
  CudaResult VerifyTiles(const kernels::GateContext& context,
                         const kernels::StepRecord* records,
                         CudaStreamHandle stream) override {
    return Launch(
        stream, [=, this] { kernels::VerifyTiles(At(context), At(records)); });
  }
  CudaResult GateStep(const kernels::GateContext& context,
                      const kernels::StepRecord* own,
                      const kernels::StepRecord* records,
                      VerdictScalars* scalars,
                      CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::GateStep(At(context), At(own), At(records), At(scalars));
    });
  }

  CudaResult CommitCopy(const VerdictScalars* verdict, const void* from,
                        void* to, size_t bytes,
                        CudaStreamHandle stream) override {
    return Launch(stream, [=, this] {
      kernels::CommitCopy(At(verdict), At(from), At(to), bytes);
    });
  }
  CudaResult CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                          Slots slots, DType dtype,
                          CudaStreamHandle stream) override {
    return Launch(stream, [=, this, list = Copy(slots)] {
      kernels::CommitUnpack(At(verdict), At(bucket), At(list), dtype);
    });
  }

 private:
  template <typename T>
  static std::vector<std::remove_const_t<T>> Copy(std::span<T> list) {
    return {list.begin(), list.end()};
  }

  // Looked up when the kernel runs, so that memory freed before is noticed.
  template <typename T>
  T* At(T* address) const {
    return scheduler_.memory().Reach(address);
  }
  template <typename T>
  std::vector<T*> At(std::vector<T*> addresses) const {
    for (T*& address : addresses) address = At(address);
    return addresses;
  }
  kernels::GateContext At(kernels::GateContext context) const {
    context.control = At(context.control);
    context.stop = At(const_cast<const uint32_t*>(context.stop));
    context.inputs = At(context.inputs);
    context.journal = At(context.journal);
    context.loss_scale = At(context.loss_scale);
    context.replays = At(context.replays);
    context.replay_inputs = At(context.replay_inputs);
    context.keeps = At(context.keeps);
    context.tiles = At(context.tiles);
    return context;
  }
  std::vector<TensorSlot> At(std::vector<TensorSlot> slots) const {
    for (TensorSlot& slot : slots) slot.tensor = At(slot.tensor);
    return slots;
  }

  CudaResult Launch(CudaStreamHandle stream, std::function<void()> kernel) {
    MutexLock lock(&scheduler_.mutex());
    const CudaResult no = scheduler_.Refusal(device_, "a kernel");
    if (no != CudaResult::kSuccess) return no;
    const CudaResult bad = scheduler_.CaptureRefusal(StreamOf(stream));
    if (bad != CudaResult::kSuccess) return bad;
    scheduler_.Push(StreamOf(stream), [kernel = std::move(kernel)] {
      kernel();
      return true;
    });
    return CudaResult::kSuccess;
  }

  Scheduler& scheduler_;
  const int device_;
};

}  // namespace

std::unique_ptr<KernelApi> MakeFakeKernels(Scheduler* scheduler, int device) {
  return std::make_unique<FakeKernels>(scheduler, device);
}

}  // namespace lockstep::fake
