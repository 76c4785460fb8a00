#include "tests/client/gradient/device_faults.h"

#include <utility>

#include "lockstep/verdict_scalars.h"

namespace lockstep::gradient {
namespace {

using transport::DeviceContext;

// Memory of the faults, as long as the device.
struct FaultMemory {
  ArenaBuffer norm;     // one FiniteCheck
  ArenaBuffer commits;  // scalars that commit
};

class FaultyKernelQueue final : public DeviceContext::KernelQueue {
 public:
  FaultyKernelQueue(ComputeFault fault, KernelQueue* inner, FaultMemory* memory)
      : fault_(fault), to_(*inner), memory_(*memory) {}

  void Copy(const void* from, void* to, size_t bytes) override {
    to_.Copy(from, to, bytes);
  }
  void Zero(void* data, size_t bytes) override { to_.Zero(data, bytes); }
  void Pack(std::span<const kernels::TensorSlot> slots, DType dtype,
            double weight, bool add, void* bucket) override {
    to_.Pack(slots, dtype, weight, add, bucket);
  }
  void WriteFlags(std::span<const uint8_t> on, DType dtype,
                  void* flags) override {
    if (fault_ == ComputeFault::kForgetsTheFlags) return;
    to_.WriteFlags(on, dtype, flags);
  }
  void Scale(void* data, DType dtype, double factor, size_t count) override {
    to_.Scale(data, dtype, factor, count);
  }
  void CastScale(const void* from, DType from_dtype, double factor, void* to,
                 DType to_dtype, size_t count) override {
    to_.CastScale(from, from_dtype, factor, to, to_dtype, count);
  }
  void CastFeedback(const void* from, const void* residual, DType from_dtype,
                    void* to, DType to_dtype, void* next,
                    size_t count) override {
    to_.CastFeedback(from, residual, from_dtype, to, to_dtype, next, count);
  }
  void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
               double weight, void* out, DType out_dtype,
               size_t count) override {
    to_.AddLeaf(left, leaf, dtype, weight, out, out_dtype, count);
  }
  void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                   void* out, DType out_dtype, size_t count) override {
    to_.ReducePairs(inputs, rows, dtype, factor, out, out_dtype, count);
  }
  void AddFiniteCheck(const void* data, DType dtype,
                      std::span<const kernels::ElementRange> ranges,
                      void* scratch, kernels::FiniteCheck* total) override {
    to_.AddFiniteCheck(data, dtype, ranges, scratch, total);
  }
  void ScaleAndCheck(void* data, DType dtype, double factor,
                     const kernels::ElementRange& scaled,
                     std::span<const kernels::ElementRange> checked,
                     void* scratch, kernels::FiniteCheck* total) override {
    if (fault_ != ComputeFault::kScalesApart) {
      return to_.ScaleAndCheck(data, dtype, factor, scaled, checked, scratch,
                               total);
    }
    to_.Scale(static_cast<std::byte*>(data) + scaled.offset * SizeOf(dtype),
              dtype, factor, scaled.count);
    to_.AddFiniteCheck(data, dtype, checked, scratch, total);
  }
  void BeginReplay(const kernels::GateContext& context) override {
    to_.BeginReplay(context);
  }
  void WriteStepRecord(const kernels::GateContext& context,
                       kernels::FiniteCheck* norm,
                       kernels::StepRecord* record) override {
    kernels::GateContext used = context;
    if (fault_ == ComputeFault::kSaysWhatTheFirstStepSaid) used.depth = 1;
    if (fault_ == ComputeFault::kKeepsTheLastNorm) {
      auto* const copy = memory_.norm.as<kernels::FiniteCheck>().data();
      to_.Copy(norm, copy, sizeof *copy);
      norm = copy;
    }
    to_.WriteStepRecord(used, norm, record);
  }
  void GateStep(const kernels::GateContext& context,
                const kernels::StepRecord* own,
                const kernels::StepRecord* records,
                VerdictScalars* scalars) override {
    to_.GateStep(context, own, records, scalars);
    if (fault_ == ComputeFault::kAlwaysCommits) {
      to_.Copy(memory_.commits.data(), scalars, sizeof *scalars);
    }
  }
  void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                  size_t bytes) override {
    to_.CommitCopy(verdict, from, to, bytes);
  }
  void FillBoxes(std::span<const kernels::BoxFill> boxes,
                 std::span<void* const> out) override {
    to_.FillBoxes(boxes, out);
  }
  void CopyBoxes(std::span<const kernels::StridedBox> boxes,
                 std::span<const void* const> in,
                 std::span<void* const> out) override {
    to_.CopyBoxes(boxes, in, out);
  }
  void SumBoxes(std::span<const kernels::StridedBox> boxes,
                std::span<const void* const> in, std::span<void* const> out,
                bool add) override {
    to_.SumBoxes(boxes, in, out, add);
  }
  void RunLocalStep(const kernels::LocalStep& step) override {
    to_.RunLocalStep(step);
  }
  void CallOnce(absl::AnyInvocable<absl::Status()> work) override {
    to_.CallOnce(std::move(work));
  }
  Event Done() override {
    return fault_ == ComputeFault::kReadsBeforeTheCopyIsThere ? Event()
                                                              : to_.Done();
  }
  Event Mark() override {
    const bool marks = fault_ != ComputeFault::kReadsBeforeTheCopyIsThere &&
                       fault_ != ComputeFault::kAnEventForEachGradient;
    return marks ? to_.Mark() : Done();
  }
  absl::Status status() const override { return to_.status(); }

 private:
  const ComputeFault fault_;
  KernelQueue& to_;
  FaultMemory& memory_;
};

