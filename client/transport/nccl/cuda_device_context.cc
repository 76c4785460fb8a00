#include "client/transport/nccl/cuda_device_context.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "client/transport/nccl/cuda_blocks.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/graph.h"
#include "client/transport/nccl/launcher.h"
#include "client/transport/nccl/stop_words.h"
#include "kernels/gate_tiles.h"

namespace lockstep::transport::nccl {
namespace {

// Blocks of the smallest size, for the gates that usually exist at once.
// Allocating one during a step would wait for the device, and so for peers.
constexpr int kHoldsAhead = 8;

// Memory of a destroyed gate that work on its stream may still use: the copy of
// its message, and its readers.
struct Retired {
  std::shared_ptr<void> message;
  std::shared_ptr<void> staging;
  StreamFence readers;
};

// State shared by all objects of one device.
struct Device {
  std::shared_ptr<Launcher> launcher;
  std::shared_ptr<CudaApi> cuda;
  std::shared_ptr<KernelApi> kernels;
  std::shared_ptr<CudaBlocks> pinned;
  std::shared_ptr<CudaBlocks> memory;
  // For work without a stream, from any thread.
  std::unique_ptr<CudaStream> own_stream;
  Mutex own_stream_mutex;

  Mutex retired_mutex;
  std::vector<Retired> retired ABSL_GUARDED_BY(retired_mutex);

  void Retire(Retired hold) {
    MutexLock lock(&retired_mutex);
    retired.push_back(std::move(hold));
  }
  // Frees the memory that no work reads any more. Calls CUDA without the lock,
  // which a gate takes where it is destroyed: in a function on the host, too.
  void Reclaim() {
    std::vector<Retired> asked;
    {
      MutexLock lock(&retired_mutex);
      asked.swap(retired);
    }
    std::erase_if(asked, [](Retired& hold) { return hold.readers.Passed(); });
    MutexLock lock(&retired_mutex);
    retired.insert(retired.end(), std::move_iterator(asked.begin()),
                   std::move_iterator(asked.end()));
  }
};

// The argument of a function that a stream runs once on the host.
struct HostCall {
  absl::AnyInvocable<absl::Status()> work;
  std::shared_ptr<FirstError> error;

  static void Run(void* call) {
    const std::unique_ptr<HostCall> self(static_cast<HostCall*>(call));
    self->error->Set(self->work());
  }
};

class CudaKernelQueue final : public DeviceContext::KernelQueue {
 public:
  // `mutex`: locked by each call if other threads use the stream too; may be
  // null.
  CudaKernelQueue(Device& device, CudaStream& stream, Mutex* mutex = nullptr)
      : cuda_(*device.cuda),
        kernels_(*device.kernels),
        launcher_(*device.launcher),
        stream_(stream),
        mutex_(mutex) {}

