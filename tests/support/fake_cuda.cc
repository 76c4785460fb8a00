#include "tests/support/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace lockstep::fake {

using transport::nccl::CudaApi;
using transport::nccl::CudaCaptureId;
using transport::nccl::CudaEventHandle;
using transport::nccl::CudaGraphExecHandle;
using transport::nccl::CudaGraphHandle;
using transport::nccl::CudaResult;
using transport::nccl::CudaStreamHandle;

FakeStream* Scheduler::MakeStream() {
  streams_.push_back(std::make_unique<FakeStream>());
  return streams_.back().get();
}

void Scheduler::Push(FakeStream* stream, Item item) {
  Push(stream,
       [item = std::move(item)](const auto&, FakeStream*) { return item; });
}

void Scheduler::Push(FakeStream* stream, const Piece& piece) {
  if (stream->destroyed) Violation("work on a stream that is destroyed");
  if (stream->capture != nullptr) {
    FakeCapture::Branch& branch = stream->capture->branches[stream];
    branch.pieces.push_back(piece);
    ++branch.work;
    return;
  }
  stream->items.push_back(piece(nullptr, stream));
  ++stream->pushed;
}

void Scheduler::Turn() {
  if (streams_.empty()) return;
  uint64_t left = 1 + Draw(6);
  const size_t first = Draw(streams_.size());
  for (size_t i = 0; i < streams_.size() && left > 0; ++i) {
    FakeStream& stream = *streams_[(first + i) % streams_.size()];
    // A stream may run on for a while, or not at all this time.
    while (left > 0 && !stream.items.empty() && stream.items.front()()) {
      stream.items.pop_front();
      ++stream.run;
      --left;
    }
  }
}

namespace {

class FakeCuda final : public CudaApi {
 public:
  FakeCuda(Scheduler* scheduler, int driver, int runtime, int devices)
      : scheduler_(scheduler),
        graphs_(scheduler),
        driver_(driver),
        runtime_(runtime),
        devices_(devices) {}

  CudaResult DriverGetVersion(int* version) override {
    *version = driver_;
    return CudaResult::kSuccess;
  }
  CudaResult RuntimeGetVersion(int* version) override {
    *version = runtime_;
    return CudaResult::kSuccess;
  }
  CudaResult GetDeviceCount(int* count) override {
    if (driver_ < runtime_) return CudaResult::kInsufficientDriver;
    *count = devices_;
    return devices_ > 0 ? CudaResult::kSuccess : CudaResult::kNoDevice;
  }
  const char* GetErrorString(CudaResult) override { return "a fake error"; }

  CudaResult DeviceGetStreamPriorityRange(int* least, int* greatest) override {
    *least = 0;
    *greatest = -5;
    return CudaResult::kSuccess;
  }
  CudaResult StreamCreateWithPriority(CudaStreamHandle* stream, unsigned,
                                      int) override {
    MutexLock lock(&scheduler_->mutex());
    *stream = reinterpret_cast<CudaStreamHandle>(scheduler_->MakeStream());
    return CudaResult::kSuccess;
  }
  CudaResult StreamDestroy(CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    StreamOf(stream)->destroyed = true;  // what it holds still runs
    return CudaResult::kSuccess;
  }

  CudaResult StreamWaitEvent(CudaStreamHandle stream,
                             CudaEventHandle handle) override {
    MutexLock lock(&scheduler_->mutex());
    const auto event = Find(handle, "a stream waits for");
    if (event->records == 0) return CudaResult::kSuccess;
    if (event->captured || StreamOf(stream)->capture != nullptr) {
      return graphs_.Wait(StreamOf(stream), event);
    }
    scheduler_->Push(StreamOf(stream), [event] { return event->reached; });
    return CudaResult::kSuccess;
  }

  CudaResult LaunchHostFunc(CudaStreamHandle stream, void (*run)(void*),
                            void* argument) override {
    MutexLock lock(&scheduler_->mutex());
    // Not on the thread that happens to run the stream: it may block.
    const Piece piece = [this, run, argument](const auto&, FakeStream*) {
      return [this, run, argument, begun = false,
              done = std::make_shared<bool>(false)]() mutable {
        if (!std::exchange(begun, true)) {
          scheduler_->StartThread([this, run, argument, done] {
            run(argument);
            MutexLock lock(&scheduler_->mutex());
            *done = true;
          });
        }
        return *done;
      };
    };
    scheduler_->Push(StreamOf(stream), piece);
    return CudaResult::kSuccess;
  }

  CudaResult EventCreateWithFlags(CudaEventHandle* handle, unsigned) override {
    MutexLock lock(&scheduler_->mutex());
    const auto event = std::make_shared<FakeEvent>();
    *handle = reinterpret_cast<CudaEventHandle>(event.get());
    events_[*handle] = event;
    return CudaResult::kSuccess;
  }
  CudaResult EventRecord(CudaEventHandle handle,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    const auto event = Find(handle, nullptr);
    if (++event->records > 1) {
      scheduler_->Violation("an event is recorded twice");
      event->reached = false;
    }
    if (StreamOf(stream)->capture != nullptr) {
      graphs_.Record(event, StreamOf(stream));
      return CudaResult::kSuccess;
    }
    event->captured = false;
    scheduler_->Push(StreamOf(stream),
                     [event] { return event->reached = true; });
    return CudaResult::kSuccess;
  }
  CudaResult EventQuery(CudaEventHandle handle) override {
    MutexLock lock(&scheduler_->mutex());
    scheduler_->Turn();
    const auto event = Find(handle, "somebody asks about");
    if (event->captured) {
      scheduler_->Violation("somebody asks about a captured event");
      const auto capture = event->capture.lock();
      if (capture != nullptr) capture->valid = false;
      return CudaResult::kCapturedEvent;
    }
    return event->records == 0 || event->reached ? CudaResult::kSuccess
                                                 : CudaResult::kNotReady;
  }
  CudaResult EventDestroy(CudaEventHandle handle) override {
    MutexLock lock(&scheduler_->mutex());
    if (Find(handle, nullptr)->destroyed) {
      scheduler_->Violation("an event is destroyed twice");
    }
    events_[handle]->destroyed = true;
    return CudaResult::kSuccess;
  }

