#include "client/transport/nccl/kernel_warmup.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

constexpr DType kAll[] = {DType::kU8,  DType::kI8,  DType::kI32, DType::kU32,
                          DType::kI64, DType::kU64, DType::kF16, DType::kBF16,
                          DType::kF32, DType::kF64};
constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32,
                             DType::kF64};

constexpr DType kOthers[] = {DType::kI16,   DType::kU16,  DType::kBool,
                             DType::kC64,   DType::kC128, DType::kF8E4M3,
                             DType::kF8E5M2};
// The local steps whose kernel depends on the dtype.
constexpr kernels::LocalStep::Kind kTypedSteps[] = {
    kernels::LocalStep::Kind::kWiden,
    kernels::LocalStep::Kind::kNarrow,
    kernels::LocalStep::Kind::kDivideToF32,
    kernels::LocalStep::Kind::kDivide,
    kernels::LocalStep::Kind::kReduceRows,
    kernels::LocalStep::Kind::kMarkExtremum,
    kernels::LocalStep::Kind::kFill,
    kernels::LocalStep::Kind::kAddRows,
    kernels::LocalStep::Kind::kAdd};

constexpr size_t kCount = 64;        // elements per operand
constexpr size_t kHalfBytes = 8192;  // one side's memory
constexpr size_t kManySlots = 9;     // more than a short list
constexpr size_t kManyRuns = 5000;   // more than one run of the sum tree

// Launches the kernels one after the other; keeps the first error.
class WarmUpRun {
 public:
  WarmUpRun(CudaApi* cuda, KernelApi* kernels, CudaStreamHandle stream,
            std::byte* memory)
      : cuda_(*cuda), kernels_(*kernels), stream_(stream), memory_(memory) {}

  absl::Status Run() {
    Did(cuda_.MemsetAsync(memory_, 0, kBytes, stream_));
    for (const DType dtype : kAll) OfAnyType(dtype);
    for (const DType dtype : kFloats) OfFloats(dtype);
    for (const DType dtype : kFloats) OfLeaves(dtype);
    for (const DType wide : {DType::kF32, DType::kF64}) {
      for (const DType half : {DType::kF16, DType::kBF16}) OfCasts(wide, half);
      for (const DType to : kFloats) OfPairs(wide, to);
    }
    for (const DType dtype : kAll) OfLocalSteps(dtype);
    for (const DType dtype : kOthers) OfLocalSteps(dtype);
    for (const size_t bytes : {1, 2, 4, 8, 16}) OfCopies(bytes);
    for (const size_t numbers : {size_t{1}, kManySlots}) {
      const std::vector<int64_t> list(numbers);
      Did(kernels_.RunLocalStep({.kind = kernels::LocalStep::Kind::kStoreList,
                                 .out = far(),
                                 .list = list},
                                stream_));
    }
    for (const size_t boxes : {size_t{1}, kManySlots}) OfBoxes(boxes);
    Did(kernels_.RunLocalStep({.kind = kernels::LocalStep::Kind::kZero,
                               .out = far(),
                               .count = kCount},
                              stream_));
    OfGate();
    Did(kernels_.CommitCopy(verdict(), near(), far(), kCount, stream_));
    return Check(cuda_, first_, " kernel, for the first time");
  }

  static constexpr size_t kBytes = 4 * kHalfBytes + kManyRuns * 8;

 private:
  // The memory: two sides, scratch, and zeroed scalars, which do not commit.
  std::byte* near() { return memory_; }
  std::byte* far() { return memory_ + kHalfBytes; }
  std::byte* scratch() { return memory_ + 2 * kHalfBytes; }
  VerdictScalars* verdict() {
    return reinterpret_cast<VerdictScalars*>(memory_ + 3 * kHalfBytes);
  }
  kernels::FiniteCheck* total() {
    return reinterpret_cast<kernels::FiniteCheck*>(verdict() + 1);
  }
  kernels::IndexFault* index_fault() {
    return reinterpret_cast<kernels::IndexFault*>(total() + 1);
  }
  std::byte* long_row() { return memory_ + 4 * kHalfBytes; }

