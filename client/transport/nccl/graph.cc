#include "client/transport/nccl/graph.h"

#include <utility>

#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/launcher.h"
#include "client/transport/nccl/nccl.h"

namespace lockstep::transport::nccl {
namespace {

// One capture, on the calling thread.
class Capturer {
 public:
  Capturer(Launcher* launcher, CudaStream* stream)
      : launcher_(*launcher),
        cuda_(*launcher->tables().cuda),
        stream_(*stream) {}

  absl::Status Run(absl::FunctionRef<absl::Status()> body, CaptureState* into) {
    // Work inside a graph cannot wait for work outside of it.
    auto handle = stream_.Ready();
    if (!handle.ok()) return handle.status();
    absl::Status done = Begin(*handle);
    if (!done.ok()) return done;
    launcher_.SetOpenCapture(stream_.capture());
    done = body();
    launcher_.AwaitCaptured();
    done.Update(stream_.Ready().status());
    const DeviceScope scope(cuda_);
    done.Update(
        Did(cuda_.StreamEndCapture(*handle, &into->graph), "StreamEndCapture"));
    done.Update(stream_.TakeError());
    return done.ok() ? Instantiate(into) : done;
  }

 private:
  absl::Status Begin(CudaStreamHandle stream) {
    const DeviceScope scope(cuda_);
    return Did(cuda_.StreamBeginCapture(stream), "StreamBeginCapture");
  }
  absl::Status Did(CudaResult result, std::string_view call) {
    return Check(cuda_, result, call);
  }

  absl::Status Instantiate(CaptureState* graph) {
    absl::Status done = Did(cuda_.GraphInstantiate(&graph->exec, graph->graph),
                            "GraphInstantiate");
    if (!done.ok()) return done;
    return Did(cuda_.StreamCreateWithPriority(&graph->stream,
                                              kCudaStreamNonBlocking, 0),
               "StreamCreateWithPriority");
  }

  Launcher& launcher_;
  CudaApi& cuda_;
  CudaStream& stream_;
};

}  // namespace

LaunchableGraph::~LaunchableGraph() { launcher_->DestroyGraph(captured_); }

void LaunchableGraph::Launch(CudaStream& stream) {
  stream.EnqueueBehind([&](CudaStream::Ticket ticket) {
    launcher_->PostGraph(captured_, std::move(ticket));
  });
}

absl::StatusOr<std::unique_ptr<LaunchableGraph>> Capture(
    const Transport& transport, CudaStream& stream,
    absl::FunctionRef<absl::Status()> body) {
  const std::shared_ptr<Launcher> launcher = LauncherOf(transport);
  if (launcher == nullptr) {
    return absl::InvalidArgumentError(
        "only the transport 'nccl' captures CUDA graphs");
  }
  return Capture(launcher, stream, body);
}

absl::StatusOr<std::unique_ptr<LaunchableGraph>> Capture(
    const std::shared_ptr<Launcher>& launcher, CudaStream& stream,
    absl::FunctionRef<absl::Status()> body) {
  const auto captured = std::make_shared<CaptureState>();
  absl::Status done = launcher->OpenCapture(captured);
  if (!done.ok()) return done;
  captured->status =
      Capturer(launcher.get(), &stream).Run(body, captured.get());
  if (done = launcher->CloseCapture(); !done.ok()) return done;
  return std::make_unique<LaunchableGraph>(launcher, captured);
}

}  // namespace lockstep::transport::nccl
