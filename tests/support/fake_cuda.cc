#include "tests/support/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lockstep::fake {

using transport::nccl::CudaApi;
using transport::nccl::CudaCaptureId;
using transport::nccl::CudaEventHandle;
using transport::nccl::CudaGraphExecHandle;
using transport::nccl::CudaGraphHandle;
using transport::nccl::CudaResult;
using transport::nccl::CudaStreamHandle;
using transport::nccl::CudaThread;

// How long a call waits for the device until the fake takes it for hung.
constexpr absl::Duration kHung = absl::Seconds(20);

CudaResult Scheduler::Refusal(int device, const char* call) {
  const FakeThread& mine = thread();
  if (mine.in_host_function) {
    Violation(absl::StrCat(call, " is called from a function on the host"));
  }
  if (mine.device != device) {
    Violation(absl::StrCat(call, " for device ", device,
                           " on a thread whose device is ", mine.device));
  }
  if (foreign_capture_ && !mine.relaxed) {
    foreign_valid_ = false;
    return Failed(CudaResult::kCaptureUnsupported);
  }
  const auto broken = broken_.find(device);
  return broken == broken_.end() ? CudaResult::kSuccess
                                 : Failed(broken->second);
}

CudaResult Scheduler::CaptureRefusal(FakeStream* stream) {
  if (stream->capture == nullptr) return CudaResult::kSuccess;
  const auto at = invalid_at_.find(stream->device);
  if (at != invalid_at_.end() && at->second > 0 && --at->second == 0) {
    stream->capture->valid = false;
  }
  return stream->capture->valid ? CudaResult::kSuccess
                                : Failed(CudaResult::kCaptureInvalidated);
}

FakeStream* Scheduler::MakeStream(int device) {
  if (streams_.empty() && mean_.runs_unasked) {
    StartThread([this] { RunUnasked(); });
  }
  streams_.push_back(std::make_unique<FakeStream>());
  streams_.back()->device = device;
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
  AwaitRoom(stream);
  Append(stream, piece);
}

void Scheduler::Append(FakeStream* stream, const Piece& piece) {
  const uint64_t latency = Draw(mean_.latency_max + 1);
  stream->items.push_back({piece(nullptr, stream), turns_ + latency});
  ++stream->pushed;
}

void Scheduler::AwaitRoom(FakeStream* stream) {
  const auto depth = static_cast<size_t>(mean_.queue_depth);
  if (depth == 0 || stream->items.size() < depth) return;
  ++full_calls_[stream->device];
  AwaitThat(
      [&] {
        return stream->items.size() < depth ||
               broken_.count(stream->device) > 0;
      },
      "a call with a full queue");
  --full_calls_[stream->device];
}

std::function<bool()> Scheduler::WorkOf(int device) {
  std::vector<std::pair<FakeStream*, uint64_t>> work;
  for (const auto& stream : streams_) {
    if (stream->device == device && !stream->items.empty()) {
      work.emplace_back(stream.get(), stream->pushed);
    }
  }
  return [this, device, work = std::move(work)] {
    return broken_.count(device) > 0 ||
           std::all_of(work.begin(), work.end(), [](const auto& one) {
             return one.first->run >= one.second;
           });
  };
}

void Scheduler::AwaitDevice(int device, const char* call) {
  if (mean_.calls_wait) AwaitThat(WorkOf(device), call);
}

void Scheduler::AwaitStream(FakeStream* stream, const char* call) {
  const uint64_t pushed = stream->pushed;
  AwaitThat(
      [=, this] {
        return broken_.count(stream->device) > 0 || stream->run >= pushed;
      },
      call);
}

void Scheduler::AwaitThat(const std::function<bool()>& over, const char* call) {
  const absl::Time begun = absl::Now();
  while (!over()) {
    if (absl::Now() - begun > kHung) {
      return Violation(absl::StrCat(call, " waits for ever"));
    }
    RunOne();
    if (!over()) changed_.WaitFor(&mutex_, absl::Microseconds(20));
  }
}

