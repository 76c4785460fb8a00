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

  void Run(absl::FunctionRef<absl::Status()> body, CaptureState* into) {
    absl::Status done = Begin();
    if (!done.ok()) return into->Captured(nullptr, nullptr, done);
    launcher_.SetOpenCapture(stream_.capture());
    done = body();
    const DeviceScope scope(cuda_);
    CudaGraphHandle graph = nullptr;
    done.Update(Did(cuda_.StreamEndCapture(stream_.handle(), &graph),
                    "StreamEndCapture"));
    done.Update(stream_.TakeError());
    CudaGraphExecHandle exec = nullptr;
    if (done.ok()) {
      done = Did(cuda_.GraphInstantiate(&exec, graph), "GraphInstantiate");
    }
    into->Captured(graph, exec, done);
  }

 private:
  absl::Status Begin() {
    const DeviceScope scope(cuda_);
    return Did(cuda_.StreamBeginCapture(stream_.handle()),
               "StreamBeginCapture");
  }
  absl::Status Did(CudaResult result, std::string_view call) {
    return Check(cuda_, result, call);
  }

  Launcher& launcher_;
  CudaApi& cuda_;
  CudaStream& stream_;
};

}  // namespace

LaunchableGraph::~LaunchableGraph() { launcher_->DestroyGraph(captured_); }

absl::StatusOr<Event> LaunchableGraph::Launch(CudaStream& stream) {
  return launcher_->LaunchGraph(captured_, stream);
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
  Capturer(launcher.get(), &stream).Run(body, captured.get());
  if (done = launcher->CloseCapture(); !done.ok()) return done;
  return std::make_unique<LaunchableGraph>(launcher, captured);
}

}  // namespace lockstep::transport::nccl