  void Copy(const void* from, void* to, size_t bytes) override {
    if (bytes == 0) return;
    Do("MemcpyAsync", [&](CudaStreamHandle stream) {
      return cuda_.MemcpyAsync(to, from, bytes, stream);
    });
  }
  void Zero(void* data, size_t bytes) override {
    if (bytes == 0) return;
    Do("MemsetAsync", [&](CudaStreamHandle stream) {
      return cuda_.MemsetAsync(data, 0, bytes, stream);
    });
  }
  void Pack(std::span<const kernels::TensorSlot> slots, DType dtype,
            double weight, bool add, void* bucket) override {
    Do("kernel Pack", [&](CudaStreamHandle stream) {
      if (add) return kernels_.PackAdded(slots, dtype, weight, bucket, stream);
      if (weight == 1.0) return kernels_.Pack(slots, dtype, bucket, stream);
      return kernels_.PackScaled(slots, dtype, weight, bucket, stream);
    });
  }
  void WriteFlags(std::span<const uint8_t> on, DType dtype,
                  void* flags) override {
    Do("kernel WriteFlags", [&](CudaStreamHandle stream) {
      return kernels_.WriteFlags(on, dtype, flags, stream);
    });
  }
  void Scale(void* data, DType dtype, double factor, size_t count) override {
    Do("kernel Scale", [&](CudaStreamHandle stream) {
      return kernels_.Scale(data, dtype, factor, count, stream);
    });
  }
  void CastScale(const void* from, DType from_dtype, double factor, void* to,
                 DType to_dtype, size_t count) override {
    Do("kernel CastScale", [&](CudaStreamHandle stream) {
      return kernels_.CastScale(from, from_dtype, factor, to, to_dtype, count,
                                stream);
    });
  }
  void CastFeedback(const void* from, const void* residual, DType from_dtype,
                    void* to, DType to_dtype, void* next,
                    size_t count) override {
    Do("kernel CastFeedback", [&](CudaStreamHandle stream) {
      return kernels_.CastFeedback(from, residual, from_dtype, to, to_dtype,
                                   next, count, stream);
    });
  }
  void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
               double weight, void* out, DType out_dtype,
               size_t count) override {
    Do("kernel AddLeaf", [&](CudaStreamHandle stream) {
      return kernels_.AddLeaf(left, leaf, dtype, weight, out, out_dtype, count,
                              stream);
    });
  }
  void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                   void* out, DType out_dtype, size_t count) override {
    Do("kernel ReducePairs", [&](CudaStreamHandle stream) {
      return kernels_.ReducePairs(inputs, rows, dtype, factor, out, out_dtype,
                                  count, stream);
    });
  }
  void AddFiniteCheck(const void* data, DType dtype,
                      std::span<const kernels::ElementRange> ranges,
                      void* scratch, kernels::FiniteCheck* total) override {
    Do("kernel AddFiniteCheck", [&](CudaStreamHandle stream) {
      return kernels_.AddFiniteCheck(data, dtype, ranges,
                                     /*inverse_scale=*/1.0, scratch, total,
                                     stream);
    });
  }
  void ScaleAndCheck(void* data, DType dtype, double factor,
                     const kernels::ElementRange& scaled,
                     std::span<const kernels::ElementRange> checked,
                     void* scratch, kernels::FiniteCheck* total) override {
    Do("kernel ScaleAndCheck", [&](CudaStreamHandle stream) {
      return kernels_.ScaleAndCheck(data, dtype, factor, scaled, checked,
                                    scratch, total, stream);
    });
  }

  // Outside of the capture it would run now, and no gate would end it.
  void BeginReplay(const kernels::GateContext& context) override {
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
  void WriteStepRecord(const kernels::GateContext& context,
                       kernels::FiniteCheck* norm,
                       kernels::StepRecord* record) override {
    Do("kernel WriteStepRecord", [&](CudaStreamHandle stream) {
      return kernels_.WriteStepRecord(context, norm, record, stream);
    });
  }
  void GateStep(const kernels::GateContext& context,
                const kernels::StepRecord* own,
                const kernels::StepRecord* records,
                VerdictScalars* scalars) override {
    if (kernels::HasTiles(context.world)) {
      Do("kernel VerifyTiles", [&](CudaStreamHandle stream) {
        return kernels_.VerifyTiles(context, records, stream);
      });
    }
    Do("kernel GateStep", [&](CudaStreamHandle stream) {
      return kernels_.GateStep(context, own, records, scalars, stream);
    });
  }

  void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                  size_t bytes) override {
    Do("kernel CommitCopy", [&](CudaStreamHandle stream) {
      return kernels_.CommitCopy(verdict, from, to, bytes, stream);
    });
  }

  void FillBoxes(std::span<const kernels::BoxFill> boxes,
                 std::span<void* const> out) override {
    Do("kernel FillBoxes", [&](CudaStreamHandle stream) {
      return kernels_.FillBoxes(boxes, out, stream);
    });
  }
  void CopyBoxes(std::span<const kernels::StridedBox> boxes,
                 std::span<const void* const> in,
                 std::span<void* const> out) override {
    Do("kernel CopyBoxes", [&](CudaStreamHandle stream) {
      return kernels_.CopyBoxes(boxes, in, out, stream);
    });
  }
  void SumBoxes(std::span<const kernels::StridedBox> boxes,
                std::span<const void* const> in, std::span<void* const> out,
                bool add) override {
    Do("kernel SumBoxes", [&](CudaStreamHandle stream) {
      return kernels_.SumBoxes(boxes, in, out, add, stream);
    });
  }
  void RunLocalStep(const kernels::LocalStep& step) override {
    Do("kernel RunLocalStep", [&](CudaStreamHandle stream) {
      return kernels_.RunLocalStep(step, stream);
    });
  }

