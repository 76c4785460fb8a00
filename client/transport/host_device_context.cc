#include <atomic>
#include <cstring>
#include <utility>

#include "base/mutex.h"
#include "client/transport/device_context.h"
#include "kernels/add_leaf.h"
#include "kernels/cast_feedback.h"
#include "kernels/cast_scale.h"
#include "kernels/flags.h"
#include "kernels/gate_tiles.h"
#include "kernels/pack.h"
#include "kernels/reduce_pairs.h"
#include "kernels/scale_and_check.h"
#include "kernels/step_gate.h"
#include "kernels/step_replays.h"
#include "kernels/verdict_gate.h"

namespace lockstep::transport {
namespace {

// Each kernel is done when its call returns.
absl::Status NoGraphs() {
  return absl::FailedPreconditionError(
      "this job's gradients are in the host's memory: there is no CUDA graph "
      "to capture a step into");
}

class HostKernelQueue final : public DeviceContext::KernelQueue {
 public:
  void Copy(const void* from, void* to, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Zero(void* data, size_t bytes) override {
    if (bytes > 0) std::memset(data, 0, bytes);
  }
  void Pack(std::span<const kernels::TensorSlot> slots, DType dtype,
            double weight, bool add, void* bucket) override {
    if (add) {
      kernels::PackAdded(slots, dtype, weight, bucket);
    } else if (weight != 1.0) {
      kernels::PackScaled(slots, dtype, weight, bucket);
    } else {
      kernels::Pack(slots, dtype, bucket);
    }
  }
  void WriteFlags(std::span<const uint8_t> on, DType dtype,
                  void* flags) override {
    kernels::WriteFlags(on, dtype, flags);
  }
  void Scale(void* data, DType dtype, double factor, size_t count) override {
    kernels::Scale(data, dtype, factor, count);
  }
  void CastScale(const void* from, DType from_dtype, double factor, void* to,
                 DType to_dtype, size_t count) override {
    kernels::CastScale(from, from_dtype, factor, to, to_dtype, count);
  }
  void CastFeedback(const void* from, const void* residual, DType from_dtype,
                    void* to, DType to_dtype, void* next,
                    size_t count) override {
    kernels::CastFeedback(from, residual, from_dtype, to, to_dtype, next,
                          count);
  }
  void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
               double weight, void* out, DType out_dtype,
               size_t count) override {
    kernels::AddLeaf(left, leaf, dtype, weight, out, out_dtype, count);
  }
  void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                   void* out, DType out_dtype, size_t count) override {
    kernels::ReducePairs(inputs, rows, dtype, factor, out, out_dtype, count);
  }
  void AddFiniteCheck(const void* data, DType dtype,
                      std::span<const kernels::ElementRange> ranges, void*,
                      kernels::FiniteCheck* total) override {
    kernels::AddFiniteCheck(data, dtype, ranges, /*inverse_scale=*/1.0, total);
  }
  void ScaleAndCheck(void* data, DType dtype, double factor,
                     const kernels::ElementRange& scaled,
                     std::span<const kernels::ElementRange> checked, void*,
                     kernels::FiniteCheck* total) override {
    kernels::ScaleAndCheck(data, dtype, factor, scaled, checked, total);
  }
  void BeginReplay(const kernels::GateContext& context) override {
    kernels::BeginReplay(context);
  }
  void WriteStepRecord(const kernels::GateContext& context,
                       kernels::FiniteCheck* norm,
                       kernels::StepRecord* record) override {
    kernels::WriteStepRecord(context, norm, record);
  }
  void GateStep(const kernels::GateContext& context,
                const kernels::StepRecord* own,
                const kernels::StepRecord* records,
                VerdictScalars* scalars) override {
    if (kernels::HasTiles(context.world)) {
      kernels::VerifyTiles(context, records);
    }
    kernels::GateStep(context, own, records, scalars);
  }
  void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                  size_t bytes) override {
    kernels::CommitCopy(verdict, from, to, bytes);
  }
  void FillBoxes(std::span<const kernels::BoxFill> boxes,
                 std::span<void* const> out) override {
    kernels::FillBoxes(boxes, out);
  }
  void CopyBoxes(std::span<const kernels::StridedBox> boxes,
                 std::span<const void* const> in,
                 std::span<void* const> out) override {
    kernels::CopyBoxes(boxes, in, out);
  }
  void SumBoxes(std::span<const kernels::StridedBox> boxes,
                std::span<const void* const> in, std::span<void* const> out,
                bool add) override {
    kernels::SumBoxes(boxes, in, out, add);
  }
  void RunLocalStep(const kernels::LocalStep& step) override {
    kernels::RunLocalStep(step);
  }
  void CallOnce(absl::AnyInvocable<absl::Status()> work) override {
    status_.Update(work());
  }
  Event Done() override { return Event(); }
  absl::Status status() const override { return status_; }

 private:
  absl::Status status_;
};

// Each operation is one work item on the queue's stream. The transfer runs
// within it, on an inline stream.
class HostQueue final : public DeviceContext::Queue {
 public:
  explicit HostQueue(std::string name)
      : transfers_(name, HostStream::Execution::kInline),
        stream_(std::move(name)) {}

  void Launch(DeviceContext::Operation& operation,
              std::vector<Event> after) override {
    for (const Event& event : after) stream_.WaitFor(event);
    stream_.Enqueue([this, &operation] {
      Run(operation);
      return absl::OkStatus();
    });
  }

