#include "client/transport/nccl/cuda_device_context.h"

#include <cstring>
#include <string>
#include <utility>

#include "client/transport/nccl/cuda_blocks.h"
#include "client/transport/nccl/cuda_device_state.h"
#include "client/transport/nccl/cuda_kernel_queue.h"
#include "client/transport/nccl/cuda_queue.h"
#include "client/transport/nccl/cuda_stream.h"
#include "client/transport/nccl/cuda_stream_gate.h"
#include "client/transport/nccl/graph.h"
#include "client/transport/nccl/launcher.h"
#include "client/transport/nccl/stop_words.h"

namespace lockstep::transport::nccl {
namespace {

// Blocks of the smallest size, for the gates that usually exist at once.
// Allocating one during a step would wait for the device, and so for peers.
constexpr int kHoldsAhead = 8;

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

absl::Status NotACudaStream() {
  return absl::InvalidArgumentError(
      "this job's gradients are in device memory; the stream is not a CUDA "
      "stream");
}

class CudaDeviceContext final : public DeviceContext {
 public:
  explicit CudaDeviceContext(std::shared_ptr<CudaDeviceState> device)
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
  const std::shared_ptr<CudaDeviceState> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceContext>> MakeCudaDeviceContext(
    std::shared_ptr<Launcher> launcher) {
  const std::shared_ptr<CudaApi> cuda = launcher->tables().cuda;
  auto stream = CudaStream::Create(cuda.get());
  if (!stream.ok()) return stream.status();
  auto device = std::make_shared<CudaDeviceState>();
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