  void Did(CudaResult result) {
    if (first_ == CudaResult::kSuccess) first_ = result;
  }

  // Slot lists of both lengths.
  std::vector<std::vector<kernels::TensorSlot>> Lists() {
    std::vector<kernels::TensorSlot> many;
    for (size_t i = 0; i < kManySlots; ++i) {
      many.push_back({.tensor = far() + 64 * i, .offset = i, .count = 1});
    }
    return {{many[0]}, many};
  }

  void OfAnyType(DType dtype) {
    for (const auto& slots : Lists()) {
      Did(kernels_.Pack(slots, dtype, near(), stream_));
      Did(kernels_.Unpack(near(), slots, dtype, stream_));
      Did(kernels_.ZeroSlots(near(), slots, dtype, stream_));
    }
    for (const size_t count : {kCount, kCount - 1}) {  // whole vectors, or not
      Did(kernels_.ReduceRows(near(), 2, far(), count, dtype, ReduceOp::kSum,
                              stream_));
    }
  }

  void OfFloats(DType dtype) {
    for (const auto& slots : Lists()) {
      Did(kernels_.PackScaled(slots, dtype, 1, near(), stream_));
      Did(kernels_.PackAdded(slots, dtype, 1, near(), stream_));
      Did(kernels_.UnpackScaled(near(), slots, dtype, 1, stream_));
      Did(kernels_.ScaleSlots(near(), slots, dtype, 1, stream_));
      Did(kernels_.CommitUnpack(verdict(), near(), slots, dtype, stream_));
    }
    for (const size_t count : {size_t{1}, kManySlots}) {
      const std::vector<uint8_t> on(count, 1);
      Did(kernels_.WriteFlags(on, dtype, near(), stream_));
      std::vector<kernels::ElementRange> ranges(count, {0, 1});
      ranges[0].count = kManyRuns;
      Did(kernels_.AddFiniteCheck(long_row(), dtype, ranges, 1, scratch(),
                                  total(), stream_));
      // Here ranges are disjoint, and empty ones are not in the list.
      size_t next = ranges[0].count -= kManySlots;
      for (size_t i = 1; i < count; ++i) ranges[i].offset = next++;
      Did(kernels_.ScaleAndCheck(long_row(), dtype, 1, {0, next}, ranges,
                                 scratch(), total(), stream_));
    }
    for (const DType to : kFloats) {
      for (const size_t past : {size_t{0}, SizeOf(dtype)}) {  // aligned, or not
        Did(kernels_.CastScale(near() + past, dtype, 1, far(), to, kCount,
                               stream_));
      }
    }
  }

  void OfCasts(DType wide, DType half) {
    Did(kernels_.CastFeedback(near(), scratch(), wide, far(), half, scratch(),
                              kCount, stream_));
  }

  void OfLeaves(DType dtype) {
    const DType sum = dtype == DType::kF64 ? dtype : DType::kF32;
    const void* const left[] = {scratch()};
    Did(kernels_.AddLeaf(left, near(), dtype, 1, far(), sum, kCount, stream_));
  }

  void OfPairs(DType wide, DType to) {
    for (const int rows : {1, 2, 4, 8}) {
      Did(kernels_.ReducePairs(near(), rows, wide, 1, far(), to, kCount,
                               stream_));
    }
  }

  void OfLocalSteps(DType dtype) {
    const bool is_bool = dtype == DType::kBool;  // no sum
    for (const kernels::LocalStep::Kind kind : kTypedSteps) {
      if (!kernels::Takes(kind, dtype)) continue;
      for (const size_t past : {0, 8}) {  // aligned to 16 bytes, or not
        Did(kernels_.RunLocalStep(
            {.kind = kind,
             .in = near() + past,
             // As indices, any number will do.
             .other = scratch() + past,
             .out = far() + past,
             .count = kCount,
             .dtype = dtype,
             .op = is_bool ? ReduceOp::kMax : ReduceOp::kSum,
             .number = 2,
             .row = 1,
             .fault = index_fault()},
            stream_));
      }
    }
  }