  void SetOnDrain(bool on_drain) override {
    stream_
        .SetExecution(on_drain ? HostStream::Execution::kOnWait
                               : HostStream::Execution::kThread)
        .IgnoreError();
  }
  void Drain() override { stream_.Synchronize().IgnoreError(); }

 private:
  void Run(DeviceContext::Operation& operation) {
    HostKernelQueue kernel_queue;
    absl::Status status = operation.Before(kernel_queue);
    if (status.ok()) status = operation.Communicate(transfers_);
    operation.Then(kernel_queue, status);
  }

  HostStream transfers_;
  HostStream stream_;  // last: its work uses the other
};

// A work item on the stream that blocks until Release.
class HostStreamGate final
    : public DeviceContext::StreamGate,
      public std::enable_shared_from_this<HostStreamGate> {
 public:
  HostStreamGate(HostStream& stream, size_t bytes)
      : stream_(stream), message_(new std::byte[bytes]()), bytes_(bytes) {}

  void Begin() override {
    stream_.Enqueue([hold = shared_from_this()] { return hold->Await(); });
  }

  const void* message() const override { return message_.get(); }
  void Release(const absl::Status& status, const void* message) override {
    MutexLock lock(&mutex_);
    std::memcpy(message_.get(), message, bytes_);
    status_ = status;
    open_ = true;
    opened_.NotifyAll();
  }

 private:
  absl::Status Await() {
    MutexLock lock(&mutex_);
    while (!open_) opened_.Wait(&mutex_);
    return status_;
  }

  HostStream& stream_;
  const std::unique_ptr<std::byte[]> message_;
  const size_t bytes_;
  Mutex mutex_;
  CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// Transports of the host return the error of an aborted operation, so nothing
// but its owner sets it.
class HostStopWord final : public DeviceContext::StopWord {
 public:
  const volatile uint32_t* address() const override { return &word_; }
  void Set() override {
    std::atomic_ref<uint32_t>(word_).store(1, std::memory_order_release);
  }
  bool is_set() const override {
    return std::atomic_ref<uint32_t>(word_).load(std::memory_order_acquire) !=
           0;
  }

 private:
  mutable uint32_t word_ = 0;
};

class HostDeviceContext final : public DeviceContext {
 public:
  absl::StatusOr<ArenaBuffer> AllocateStaging(size_t bytes) override {
    return arena_->Allocate(bytes);
  }

  absl::StatusOr<std::shared_ptr<StopWord>> MakeStopWord() override {
    return std::make_shared<HostStopWord>();
  }

  absl::StatusOr<ArenaBuffer> AllocateScratch(
      std::span<const kernels::ElementRange>) override {
    return ArenaBuffer();
  }

  absl::Status CheckStream(const Stream& stream) const override {
    if (dynamic_cast<const HostStream*>(&stream) != nullptr) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "this job's transport runs on host streams; the stream is of another "
        "kind");
  }

  absl::StatusOr<std::unique_ptr<Graph>> Capture(
      Stream&, absl::FunctionRef<absl::Status()>) override {
    return NoGraphs();
  }
  absl::StatusOr<std::shared_ptr<ProgramGraph>> JoinCapture(Stream&) override {
    return NoGraphs();
  }
  absl::Status LeaveCapture() override { return NoGraphs(); }
  bool Captures(const Stream&) const override { return false; }

  absl::Status Perform(Stream* stream, Work work) override {
    if (stream == nullptr) {
      HostKernelQueue kernel_queue;
      return work(kernel_queue);
    }
    static_cast<HostStream*>(stream)->Enqueue(
        [work = std::move(work)]() mutable {
          HostKernelQueue kernel_queue;
          return work(kernel_queue);
        });
    return absl::OkStatus();
  }

  bool NeedsOneOrder() const override { return false; }

  absl::StatusOr<std::unique_ptr<Stream>> MakeStream(
      std::string name) override {
    return std::make_unique<HostStream>(std::move(name));
  }

  absl::Status WaitFor(Stream& stream, const Event& event) override {
    stream.WaitFor(event);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<StreamGate>> GateStream(
      Stream& stream, size_t bytes) override {
    return std::make_shared<HostStreamGate>(static_cast<HostStream&>(stream),
                                            bytes);
  }

  Event Driver(Stream& stream) const override {
    HostStream& queue = static_cast<HostStream&>(stream);
    return queue.execution() == HostStream::Execution::kOnWait ? queue.Record()
                                                               : Event();
  }

  absl::StatusOr<std::unique_ptr<Queue>> MakeQueue(std::string name) override {
    return std::make_unique<HostQueue>(std::move(name));
  }

 private:
  const std::unique_ptr<Arena> arena_ = MakePlainArena();
};

// An operation that deletes itself once it has run.
class OneWork final : public DeviceContext::Operation {
 public:
  explicit OneWork(absl::AnyInvocable<void(DeviceContext::KernelQueue&)> work)
      : work_(std::move(work)) {}
  void Then(DeviceContext::KernelQueue& kernel_queue,
            const absl::Status&) override {
    const std::unique_ptr<OneWork> self(this);
    work_(kernel_queue);
  }

 private:
  absl::AnyInvocable<void(DeviceContext::KernelQueue&)> work_;
};

}  // namespace

void DeviceContext::Queue::Run(absl::AnyInvocable<void(KernelQueue&)> work,
                               std::vector<Event> after) {
  Launch(*std::make_unique<OneWork>(std::move(work)).release(),
         std::move(after));
}

std::unique_ptr<DeviceContext> MakeHostDeviceContext() {
  return std::make_unique<HostDeviceContext>();
}

}  // namespace lockstep::transport