  void CallOnce(absl::AnyInvocable<absl::Status()> work) override {
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

  // Later calls wait for `event`.
  void WaitFor(const Event& event) {
    if (status_.ok()) status_ = stream_.TryWaitFor(event);
  }
  Event Done() override {
    // An unused queue on the shared stream has nothing to wait for. A caller's
    // stream may have earlier work.
    if (!used_ && mutex_ != nullptr) return Event();
    auto event = stream_.TryRecord();
    status_.Update(event.status());
    return Event(std::make_shared<CudaEventState>(std::move(event)));
  }
  Event Mark() override {
    if (mutex_ != nullptr || stream_.capture() != 0) return Done();
    return stream_.Mark();
  }
  absl::Status status() const override { return status_; }

 private:
  template <typename Call>
  void Do(const char* name, Call call) {
    if (!status_.ok()) return;
    const DeviceScope scope(cuda_);
    const MutexLock lock(mutex_ == nullptr ? &unused_ : mutex_);
    status_ = Check(cuda_, call(stream_.handle()), name);
    used_ = true;
  }

  CudaApi& cuda_;
  KernelApi& kernels_;
  const Launcher& launcher_;
  CudaStream& stream_;
  Mutex* const mutex_;
  Mutex unused_;
  bool used_ = false;
  absl::Status status_;
};

class CudaQueue final : public DeviceContext::Queue {
 public:
  CudaQueue(std::shared_ptr<Device> device, std::unique_ptr<CudaStream> stream,
            std::unique_ptr<CudaStream> side_stream, std::string name)
      : device_(std::move(device)),
        stream_(std::move(stream)),
        side_stream_(std::move(side_stream)),
        driver_(std::move(name)) {}

  void Launch(DeviceContext::Operation& operation,
              std::vector<Event> after) override {
    driver_.Enqueue([this, &operation, after = std::move(after)] {
      Drive(operation, after);
      return absl::OkStatus();
    });
  }
  void SetOnDrain(bool on_drain) override {
    driver_
        .SetExecution(on_drain ? HostStream::Execution::kOnWait
                               : HostStream::Execution::kThread)
        .IgnoreError();
  }
  void Drain() override { driver_.Synchronize().IgnoreError(); }
  bool IsCapturedWithout(const Stream* stream) const override {
    const absl::StatusOr<CudaCaptureId> mine = stream_->FindCapture();
    if (!mine.ok()) return true;
    const auto* const other = dynamic_cast<const CudaStream*>(stream);
    return *mine != 0 && (other == nullptr || other->capture() != *mine);
  }

 private:
  void Drive(DeviceContext::Operation& operation,
             const std::vector<Event>& after) {
    const bool on_side_stream = operation.on_side_stream();
    CudaKernelQueue kernel_queue(*device_, *stream_);
    CudaKernelQueue beside(*device_, *side_stream_);
    if (!on_side_stream && used_side_stream_) {
      kernel_queue.WaitFor(beside.Done());
      used_side_stream_ = !kernel_queue.status().ok();
    }
    for (const Event& event : after) kernel_queue.WaitFor(event);
    absl::Status status = operation.Before(kernel_queue);
    if (status.ok()) status = kernel_queue.status();
    if (status.ok()) status = Communicate(operation);
    if (!on_side_stream || !status.ok())
      return operation.Then(kernel_queue, status);
    beside.WaitFor(kernel_queue.Done());
    used_side_stream_ = true;
    operation.Then(beside, status);
  }
  // With the errors of its calls, which are the stream's.
  absl::Status Communicate(DeviceContext::Operation& operation) {
    stream_->TakeError().IgnoreError();
    absl::Status status = operation.Communicate(*stream_);
    if (absl::Status error = stream_->TakeError(); status.ok()) status = error;
    return status;
  }

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<CudaStream> stream_;
  const std::unique_ptr<CudaStream> side_stream_;
  bool used_side_stream_ = false;  // since the stream last waited for it
  HostStream driver_;              // last: its work uses all of the above
};

class CudaGraph final : public DeviceContext::Graph {
 public:
  explicit CudaGraph(std::unique_ptr<nccl::LaunchableGraph> graph)
      : graph_(std::move(graph)) {}
  absl::StatusOr<Event> Launch(Stream& stream) override {
    return graph_->Launch(static_cast<CudaStream&>(stream));
  }

