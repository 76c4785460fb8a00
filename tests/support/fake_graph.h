// Captures and graphs of devices that are none.
//
//   capture    stream s  [a][record e]          [wait f][b]     kept, not run
//              stream t              [wait e][c][record f]
//   launch     two streams of its own: the same pieces, with moments of its own
//
// A stream becomes part of a capture by waiting for an event of it, as with
// CUDA. A graph, and what is instantiated of it, hold the communicators whose
// operations they have (fake_nccl.h), until they are destroyed.
//
// As CUDA answers: waiting inside a capture for an event from outside
// (kCaptureIsolation, and the capture is no good any more), ending a capture in
// which a stream has work that the first does not wait for (kCaptureUnjoined).
// Violations: asking about a captured event, waiting for one when its capture
// is over, launching or destroying a graph that is destroyed.
//
// Threads: with the scheduler's lock held.

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
  // Where it was last recorded, if that was captured, and behind how much work.
  bool captured = false;
  std::weak_ptr<FakeCapture> capture;
  FakeStream* stream = nullptr;
  uint64_t work = 0;
};

// One launch of a graph.
struct GraphRun {
  bool begun = false;
  std::set<const FakeEvent*> reached;
  size_t ended = 0;  // branches
};

// What a stream does next: true once it has done it.
using Item = std::function<bool()>;

// Makes the item of one launch, which goes to the end of `stream`. Outside of
// graphs there is no run.
using Piece =
    std::function<Item(const std::shared_ptr<GraphRun>& run, FakeStream*)>;

struct FakeCapture {
  struct Branch {
    std::vector<Piece> pieces;
    uint64_t work = 0;  // pieces that are more than waits and records
  };
  // `waiter` comes after the first `work` pieces of `recorder`'s work.
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
  // What it keeps from being ended or freed until it is destroyed.
  std::vector<std::shared_ptr<void>> holds;

  // Whether all work comes before the end of `origin`.
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
    std::map<FakeStream*, FakeStream*> streams;  // what its launches run on
  };
  Graph* Add(std::shared_ptr<FakeCapture> capture);
  // Null, and a violation, if it is destroyed.
  Graph* Find(const void* handle);
  Result Destroy(const void* handle);

  Scheduler& scheduler_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // destroyed ones too
};

}  // namespace lockstep::fake

#endif  // LOCKSTEP_TESTS_SUPPORT_FAKE_GRAPH_H_
