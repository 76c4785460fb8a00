#include "tests/support/fake_graph.h"

#include <utility>

#include "tests/support/fake_cuda.h"

namespace lockstep::fake {

using transport::nccl::CudaResult;

bool FakeCapture::Joined() const {
  std::set<FakeStream*> joined = {origin};
  for (size_t before = 0; before != joined.size();) {
    before = joined.size();
    for (const Wait& wait : waits) {
      if (joined.count(wait.waiter) > 0 &&
          wait.work == branches.at(wait.recorder).work) {
        joined.insert(wait.recorder);
      }
    }
  }
  for (const auto& [stream, branch] : branches) {
    if (branch.work > 0 && joined.count(stream) == 0) return false;
  }
  return true;
}

CudaResult FakeGraphs::BeginCapture(FakeStream* stream) {
  if (stream->capture != nullptr) {
    scheduler_.Violation("a stream is captured twice");
    return CudaResult::kCaptureInvalidated;
  }
  const auto capture = std::make_shared<FakeCapture>();
  capture->id = scheduler_.NextCapture();
  capture->origin = stream;
  capture->branches[stream] = {};
  stream->capture = capture;
  return CudaResult::kSuccess;
}

CudaResult FakeGraphs::EndCapture(FakeStream* stream, Handle* graph) {
  const std::shared_ptr<FakeCapture> capture = stream->capture;
  *graph = nullptr;
  if (capture == nullptr || capture->origin != stream) {
    scheduler_.Violation("the end of a capture that was not begun there");
    return CudaResult::kCaptureInvalidated;
  }
  capture->open = false;
  for (const auto& [part, branch] : capture->branches) part->capture = nullptr;
  if (!capture->valid) return CudaResult::kCaptureInvalidated;
  if (!capture->Joined()) return CudaResult::kCaptureUnjoined;
  *graph = reinterpret_cast<Handle>(Add(capture));
  return CudaResult::kSuccess;
}

CudaResult FakeGraphs::Instantiate(ExecHandle* exec, Handle handle) {
  const Graph* const graph = Find(handle);
  if (graph == nullptr) return CudaResult::kCaptureInvalidated;
  Graph* const instance = Add(graph->capture);
  for (const auto& [stream, branch] : graph->capture->branches) {
    instance->streams[stream] = scheduler_.MakeStream(stream->device);
  }
  *exec = reinterpret_cast<ExecHandle>(instance);
  return CudaResult::kSuccess;
}

CudaResult FakeGraphs::Launch(ExecHandle exec, FakeStream* stream) {
  const Graph* const graph = Find(exec);
  if (graph == nullptr) return CudaResult::kCaptureInvalidated;
  const auto run = std::make_shared<GraphRun>();
  for (const auto& [captured, branch] : graph->capture->branches) {
    FakeStream* const to = graph->streams.at(captured);
    // A launch takes no room of the graph's own streams.
    const auto append = [&](Item item) {
      scheduler_.Append(to, [&](const auto&, FakeStream*) { return item; });
    };
    append([run] { return run->begun; });
    for (const Piece& piece : branch.pieces) append(piece(run, to));
    append([run] { return ++run->ended > 0; });
  }
  const size_t branches = graph->capture->branches.size();
  scheduler_.Push(stream, [run] { return run->begun = true; });
  scheduler_.Push(stream, [run, branches] { return run->ended == branches; });
  return CudaResult::kSuccess;
}

CudaResult FakeGraphs::Destroy(Handle graph) {
  return Destroy(static_cast<const void*>(graph));
}

CudaResult FakeGraphs::Destroy(ExecHandle exec) {
  return Destroy(static_cast<const void*>(exec));
}

CudaResult FakeGraphs::Destroy(const void* handle) {
  Graph* const graph = Find(handle);
  if (graph != nullptr) graph->capture = nullptr;
  return CudaResult::kSuccess;
}

void FakeGraphs::Record(const std::shared_ptr<FakeEvent>& event,
                        FakeStream* stream) {
  FakeCapture::Branch& branch = stream->capture->branches[stream];
  event->captured = true;
  event->capture = stream->capture;
  event->stream = stream;
  event->work = branch.work;
  // Identified by its address: it may be destroyed long before a launch.
  branch.pieces.push_back(
      [at = event.get()](const std::shared_ptr<GraphRun>& run, FakeStream*) {
        return [run, at] {
          run->reached.insert(at);
          return true;
        };
      });
}

CudaResult FakeGraphs::Wait(FakeStream* stream,
                            const std::shared_ptr<FakeEvent>& event) {
  if (!event->captured) {
    stream->capture->valid = false;
    return CudaResult::kCaptureIsolation;
  }
  const std::shared_ptr<FakeCapture> capture = event->capture.lock();
  if (capture == nullptr || !capture->open) {
    scheduler_.Violation("a stream waits for an event of a past capture");
    return CudaResult::kCapturedEvent;
  }
  if (stream->capture == nullptr) stream->capture = capture;
  if (stream->capture != capture) {
    scheduler_.Violation("a capture waits for an event of another one");
    stream->capture->valid = false;
    return CudaResult::kCaptureIsolation;
  }
  capture->waits.push_back({stream, event->stream, event->work});
  capture->branches[stream].pieces.push_back(
      [at = event.get()](const std::shared_ptr<GraphRun>& run, FakeStream*) {
        return [run, at] { return run->reached.count(at) > 0; };
      });
  return CudaResult::kSuccess;
}

FakeGraphs::Graph* FakeGraphs::Add(std::shared_ptr<FakeCapture> capture) {
  graphs_.push_back(std::make_unique<Graph>(Graph{std::move(capture), {}}));
  return graphs_.back().get();
}

FakeGraphs::Graph* FakeGraphs::Find(const void* handle) {
  for (const auto& graph : graphs_) {
    if (graph.get() == handle && graph->capture != nullptr) return graph.get();
  }
  scheduler_.Violation("a graph that is destroyed, or never was, is used");
  return nullptr;
}

}  // namespace lockstep::fake