DeviceContext::Work SpoilWork(ComputeFault fault, FaultMemory* memory,
                              DeviceContext::Work work) {
  if (!work) return work;
  return [fault, memory, work = std::move(work)](
             DeviceContext::KernelQueue& kernel_queue) mutable {
    FaultyKernelQueue spoiled(fault, &kernel_queue, memory);
    return work(spoiled);
  };
}

// Deletes itself once it has run.
class SpoiledOperation final : public DeviceContext::Operation {
 public:
  SpoiledOperation(ComputeFault fault, FaultMemory* memory, Operation* inner)
      : fault_(fault), memory_(memory), inner_(*inner) {}

  absl::Status Before(DeviceContext::KernelQueue& kernel_queue) override {
    FaultyKernelQueue spoiled(fault_, &kernel_queue, memory_);
    return inner_.Before(spoiled);
  }
  absl::Status Communicate(Stream& stream) override {
    return inner_.Communicate(stream);
  }
  void Then(DeviceContext::KernelQueue& kernel_queue,
            const absl::Status& status) override {
    const std::unique_ptr<SpoiledOperation> self(this);
    FaultyKernelQueue spoiled(fault_, &kernel_queue, memory_);
    inner_.Then(spoiled, status);
  }
  bool on_side_stream() const override {
    return fault_ == ComputeFault::kEverythingAside || inner_.on_side_stream();
  }

 private:
  const ComputeFault fault_;
  FaultMemory* const memory_;
  Operation& inner_;
};

class SpoiledQueue final : public DeviceContext::Queue {
 public:
  SpoiledQueue(ComputeFault fault, FaultMemory* memory,
               std::unique_ptr<Queue> inner)
      : fault_(fault), memory_(memory), inner_(std::move(inner)) {}

  void Launch(DeviceContext::Operation& operation,
              std::vector<Event> after) override {
    if (fault_ == ComputeFault::kReducesBeforeTheGradients) after.clear();
    inner_->Launch(
        *std::make_unique<SpoiledOperation>(fault_, memory_, &operation)
             .release(),
        std::move(after));
  }
  void SetOnDrain(bool on_drain) override { inner_->SetOnDrain(on_drain); }
  void Drain() override { inner_->Drain(); }

