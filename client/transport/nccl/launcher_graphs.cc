// The Launcher's captures and graphs.

#include <algorithm>
#include <utility>

#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/launcher.h"

namespace lockstep::transport::nccl {

// --- From other threads ---

absl::Status Launcher::OpenCapture(std::shared_ptr<CaptureState> capturing) {
  return Do([this, capturing = std::move(capturing)](NcclApi&) {
    if (open_ != nullptr) {
      return absl::FailedPreconditionError("another capture is open");
    }
    open_ = capturing;
    return absl::OkStatus();
  });
}

void Launcher::AwaitCaptured() {
  const auto outcome = std::make_shared<LaunchResult>();
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back([this, outcome] { drained_ = outcome; });
  });
  (void)outcome->Wait();
}

absl::Status Launcher::CloseCapture() {
  return Do([this](NcclApi&) {
    open_capture_ = 0;
    const std::shared_ptr<CaptureState> graph = std::exchange(open_, nullptr);
    const absl::Status status = StatusOf(*graph);
    if (status.ok()) {
      graphs_.push_back(graph);
    } else {
      graph->Destroy(*tables_.cuda, status);
    }
    const auto living = std::exchange(to_abort_, {});
    if (!living.empty()) EndNow(living);
    return status;
  });
}

void Launcher::PostGraph(std::shared_ptr<CaptureState> graph,
                         CudaStream::Ticket ticket) {
  Post([&](Inbox& inbox) {
    inbox.operations.push_back(
        {.member = nullptr,
         .posted = {.calls = {}, .ticket = std::move(ticket)},
         .graph = std::move(graph)});
  });
}

void Launcher::DestroyGraph(std::shared_ptr<CaptureState> graph) {
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back([this, graph = std::move(graph)] {
      graph->Destroy(*tables_.cuda,
                     absl::CancelledError("the graph was destroyed"));
      graphs_.erase(std::remove(graphs_.begin(), graphs_.end(), graph),
                    graphs_.end());
      ReleaseWaiters();
    });
  });
}

// --- The launch thread ---

// The graph's status, or that of a member that has ended or will.
absl::Status Launcher::StatusOf(const CaptureState& graph) const {
  if (!graph.status.ok()) return graph.status;
  for (const auto& member : graph.members) {
    if (GivenUp(*member) || !member->status().ok()) return member->status();
  }
  return absl::OkStatus();
}

void Launcher::LaunchCaptured() {
  // NCCL does one operation at a time.
  const bool busy = warming_ != nullptr ||
                    (!operations_.empty() && operations_.front().enqueued);
  while (!busy && !captured_.empty()) {
    Operation& operation = captured_.front();
    if (open_ == nullptr) {  // posted after the end of the capture
      operation.posted.ticket.GiveUp(absl::FailedPreconditionError(
          "the capture that this belongs to is over"));
      captured_.pop_front();
      continue;
    }
    if (!open_->Has(*operation.member)) {
      open_->members.push_back(operation.member);
    }
    if (!LaunchFirst(operation, &open_->launch_slot)) break;
    captured_.pop_front();
  }
  if (captured_.empty() && drained_ != nullptr) {
    std::exchange(drained_, nullptr)->Set(absl::OkStatus());
  }
}

// During a capture, its streams and NCCL cannot run other operations.
bool Launcher::MustWaitForCapture(const Operation& operation) const {
  if (open_ == nullptr || operation.posted.ticket.capture != 0) return false;
  if (!captured_.empty() && captured_.front().enqueued) return true;
  return operation.graph == nullptr && open_->Has(*operation.member);
}

// A graph begins at its position in the launch order, after its communicators
// have finished their earlier operations. The next operation begins after the
// graph has ended, since all operations inside it must have begun by then.
bool Launcher::LaunchGraph(Operation& operation) {
  const absl::Status done = EnqueueGraph(operation);
  if (done.ok()) return true;
  const CudaStream::Ticket& ticket = operation.posted.ticket;
  if (!operation.graph->members.empty()) {
    Fail(*operation.graph->members.front(), done);
    return false;
  }
  ticket.GiveUp(done);
  return true;
}

absl::Status Launcher::EnqueueGraph(Operation& operation) {
  CudaApi& cuda = *tables_.cuda;
  const CaptureState& graph = *operation.graph;
  const CudaStream::Ticket& ticket = operation.posted.ticket;
  absl::Status done = ticket.after->Join(cuda, graph.stream);
  if (launch_slot_.event != nullptr) {
    done.Update(Check(
        cuda, cuda.StreamWaitEvent(graph.stream, launch_slot_.event->handle()),
        "StreamWaitEvent"));
  }
  for (const auto& member : graph.members) {
    done.Update(member->JoinRunning(graph.stream));
  }
  done.Update(
      Check(cuda, cuda.GraphLaunch(graph.exec, graph.stream), "GraphLaunch"));
  if (!done.ok()) return done;
  auto end = CudaEvent::Record(&cuda, graph.stream);
  if (!end.ok()) return end.status();
  for (const auto& member : graph.members) {
    member->AddRunning(*end, ticket.error);
  }
  launch_slot_ = {*end, graph.stream};
  ticket.done->Publish({*std::move(end)});
  return absl::OkStatus();
}

void Launcher::EndGraphsOf(const CommState& member, const absl::Status& why) {
  const auto has = [&](const auto& graph) { return graph->Has(member); };
  for (const auto& graph : graphs_) {
    if (has(graph)) graph->Destroy(*tables_.cuda, why);
  }
  graphs_.erase(std::remove_if(graphs_.begin(), graphs_.end(), has),
                graphs_.end());
}

}  // namespace lockstep::transport::nccl