void Scheduler::CountQuery(int device) {
  const auto left = queries_left_.find(device);
  if (left == queries_left_.end() || --left->second > 0) return;
  queries_left_.erase(left);
  Break(device, CudaResult::kIllegalAddress);
}

void Scheduler::CallOnHost(int device, std::function<void()> run,
                           std::shared_ptr<bool> done) {
  HostCall call{std::move(run), std::move(done)};
  if (!mean_.one_host_thread) {
    return StartThread([this, call = std::move(call)] {
      MutexLock lock(&mutex_);
      RunOnHost(call);
    });
  }
  const auto [calls, first] = host_calls_.try_emplace(device);
  calls->second.push_back(std::move(call));
  if (first) StartThread([this, at = &calls->second] { RunHostCalls(at); });
  Wake();
}

void Scheduler::RunHostCalls(std::deque<HostCall>* calls) {
  MutexLock lock(&mutex_);
  while (!stopping_ || !calls->empty()) {
    if (calls->empty()) {
      Rest(absl::Seconds(1));
      continue;
    }
    const HostCall call = std::move(calls->front());
    calls->pop_front();
    RunOnHost(call);
  }
}

void Scheduler::RunOnHost(const HostCall& call) {
  thread().in_host_function = true;
  mutex_.Unlock();
  call.run();
  mutex_.Lock();
  thread().in_host_function = false;
  *call.done = true;
}

void Scheduler::JoinThreads() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    Wake();
  }
  // A thread may start another one until it ends.
  for (size_t i = 0;; ++i) {
    std::thread thread;
    {
      MutexLock lock(&mutex_);
      if (i == threads_.size()) return;
      thread = std::move(threads_[i]);
    }
    thread.join();
  }
}

void Scheduler::RunOne() {
  ++turns_;
  if (streams_.empty()) return;
  uint64_t left = 1 + Draw(6);
  const size_t first = Draw(streams_.size());
  for (size_t i = 0; i < streams_.size() && left > 0; ++i) {
    FakeStream& stream = *streams_[(first + i) % streams_.size()];
    if (broken_.count(stream.device) > 0) continue;
    // Runs a random number of items, possibly none.
    while (left > 0 && !stream.items.empty() &&
           stream.items.front().turn <= turns_ && stream.items.front().run()) {
      stream.items.pop_front();
      ++stream.run;
      ++items_run_;
      --left;
    }
  }
}

bool Scheduler::HasWork() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& one) { return !one->items.empty(); });
}

void Scheduler::RunUnasked() {
  constexpr absl::Duration kShortRest = absl::Microseconds(20);
  constexpr absl::Duration kLongRest = absl::Milliseconds(2);
  constexpr int kEagerTurns = 200;
  MutexLock lock(&mutex_);
  int in_vain = 0;
  while (!stopping_) {
    const uint64_t run = items_run_;
    Rest(in_vain < kEagerTurns ? kShortRest : kLongRest);
    if (HasWork()) RunOne();
    in_vain = items_run_ > run ? 0 : in_vain + 1;
  }
}

namespace {

class FakeCuda final : public CudaApi {
 public:
  FakeCuda(Scheduler* scheduler, int device, int driver, int runtime,
           int devices)
      : scheduler_(scheduler),
        graphs_(scheduler),
        device_(device),
        driver_(driver),
        runtime_(runtime),
        devices_(devices) {}