 private:
  const std::unique_ptr<nccl::LaunchableGraph> graph_;
};

class CudaProgramGraph final : public DeviceContext::ProgramGraph {
 public:
  explicit CudaProgramGraph(std::shared_ptr<const GraphLifetime> lifetime)
      : lifetime_(std::move(lifetime)) {}
  bool AwaitDestroyed(absl::Duration timeout) override {
    return lifetime_->AwaitEnd(timeout);
  }

 private:
  const std::shared_ptr<const GraphLifetime> lifetime_;
};

// CUDA cannot wait for the host without a function on the host, which would
// hold up those of all streams: so the caller of Begin waits, and then enqueues
// the copy of the message.
class CudaStreamGate final : public DeviceContext::StreamGate {
 public:
  CudaStreamGate(std::shared_ptr<Device> device, CudaStream* stream,
                 std::shared_ptr<void> message, std::shared_ptr<void> staging,
                 size_t bytes)
      : device_(std::move(device)),
        stream_(stream),
        tail_(stream->tail()),
        message_(std::move(message)),
        staging_(std::move(staging)),
        bytes_(bytes) {}
  ~CudaStreamGate() override {
    device_->Retire({.message = std::move(message_),
                     .staging = std::move(staging_),
                     .readers = StreamFence(std::move(tail_))});
  }

  // Kernels can read pinned memory, too.
  const void* message() const override {
    return (is_copied_ ? message_ : staging_).get();
  }

  void Begin() override {
    {
      MutexLock lock(&mutex_);
      while (!released_) changed_.Wait(&mutex_);
    }
    CudaApi& cuda = *device_->cuda;
    const DeviceScope scope(cuda);
    is_copied_ = Check(cuda,
                       cuda.MemcpyAsync(message_.get(), staging_.get(), bytes_,
                                        stream_->handle()),
                       "MemcpyAsync")
                     .ok();
  }

  void Release(const absl::Status& status, const void* message) override {
    MutexLock lock(&mutex_);
    stream_->error()->Set(status);
    std::memcpy(staging_.get(), message, bytes_);
    released_ = true;
    changed_.NotifyAll();
  }

 private:
  const std::shared_ptr<Device> device_;
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

absl::Status NotACudaStream() {
  return absl::InvalidArgumentError(
      "this job's gradients are in device memory; the stream is not a CUDA "
      "stream");
}

class CudaDeviceContext final : public DeviceContext {
 public:
  explicit CudaDeviceContext(std::shared_ptr<Device> device)
      : device_(std::move(device)) {}

  absl::StatusOr<ArenaBuffer> AllocateStaging(size_t bytes) override {
    absl::StatusOr<std::shared_ptr<void>> block = device_->pinned->Take(bytes);
    if (!block.ok()) return block.status();
    void* const data = block->get();
    std::memset(data, 0, bytes);
    return ArenaBuffer(data, bytes, *std::move(block));
  }

  absl::StatusOr<std::shared_ptr<StopWord>> MakeStopWord() override {
    absl::StatusOr<std::shared_ptr<void>> memory =
        device_->pinned->Take(sizeof(uint32_t));
    if (!memory.ok()) return memory.status();
    auto word = std::make_shared<PinnedStopWord>(*std::move(memory));
    device_->launcher->stop_words().Add(word);
    return std::shared_ptr<StopWord>(std::move(word));
  }

  absl::StatusOr<ArenaBuffer> AllocateScratch(
      std::span<const kernels::ElementRange> ranges) override {
    const size_t bytes = kernels::FiniteCheckScratchBytes(ranges);
    if (bytes == 0) return ArenaBuffer();
    absl::StatusOr<std::shared_ptr<void>> block = device_->memory->Take(bytes);
    if (!block.ok()) return block.status();
    void* const data = block->get();
    return ArenaBuffer(data, bytes, *std::move(block));
  }

  absl::Status CheckStream(const Stream& stream) const override {
    const auto* const mine = dynamic_cast<const CudaStream*>(&stream);
    if (mine == nullptr) return NotACudaStream();
    const absl::StatusOr<CudaCaptureId> capture = mine->FindCapture();
    if (!capture.ok()) return capture.status();
    if (*capture == 0 || *capture == device_->launcher->open_capture()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "the stream is captured by the program: capture a step with "
        "GradientSync::Capture, or join the capture with "
        "ReplayedSteps::JoinCapture");
  }

