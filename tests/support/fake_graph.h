// Captures and graphs of fake devices.
//
//   capture    stream s  [a][record e]          [wait f][b]     kept, not run
//              stream t              [wait e][c][record f]
//   launch     two streams of its own: the same pieces, with fresh events
//
// As in CUDA, a stream joins a capture by waiting for one of its events. A
// graph, and what is instantiated from it, holds references to the
// communicators of its operations (fake_nccl.h) until it is destroyed.
//
// Errors, as in CUDA: waiting inside a capture for an event from outside
// (kCaptureIsolation, which invalidates the capture), ending a capture in which
// the origin stream does not wait for all work of another (kCaptureUnjoined).
// Violations: querying a captured event, waiting for one after its capture,
// launching or destroying a graph that is destroyed.
//
// Threads: any, with the scheduler's lock held.

#ifndef LOCKSTEP_TESTS_SUPPORT_FAKE_GRAPH_H_
#define LOCKSTEP_TESTS_SUPPORT_FAKE_GRAPH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "client/transport/nccl/cuda_api.h"

namespace lockstep::fake {

class Scheduler;
struct FakeCapture;
struct FakeStream;

struct FakeEvent {
  int records = 0;
  bool reached = false;
  bool destroyed = false;
  // If the last record was captured: in which capture, and after how much work.
  bool captured = false;
  std::weak_ptr<FakeCapture> capture;
  FakeStream* stream = nullptr;
  uint64_t work = 0;
};

// One launch of a graph.
struct GraphRun {
  bool begun = false;
  std::set<const FakeEvent*> reached;
  size_t ended = 0;  // branches that have ended
};

// A stream's next action; returns true once it is done.
using Item = std::function<bool()>;

// Makes the item of one launch, to be appended to `stream`. `run` is null
// outside of graphs.
using Piece =
    std::function<Item(const std::shared_ptr<GraphRun>& run, FakeStream*)>;

struct FakeCapture {
  struct Branch {
    std::vector<Piece> pieces;
    uint64_t work = 0;  // pieces other than waits and records
  };
  // `waiter` runs after the first `work` pieces of `recorder`.
  struct Wait {
    FakeStream* waiter;
    FakeStream* recorder;
    uint64_t work;
  };

  transport::nccl::CudaCaptureId id = 0;
  FakeStream* origin = nullptr;
  bool open = true;
  bool valid = true;
  std::map<FakeStream*, Branch> branches;
  std::vector<Wait> waits;
  // References kept until it is destroyed.
  std::vector<std::shared_ptr<void>> holds;

  // Whether the end of `origin` waits for all work.
  bool Joined() const;
};

class FakeGraphs {
 public:
  using Result = transport::nccl::CudaResult;
  using Handle = transport::nccl::CudaGraphHandle;
  using ExecHandle = transport::nccl::CudaGraphExecHandle;

  explicit FakeGraphs(Scheduler* scheduler) : scheduler_(*scheduler) {}

  Result BeginCapture(FakeStream* stream);
  Result EndCapture(FakeStream* stream, Handle* graph);
  Result Instantiate(ExecHandle* exec, Handle graph);
  Result Launch(ExecHandle exec, FakeStream* stream);
  Result Destroy(Handle graph);
  Result Destroy(ExecHandle exec);

  // The capture of a stream that is being captured, or of an event that was.
  void Record(const std::shared_ptr<FakeEvent>& event, FakeStream* stream);
  Result Wait(FakeStream* stream, const std::shared_ptr<FakeEvent>& event);

 private:
  struct Graph {
    std::shared_ptr<FakeCapture> capture;        // null once destroyed
    std::map<FakeStream*, FakeStream*> streams;  // the streams of its launches
  };
  Graph* Add(std::shared_ptr<FakeCapture> capture);
  // Null, and a violation, if the graph is destroyed.
  Graph* Find(const void* handle);
  Result Destroy(const void* handle);

  Scheduler& scheduler_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // destroyed ones too
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_GRAPH_H_