  // Kernels that move words of `bytes`.
  void OfCopies(size_t bytes) {
    using Kind = kernels::LocalStep::Kind;
    constexpr size_t kSide = 8;  // of a matrix that is transposed in tiles
    const kernels::BlockCopy block = {.bytes = bytes};
    const kernels::BlockCopy transpose = {.rows = kSide,
                                          .columns = kSide,
                                          .bytes = bytes,
                                          .in_row = kSide * bytes,
                                          .in_column = bytes,
                                          .out_row = bytes,
                                          .out_column = kSide * bytes};
    for (const kernels::BlockCopy& copy : {block, transpose}) {
      Did(kernels_.RunLocalStep(
          {.kind = Kind::kCopyBlocks, .in = near(), .out = far(), .copy = copy},
          stream_));
    }
    for (const size_t slices : {size_t{1}, kManySlots}) {
      const std::vector<int64_t> sizes(slices, 1);
      Did(kernels_.RunLocalStep({.kind = Kind::kUnpackSlices,
                                 .in = near(),
                                 .other = scratch(),  // any offsets will do
                                 .out = far(),
                                 .count = 1,
                                 .row = bytes,
                                 .list = sizes},
                                stream_));
    }
    Did(kernels_.RunLocalStep({.kind = Kind::kGatherRows,
                               .in = near(),
                               .other = scratch(),
                               .out = far(),
                               .count = 1,
                               .number = 1,
                               .row = bytes,
                               .fault = index_fault()},
                              stream_));
  }

  // One element each; no other kernels are launched for other types and shapes.
  // A step that does not commit: its input is not sealed.
  void OfGate() {
    auto* const records = reinterpret_cast<kernels::StepRecord*>(near());
    auto* const control = reinterpret_cast<kernels::StepControl*>(far());
    const kernels::GateContext context{
        .depth = 1,
        .control = control,
        .stop = reinterpret_cast<const volatile uint32_t*>(scratch()),
        .inputs = records + 1,
        .journal = control + 4,
        .tiles = reinterpret_cast<kernels::TileSummary*>(records + 2)};
    kernels::GateContext replay = context;
    replay.replays = reinterpret_cast<kernels::ReplayBoard*>(scratch());
    Did(kernels_.BeginReplay(replay, stream_));
    Did(kernels_.WriteStepRecord(context, total(), records, stream_));
    Did(kernels_.VerifyTiles(context, records, stream_));
    Did(kernels_.GateStep(context, records, records, verdict(), stream_));
  }

  void OfBoxes(size_t count) {
    std::vector<kernels::StridedBox> boxes(count);
    std::vector<kernels::BoxFill> fills(count);
    for (size_t i = 0; i < count; ++i) {
      const auto offset = static_cast<int64_t>(64 * i);
      boxes[i].out_offset = fills[i].out_offset = offset;
    }
    const void* const in[] = {near()};
    void* const out[] = {far()};
    Did(kernels_.CopyBoxes(boxes, in, out, stream_));
    Did(kernels_.FillBoxes(fills, out, stream_));
    Did(kernels_.SumBoxes(boxes, in, out, true, stream_));
  }

  CudaApi& cuda_;
  KernelApi& kernels_;
  const CudaStreamHandle stream_;
  std::byte* const memory_;
  CudaResult first_ = CudaResult::kSuccess;
};

}  // namespace

absl::Status WarmUpKernels(CudaApi* cuda, KernelApi* kernels) {
  const DeviceScope scope(*cuda);
  const auto stream = CudaStream::Create(cuda);
  if (!stream.ok()) return stream.status();
  const auto handle = (*stream)->handle();
  void* memory = nullptr;
  absl::Status done =
      Check(*cuda, cuda->Malloc(&memory, WarmUpRun::kBytes), "Malloc");
  if (!done.ok()) return done;
  done =
      WarmUpRun(cuda, kernels, handle, static_cast<std::byte*>(memory)).Run();
  done.Update((*stream)->Synchronize());
  done.Update(Check(*cuda, cuda->Free(memory), "Free"));
  return done;
}

}  // namespace lockstep::transport::nccl