  absl::StatusOr<std::unique_ptr<DeviceContext::Graph>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> body) override {
    auto graph = nccl::Capture(device_->launcher,
                               static_cast<CudaStream&>(stream), body);
    if (!graph.ok()) return graph.status();
    return std::make_unique<CudaGraph>(*std::move(graph));
  }
  absl::StatusOr<std::shared_ptr<ProgramGraph>> JoinCapture(
      Stream& stream) override {
    auto* const mine = dynamic_cast<CudaStream*>(&stream);
    if (mine == nullptr) return NotACudaStream();
    auto lifetime = device_->launcher->JoinCapture(*mine);
    if (!lifetime.ok()) return lifetime.status();
    return std::make_shared<CudaProgramGraph>(*std::move(lifetime));
  }
  absl::Status LeaveCapture() override {
    return device_->launcher->CloseCapture();
  }
  bool Captures(const Stream& stream) const override {
    const CudaCaptureId id = static_cast<const CudaStream&>(stream).capture();
    return id != 0 && id == device_->launcher->open_capture();
  }

  absl::Status Perform(Stream* stream, Work work) override {
    if (stream == nullptr) {
      CudaKernelQueue kernel_queue(*device_, *device_->own_stream,
                                   &device_->own_stream_mutex);
      return work(kernel_queue);
    }
    CudaKernelQueue kernel_queue(*device_, static_cast<CudaStream&>(*stream));
    return work(kernel_queue);
  }

  bool NeedsOneOrder() const override { return true; }

  absl::StatusOr<std::unique_ptr<Stream>> MakeStream(std::string) override {
    return CudaStream::Create(device_->cuda.get());
  }

  absl::Status WaitFor(Stream& stream, const Event& event) override {
    return static_cast<CudaStream&>(stream).TryWaitFor(event);
  }
  absl::Status TakeError(Stream& stream) override {
    return static_cast<CudaStream&>(stream).TakeError();
  }

  absl::StatusOr<std::shared_ptr<StreamGate>> GateStream(
      Stream& stream, size_t bytes) override {
    device_->Reclaim();
    absl::StatusOr<std::shared_ptr<void>> message =
        device_->memory->Take(bytes);
    if (!message.ok()) return message.status();
    absl::StatusOr<std::shared_ptr<void>> staging =
        device_->pinned->Take(bytes);
    if (!staging.ok()) return staging.status();
    return std::shared_ptr<StreamGate>(std::make_shared<CudaStreamGate>(
        device_, static_cast<CudaStream*>(&stream), *std::move(message),
        *std::move(staging), bytes));
  }

  absl::StatusOr<std::unique_ptr<Queue>> MakeQueue(std::string name) override {
    auto stream = CudaStream::Create(device_->cuda.get());
    if (!stream.ok()) return stream.status();
    auto side_stream = CudaStream::Create(device_->cuda.get());
    if (!side_stream.ok()) return side_stream.status();
    return std::make_unique<CudaQueue>(
        device_, *std::move(stream), *std::move(side_stream), std::move(name));
  }

 private:
  const std::shared_ptr<Device> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceContext>> MakeCudaDeviceContext(
    std::shared_ptr<Launcher> launcher) {
  const std::shared_ptr<CudaApi> cuda = launcher->tables().cuda;
  auto stream = CudaStream::Create(cuda.get());
  if (!stream.ok()) return stream.status();
  auto device = std::make_shared<Device>();
  device->pinned = CudaBlocks::Create(cuda, CudaBlocks::Where::kPinned);
  device->memory = CudaBlocks::Create(cuda, CudaBlocks::Where::kDevice);
  for (const auto& blocks : {device->pinned, device->memory}) {
    absl::Status made = blocks->Reserve(sizeof(VerdictScalars), kHoldsAhead);
    if (!made.ok()) return made;
  }
  device->cuda = cuda;
  device->kernels = launcher->tables().kernels;
  device->launcher = std::move(launcher);
  device->own_stream = *std::move(stream);
  return std::make_unique<CudaDeviceContext>(std::move(device));
}

}  // namespace lockstep::transport::nccl
