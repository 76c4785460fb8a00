// The Launcher's captures and graphs.

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/launcher.h"

namespace lockstep::transport::nccl {
namespace {

// Why a graph with these communicators cannot run.
absl::Status StatusOf(const CaptureState& graph) {
  for (const auto& member : graph.members) {
    if (absl::Status status = member->status(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

// --- Captures ----------------------------------------------------------------

absl::Status Launcher::OpenCapture(
    const std::shared_ptr<CaptureState>& capturing) {
  MutexLock order(&order_);
  if (open_ != nullptr) {
    return absl::FailedPreconditionError("another capture is open");
  }
  open_ = capturing;
  capturer_ = std::this_thread::get_id();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const GraphLifetime>> Launcher::JoinCapture(
    CudaStream& stream) {
  const absl::StatusOr<CudaCaptureId> id = stream.FindCapture();
  if (!id.ok()) return id.status();
  if (*id == 0) {
    return absl::FailedPreconditionError(
        "the program does not capture the stream: begin the capture first");
  }
  const auto lifetime = std::make_shared<GraphLifetime>();
  absl::Status opened = OpenCapture(std::make_shared<CaptureState>(lifetime));
  if (!opened.ok()) return opened;
  SetOpenCapture(*id);
  using Held = std::shared_ptr<GraphLifetime>;
  const auto end = [](void* held) {
    const std::unique_ptr<Held> self(static_cast<Held*>(held));
    (*self)->End();
  };
  const DeviceScope scope(*tables_.cuda);
  opened = Check(
      *tables_.cuda,
      tables_.cuda->CaptureOnRelease(
          stream.handle(), end, std::make_unique<Held>(lifetime).release()),
      "GraphRetainUserObject");
  if (opened.ok()) return lifetime;
  CloseCapture().IgnoreError();
  return opened;
}

// NCCL does not free a communicator that a graph refers to: until the graph is
// in the list, the capture counts as a use of it.
absl::Status Launcher::CloseCapture() {
  std::shared_ptr<CaptureState> graph;
  {
    MutexLock order(&order_);
    open_capture_ = 0;
    graph = std::exchange(open_, nullptr);
    capture_closed_.NotifyAll();
  }
  absl::Status status = graph->status();
  if (status.ok()) status = StatusOf(*graph);
  if (status.ok() || graph->is_of_program()) {
    graphs_->Add(graph);
  } else {
    const DeviceScope scope(*tables_.cuda);
    graph->Destroy(*tables_.cuda, status);
  }
  for (const auto& member : graph->members) member->LeaveCapture();
  NoteRunning();
  return status;
}

absl::Status Launcher::AddToCapture(const std::shared_ptr<CommState>& member,
                                    CudaCaptureId capture) {
  if (capture == 0) {
    while (open_ != nullptr && open_->Has(*member)) {
      if (capturer_ == std::this_thread::get_id()) {
        return absl::FailedPreconditionError(absl::StrCat(
            "group '", member->name(),
            "' is part of the capture in progress: its operations are enqueued "
            "on streams of the capture until that ends"));
      }
      capture_closed_.Wait(&order_);
    }
    return absl::OkStatus();
  }
  if (open_ == nullptr || capture != open_capture_) {
    return absl::FailedPreconditionError(
        "the capture that this belongs to is over");
  }
  if (open_->Has(*member)) return absl::OkStatus();
  if (!member->JoinCapture()) return member->status();
  open_->members.push_back(member);
  return absl::OkStatus();
}

// --- Graphs ------------------------------------------------------------------

absl::StatusOr<Event> Launcher::LaunchGraph(
    const std::shared_ptr<CaptureState>& graph, CudaStream& stream) {
  const DeviceScope scope(*tables_.cuda);
  const absl::StatusOr<CudaGraphExecHandle> exec = graph->BeginLaunch();
  if (!exec.ok()) {
    stream.error()->Set(exec.status());
    return exec.status();
  }
  absl::StatusOr<Event> ran = Event();
  {
    MutexLock order(&order_);
    const absl::Status may = StatusOf(*graph);
    ran = may.ok() ? EnqueueGraph(*graph, *exec, stream)
                   : absl::StatusOr<Event>(may);
  }
  graph->EndLaunch();
  stream.error()->Set(ran.ok() ? StatusOf(*graph) : ran.status());
  NoteRunning();
  return ran;
}

absl::StatusOr<Event> Launcher::EnqueueGraph(const CaptureState& graph,
                                             CudaGraphExecHandle exec,
                                             CudaStream& stream) {
  absl::Status failed = EnqueueLaunch(graph, exec, stream);
  std::optional<Event> ran;
  if (failed.ok()) {
    ran.emplace(
        std::make_shared<CudaEventState>(RecordLaunch(graph, stream, &failed)));
  }
  stream.error()->Set(failed);
  if (!failed.ok() && !graph.members.empty()) {
    Fail(*graph.members.front(), failed);
  }
  if (!ran) return failed;
  return *ran;
}

// A graph begins at its position in the launch order, after its communicators
// have finished their earlier operations. The next operation begins after the
// graph has ended, since all operations inside it must have begun by then.
absl::Status Launcher::EnqueueLaunch(const CaptureState& graph,
                                     CudaGraphExecHandle exec,
                                     CudaStream& stream) {
  CudaApi& cuda = *tables_.cuda;
  absl::Status done;
  if (launch_slot_.event != nullptr) {
    done = Check(
        cuda,
        cuda.StreamWaitEvent(stream.handle(), launch_slot_.event->handle()),
        "StreamWaitEvent");
  }
  for (const auto& member : graph.members) {
    done.Update(member->JoinRunning(stream.handle()));
  }
  if (!done.ok()) return done;
  return Check(cuda, cuda.GraphLaunch(exec, stream.handle()), "GraphLaunch");
}

// The graph runs, which whoever ends its communicators has to know: it tries
// twice.
absl::StatusOr<std::shared_ptr<CudaEvent>> Launcher::RecordLaunch(
    const CaptureState& graph, CudaStream& stream, absl::Status* failed) {
  auto end = CudaEvent::Record(tables_.cuda.get(), stream.handle());
  *failed = end.status();
  if (!end.ok()) {
    end = CudaEvent::Record(tables_.cuda.get(), stream.handle());
  }
  if (!end.ok()) return end;
  for (const auto& member : graph.members) {
    member->AddRunning(*end, stream.error());
  }
  launch_slot_ = {*end, /*stream=*/nullptr};
  return end;
}

void Launcher::DestroyGraph(const std::shared_ptr<CaptureState>& graph) {
  const DeviceScope scope(*tables_.cuda);
  graphs_->Remove(*graph);
  graph->Destroy(*tables_.cuda,
                 absl::CancelledError("the graph was destroyed"));
}

}  // namespace lockstep::transport::nccl