 private:
  const ComputeFault fault_;
  FaultMemory* const memory_;
  const std::unique_ptr<Queue> inner_;
};

class IdleGraph final : public DeviceContext::Graph {
  absl::StatusOr<Event> Launch(Stream&) override { return Event(); }
};

class NeverSet final : public DeviceContext::StopWord {
 public:
  // The context forgets `inner`, and sets nothing.
  explicit NeverSet(const std::shared_ptr<StopWord>&) {}
  const volatile uint32_t* address() const override { return &zero_; }
  void Set() override {}
  bool is_set() const override { return false; }

 private:
  uint32_t zero_ = 0;
};

class SpoiledCompute final : public DeviceContext {
 public:
  SpoiledCompute(ComputeFault fault, std::unique_ptr<DeviceContext> inner)
      : fault_(fault), inner_(std::move(inner)) {
    memory_.norm = *inner_->AllocateStaging(sizeof(kernels::FiniteCheck));
    memory_.commits = *inner_->AllocateStaging(sizeof(VerdictScalars));
    memory_.commits.as<VerdictScalars>()[0] = {.commit = 1, .finite = 1};
  }

  absl::StatusOr<ArenaBuffer> AllocateStaging(size_t bytes) override {
    return inner_->AllocateStaging(bytes);
  }
  absl::StatusOr<std::shared_ptr<StopWord>> MakeStopWord() override {
    if (fault_ != ComputeFault::kIgnoresStop) return inner_->MakeStopWord();
    return std::make_shared<NeverSet>(*inner_->MakeStopWord());
  }
  absl::StatusOr<ArenaBuffer> AllocateScratch(
      std::span<const kernels::ElementRange> ranges) override {
    return inner_->AllocateScratch(ranges);
  }
  absl::Status CheckStream(const Stream& stream) const override {
    return inner_->CheckStream(stream);
  }
  absl::StatusOr<std::unique_ptr<Graph>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body) override {
    auto graph = inner_->Capture(stream, body);
    if (!graph.ok() || fault_ != ComputeFault::kLaunchesNothing) return graph;
    return std::make_unique<IdleGraph>();
  }
  absl::StatusOr<std::shared_ptr<ProgramGraph>> JoinCapture(
      Stream& stream) override {
    return inner_->JoinCapture(stream);
  }
  absl::Status LeaveCapture() override { return inner_->LeaveCapture(); }
  bool Captures(const Stream& stream) const override {
    return inner_->Captures(stream);
  }
  absl::Status Perform(Stream* stream, Work work) override {
    return inner_->Perform(stream,
                           SpoilWork(fault_, &memory_, std::move(work)));
  }
  bool NeedsOneOrder() const override { return inner_->NeedsOneOrder(); }
  absl::StatusOr<std::unique_ptr<Stream>> MakeStream(
      std::string name) override {
    return inner_->MakeStream(std::move(name));
  }
  absl::Status WaitFor(Stream& stream, const Event& event) override {
    return inner_->WaitFor(stream, event);
  }
  absl::Status TakeError(Stream& stream) override {
    return inner_->TakeError(stream);
  }
  absl::StatusOr<std::shared_ptr<StreamGate>> GateStream(
      Stream& stream, size_t bytes) override {
    return inner_->GateStream(stream, bytes);
  }
  absl::StatusOr<std::unique_ptr<Queue>> MakeQueue(std::string name) override {
    auto queue = inner_->MakeQueue(std::move(name));
    if (!queue.ok()) return queue;
    return std::make_unique<SpoiledQueue>(fault_, &memory_, *std::move(queue));
  }

 private:
  const ComputeFault fault_;
  FaultMemory memory_;
  const std::unique_ptr<DeviceContext> inner_;
};

}  // namespace

std::unique_ptr<DeviceContext> Spoil(ComputeFault fault,
                                     std::unique_ptr<DeviceContext> inner) {
  return std::make_unique<SpoiledCompute>(fault, std::move(inner));
}

}  // namespace lockstep::gradient
