// Faults with captures and graphs.

#include <map>
#include <set>
#include <utility>

#include "tests/client/transport/nccl/faults.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::fake {
namespace {

using transport::nccl::Tables;

class ForgetsTheGraph final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result GraphDestroy(GraphHandle) override { return Result::kSuccess; }
};

class ForgetsItsInstance final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result GraphExecDestroy(GraphExecHandle) override { return Result::kSuccess; }
};

class DestroysGraphsTwice final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result GraphDestroy(GraphHandle graph) override {
    inner_->GraphDestroy(graph);
    return inner_->GraphDestroy(graph);
  }
};

// Reports that no stream is being captured.
class OverlooksCaptures final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result StreamGetCaptureInfo(StreamHandle, CaptureId* id) override {
    *id = 0;
    return Result::kSuccess;
  }
};

// Drops waits of a stream on which a graph was launched. A stream is recognised
// at its first launch, so earlier waits have their effect.
class LaunchesGraphsEarly final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    {
      MutexLock lock(&mutex_);
      if (graphs_.count(stream) > 0) return Result::kSuccess;
    }
    return inner_->StreamWaitEvent(stream, event);
  }
  Result GraphLaunch(GraphExecHandle exec, StreamHandle stream) override {
    MutexLock lock(&mutex_);
    graphs_.insert(stream);
    return inner_->GraphLaunch(exec, stream);
  }

 private:
  Mutex mutex_;
  std::set<StreamHandle> graphs_ ABSL_GUARDED_BY(mutex_);
};

// Records a graph's end before its beginning.
class PublishesGraphsEarly final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result GraphLaunch(GraphExecHandle exec, StreamHandle stream) override {
    MutexLock lock(&mutex_);
    held_[stream] = exec;
    return Result::kSuccess;
  }
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    const Result recorded = inner_->EventRecord(event, stream);
    MutexLock lock(&mutex_);
    const auto held = held_.find(stream);
    if (held == held_.end()) return recorded;
    inner_->GraphLaunch(held->second, stream);
    held_.erase(held);
    return recorded;
  }

 private:
  Mutex mutex_;
  std::map<StreamHandle, GraphExecHandle> held_ ABSL_GUARDED_BY(mutex_);
};

// Drops the waits of the origin stream of a capture: those of work that uses a
// reduction's result.
class LeavesWorkUnjoined final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result StreamBeginCapture(StreamHandle stream) override {
    MutexLock lock(&mutex_);
    captured_ = stream;
    return inner_->StreamBeginCapture(stream);
  }
  Result StreamEndCapture(StreamHandle stream, GraphHandle* graph) override {
    MutexLock lock(&mutex_);
    captured_ = nullptr;
    return inner_->StreamEndCapture(stream, graph);
  }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    MutexLock lock(&mutex_);
    if (stream == captured_) return Result::kSuccess;
    return inner_->StreamWaitEvent(stream, event);
  }

 private:
  Mutex mutex_;
  StreamHandle captured_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace

std::vector<Fault> GraphFaults() {
  return {
      {"ends communicators under a graph", "a graph holds it",
       DecorateCuda<ForgetsTheGraph>()},
      {"ends communicators under a graph's instance", "a graph holds it",
       DecorateCuda<ForgetsItsInstance>()},
      {"destroys a graph twice", "a graph that is destroyed",
       DecorateCuda<DestroysGraphsTwice>()},
      {"takes what is captured for what runs", "captured event",
       DecorateCuda<OverlooksCaptures>()},
      {"launches a graph before its turn", "wrong value|at once|in a graph",
       DecorateCuda<LaunchesGraphsEarly>()},
      {"publishes a graph early", "at once|in a graph|deadlock|different",
       DecorateCuda<PublishesGraphsEarly>()},
      {"leaves work of a capture unjoined",
       "capture:", DecorateCuda<LeavesWorkUnjoined>()},
  };
}

}  // namespace lockstep::fake