  CudaResult EnterThread(CudaThread* before) override {
    MutexLock lock(&scheduler_->mutex());
    FakeThread& mine = scheduler_->thread();
    // A made-up CUcontext of the device; null if the thread has none.
    before->context = reinterpret_cast<void*>(
        static_cast<intptr_t>(mine.device - FakeThread::kNoDevice));
    before->capture_mode = mine.relaxed ? 1 : 0;
    mine.device = device_;
    mine.relaxed = true;
    return CudaResult::kSuccess;
  }
  void LeaveThread(const CudaThread& before) override {
    MutexLock lock(&scheduler_->mutex());
    FakeThread& mine = scheduler_->thread();
    mine.device = static_cast<int>(reinterpret_cast<intptr_t>(before.context)) +
                  FakeThread::kNoDevice;
    mine.relaxed = before.capture_mode != 0;
  }
  CudaResult GetDevice(int* device) override {
    MutexLock lock(&scheduler_->mutex());
    *device = std::max(0, scheduler_->thread().device);
    return CudaResult::kSuccess;
  }
  CudaResult GetLastError() override {
    MutexLock lock(&scheduler_->mutex());
    return std::exchange(scheduler_->thread().last_error, CudaResult::kSuccess);
  }

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
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("DeviceGetStreamPriorityRange");
        no != CudaResult::kSuccess) {
      return no;
    }
    *least = 0;
    *greatest = -5;
    return CudaResult::kSuccess;
  }
  CudaResult StreamCreateWithPriority(CudaStreamHandle* stream, unsigned,
                                      int) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamCreateWithPriority");
        no != CudaResult::kSuccess) {
      return no;
    }
    *stream =
        reinterpret_cast<CudaStreamHandle>(scheduler_->MakeStream(device_));
    return CudaResult::kSuccess;
  }
  CudaResult StreamDestroy(CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamDestroy");
        no != CudaResult::kSuccess) {
      return no;
    }
    StreamOf(stream)->destroyed = true;  // its queued work still runs
    return CudaResult::kSuccess;
  }

  CudaResult StreamSynchronize(CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamSynchronize");
        no != CudaResult::kSuccess) {
      return no;
    }
    scheduler_->AwaitStream(StreamOf(stream), "cudaStreamSynchronize");
    return CudaResult::kSuccess;
  }

  CudaResult StreamGetDevice(CudaStreamHandle stream, int* device) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamGetDevice");
        no != CudaResult::kSuccess) {
      return no;
    }
    *device = stream == nullptr ? device_ : StreamOf(stream)->device;
    return CudaResult::kSuccess;
  }

  CudaResult StreamWaitEvent(CudaStreamHandle stream,
                             CudaEventHandle handle) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamWaitEvent");
        no != CudaResult::kSuccess) {
      return no;
    }
    if (const CudaResult no = scheduler_->CaptureRefusal(StreamOf(stream));
        no != CudaResult::kSuccess) {
      return no;
    }
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
    if (const CudaResult no = Refusal("LaunchHostFunc");
        no != CudaResult::kSuccess) {
      return no;
    }
    const Piece piece = [this, run, argument](const auto&, FakeStream*) {
      return [this, run, argument, begun = false,
              done = std::make_shared<bool>(false)]() mutable {
        if (!std::exchange(begun, true)) {
          scheduler_->CallOnHost(
              device_, [=] { run(argument); }, done);
        }
        return *done;
      };
    };
    scheduler_->Push(StreamOf(stream), piece);
    return CudaResult::kSuccess;
  }

  CudaResult EventCreateWithFlags(CudaEventHandle* handle, unsigned) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("EventCreateWithFlags");
        no != CudaResult::kSuccess) {
      return no;
    }
    const auto event = std::make_shared<FakeEvent>();
    *handle = reinterpret_cast<CudaEventHandle>(event.get());
    events_[*handle] = event;
    return CudaResult::kSuccess;
  }
  CudaResult EventRecord(CudaEventHandle handle,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("EventRecord");
        no != CudaResult::kSuccess) {
      return no;
    }
    if (const CudaResult no = scheduler_->CaptureRefusal(StreamOf(stream));
        no != CudaResult::kSuccess) {
      return no;
    }
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
    scheduler_->CountQuery(device_);
    if (const CudaResult no = Refusal("EventQuery");
        no != CudaResult::kSuccess) {
      return no;
    }
    scheduler_->RunOne();
    const auto event = Find(handle, "somebody asks about");
    if (event->captured) {
      scheduler_->Violation("somebody asks about a captured event");
      const auto capture = event->capture.lock();
      if (capture != nullptr) capture->valid = false;
      return scheduler_->Failed(CudaResult::kCapturedEvent);
    }
    return event->records == 0 || event->reached
               ? CudaResult::kSuccess
               : scheduler_->Failed(CudaResult::kNotReady);
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
    if (const CudaResult no = Refusal("Malloc"); no != CudaResult::kSuccess) {
      return no;
    }
    scheduler_->AwaitDevice(device_, "cudaMalloc");
    *memory = scheduler_->memory().Allocate(bytes);
    return CudaResult::kSuccess;
  }
  CudaResult Free(void* memory) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("Free"); no != CudaResult::kSuccess) {
      return no;
    }
    scheduler_->AwaitDevice(device_, "cudaFree");
    Release(memory);
    return CudaResult::kSuccess;
  }
  CudaResult HostAlloc(void** memory, size_t bytes) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("HostAlloc");
        no != CudaResult::kSuccess) {
      return no;
    }
    scheduler_->AwaitDevice(device_, "cudaHostAlloc");
    *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(*memory, 0xff, bytes);
    return CudaResult::kSuccess;
  }
  CudaResult FreeHost(void* memory) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("FreeHost"); no != CudaResult::kSuccess) {
      refused_.insert(
          {memory, std::unique_ptr<void, void (*)(void*)>(memory, std::free)});
      return no;
    }
    scheduler_->AwaitDevice(device_, "cudaFreeHost");
    if (refused_.erase(memory) == 0) std::free(memory);
    return CudaResult::kSuccess;
  }

  CudaResult MallocAsync(void** memory, size_t bytes,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("MallocAsync");
        no != CudaResult::kSuccess) {
      return no;
    }
    if (const CudaResult no = scheduler_->CaptureRefusal(StreamOf(stream));
        no != CudaResult::kSuccess) {
      return no;
    }
    *memory = scheduler_->memory().Allocate(bytes);
    if (const auto& capture = StreamOf(stream)->capture; capture != nullptr) {
      // Allocated as long as the graph is; a free inside it only ends its use.
      capture->holds.push_back(std::shared_ptr<void>(
          *memory, [this](void* held) { scheduler_->memory().Free(held); }));
    }
    return CudaResult::kSuccess;
  }
  CudaResult FreeAsync(void* memory, CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("FreeAsync");
        no != CudaResult::kSuccess) {
      return no;
    }
    if (const CudaResult no = scheduler_->CaptureRefusal(StreamOf(stream));
        no != CudaResult::kSuccess) {
      return no;
    }
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
    if (const CudaResult no = Refusal("MemcpyAsync");
        no != CudaResult::kSuccess) {
      return no;
    }
    if (const CudaResult no = scheduler_->CaptureRefusal(StreamOf(stream));
        no != CudaResult::kSuccess) {
      return no;
    }
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
    if (const CudaResult no = Refusal("MemsetAsync");
        no != CudaResult::kSuccess) {
      return no;
    }
    if (const CudaResult no = scheduler_->CaptureRefusal(StreamOf(stream));
        no != CudaResult::kSuccess) {
      return no;
    }
    scheduler_->Push(StreamOf(stream), [this, memory, byte, bytes] {
      std::memset(scheduler_->memory().Reach(memory), byte, bytes);
      return true;
    });
    return CudaResult::kSuccess;
  }

  CudaResult StreamBeginCapture(CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamBeginCapture");
        no != CudaResult::kSuccess) {
      return no;
    }
    return graphs_.BeginCapture(StreamOf(stream));
  }
  CudaResult StreamEndCapture(CudaStreamHandle stream,
                              CudaGraphHandle* graph) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamEndCapture");
        no != CudaResult::kSuccess) {
      return no;
    }
    return graphs_.EndCapture(StreamOf(stream), graph);
  }
  CudaResult StreamGetCaptureInfo(CudaStreamHandle stream,
                                  CudaCaptureId* id) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("StreamGetCaptureInfo");
        no != CudaResult::kSuccess) {
      return no;
    }
    const auto& capture = StreamOf(stream)->capture;
    *id = capture == nullptr || !capture->valid ? 0 : capture->id;
    return capture == nullptr || capture->valid
               ? CudaResult::kSuccess
               : CudaResult::kCaptureInvalidated;
  }
  CudaResult CaptureOnRelease(CudaStreamHandle stream, void (*released)(void*),
                              void* argument) override {
    MutexLock lock(&scheduler_->mutex());
    const std::shared_ptr<void> held(argument, released);
    if (const CudaResult no = Refusal("CaptureOnRelease");
        no != CudaResult::kSuccess) {
      return no;
    }
    const auto& capture = StreamOf(stream)->capture;
    if (capture == nullptr) return CudaResult::kCaptureInvalidated;
    capture->holds.push_back(held);
    return CudaResult::kSuccess;
  }
  CudaResult GraphInstantiate(CudaGraphExecHandle* exec,
                              CudaGraphHandle graph) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("GraphInstantiate");
        no != CudaResult::kSuccess) {
      return no;
    }
    return graphs_.Instantiate(exec, graph);
  }
  CudaResult GraphLaunch(CudaGraphExecHandle exec,
                         CudaStreamHandle stream) override {
    MutexLock lock(&scheduler_->mutex());
    if (const CudaResult no = Refusal("GraphLaunch");
        no != CudaResult::kSuccess) {
      return no;
    }
    return graphs_.Launch(exec, StreamOf(stream));
  }
  // Both do their work on a lost device, too, and return its error.
  CudaResult GraphExecDestroy(CudaGraphExecHandle exec) override {
    MutexLock lock(&scheduler_->mutex());
    const CudaResult no = Refusal("GraphExecDestroy");
    if (no != CudaResult::kSuccess && !scheduler_->IsBroken(device_)) return no;
    const CudaResult destroyed = graphs_.Destroy(exec);
    return no != CudaResult::kSuccess ? no : destroyed;
  }
  CudaResult GraphDestroy(CudaGraphHandle graph) override {
    MutexLock lock(&scheduler_->mutex());
    const CudaResult no = Refusal("GraphDestroy");
    if (no != CudaResult::kSuccess && !scheduler_->IsBroken(device_)) return no;
    const CudaResult destroyed = graphs_.Destroy(graph);
    return no != CudaResult::kSuccess ? no : destroyed;
  }

  void RangePush(const char*) override {}
  void RangePop() override {}

 private:
  CudaResult Refusal(const char* call) {
    return scheduler_->Refusal(device_, call);
  }

  // `use`, if given, names a use that requires an event that was recorded and
  // is not destroyed; anything else is a violation.
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
  // Pinned memory that a failed device did not free. It leaks until the process
  // exits, here until the fake is destroyed.
  std::map<void*, std::unique_ptr<void, void (*)(void*)>> refused_;
  FakeGraphs graphs_;
  const int device_, driver_, runtime_, devices_;
  // Includes destroyed events, so that their use is recognised.
  std::map<CudaEventHandle, std::shared_ptr<FakeEvent>> events_;
};

}  // namespace

std::unique_ptr<CudaApi> MakeFakeCuda(Scheduler* scheduler, int device,
                                      int driver, int runtime, int devices) {
  return std::make_unique<FakeCuda>(scheduler, device, driver, runtime,
                                    devices);
}

}  // namespace lockstep::fake