  CudaResult Malloc(void** memory, size_t bytes) override {
    MutexLock lock(&scheduler_->mutex());
    *memory = scheduler_->memory().Allocate(bytes);
    return CudaResult::kSuccess;
  }
  CudaResult Free(void* memory) override {
    MutexLock lock(&scheduler_->mutex());
    Release(memory);
    return CudaResult::kSuccess;
  }
  CudaResult HostAlloc(void** memory, size_t bytes) override {
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, 0xff, bytes);
    return CudaResult::kSuccess;
  }
  CudaResult FreeHost(void* memory) override {
    std::free(memory);
    return CudaResult::kSuccess;
  }

  CudaResult MallocAsync(void** memory, size_t bytes,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    *memory = scheduler_->memory().Allocate(bytes);
    if (const auto& capture = StreamOf(stream)->capture; capture != nullptr) {
      // As long as the graph; freeing it inside only ends its use.
      capture->holds.push_back(std::shared_ptr<void>(
          *memory, [this](void* held) { scheduler_->memory().Free(held); }));
    }
    return CudaResult::kSuccess;
  }
  CudaResult FreeAsync(void* memory, CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (StreamOf(stream)->capture != nullptr) return CudaResult::kSuccess;
    scheduler_->Push(StreamOf(stream), [this, memory] {
      Release(memory);
      return true;
    });
    return CudaResult::kSuccess;
  }
  CudaResult MemcpyAsync(void* to, const void* from, size_t bytes,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    scheduler_->Push(StreamOf(stream), [this, to, from, bytes] {
      const DeviceMemory& memory = scheduler_->memory();
      if (bytes > 0) std::memcpy(memory.Reach(to), memory.Reach(from), bytes);
      return true;
    });
    return CudaResult::kSuccess;
  }
  CudaResult MemsetAsync(void* memory, int byte, size_t bytes,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    scheduler_->Push(StreamOf(stream), [this, memory, byte, bytes] {
      std::memset(scheduler_->memory().Reach(memory), byte, bytes);
      return true;
    });
    return CudaResult::kSuccess;
  }

  CudaResult StreamBeginCapture(CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    return graphs_.BeginCapture(StreamOf(stream));
  }
  CudaResult StreamEndCapture(CudaStreamHandle stream,
                              CudaGraphHandle* graph) override {
    MutexLock lock(&scheduler_->mutex());
    return graphs_.EndCapture(StreamOf(stream), graph);
  }
  CudaResult StreamGetCaptureInfo(CudaStreamHandle stream,
                                  CudaCaptureId* id) override {
    MutexLock lock(&scheduler_->mutex());
    const auto& capture = StreamOf(stream)->capture;
    *id = capture == nullptr ? 0 : capture->id;
    return CudaResult::kSuccess;
  }
  CudaResult GraphInstantiate(CudaGraphExecHandle* exec,
                              CudaGraphHandle graph) override {
    MutexLock lock(&scheduler_->mutex());
    return graphs_.Instantiate(exec, graph);
  }
  CudaResult GraphLaunch(CudaGraphExecHandle exec,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    return graphs_.Launch(exec, StreamOf(stream));
  }
  CudaResult GraphExecDestroy(CudaGraphExecHandle exec) override {
    MutexLock lock(&scheduler_->mutex());
    return graphs_.Destroy(exec);
  }
  CudaResult GraphDestroy(CudaGraphHandle graph) override {
    MutexLock lock(&scheduler_->mutex());
    return graphs_.Destroy(graph);
  }

  void RangePush(const char*) override {}
  void RangePop() override {}

 private:
  // `use` says what for, if it must have been recorded and still be there.
  std::shared_ptr<FakeEvent> Find(CudaEventHandle handle, const char* use) {
    const auto event = events_.at(handle);
    if (use == nullptr) return event;
    const std::string who(use);
    if (event->destroyed) {
      scheduler_->Violation(who + " an event that is destroyed");
    } else if (event->records == 0) {
      scheduler_->Violation(who + " an event that was never recorded");
    }
    return event;
  }

  void Release(void* memory) {
    if (!scheduler_->memory().Free(memory)) {
      scheduler_->Violation("memory is freed that is not allocated");
    }
  }

  Scheduler* const scheduler_;
  FakeGraphs graphs_;
  const int driver_, runtime_, devices_;
  // Destroyed ones too, so that they are known as such.
  std::map<CudaEventHandle, std::shared_ptr<FakeEvent>> events_;
};

}  // namespace

std::unique_ptr<CudaApi> MakeFakeCuda(Scheduler* scheduler, int driver,
                                      int runtime, int devices) {
  return std::make_unique<FakeCuda>(scheduler, driver, runtime, devices);
}

}  // namespace lockstep::fake
