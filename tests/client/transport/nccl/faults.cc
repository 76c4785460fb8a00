#include "tests/client/transport/nccl/faults.h"

#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/nccl/device_scope.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::fake {
namespace {

using transport::nccl::CudaApi;
using transport::nccl::NcclApi;
using transport::nccl::NcclResult;
using transport::nccl::Tables;

// --- Events and streams ---

// Recognises the communicators' streams by their priority.
class StreamsKnown : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;

  Result StreamCreateWithPriority(StreamHandle* stream, unsigned flags,
                                  int priority) override {
    const Result made =
        inner_->StreamCreateWithPriority(stream, flags, priority);
    MutexLock lock(&mutex_);
    if (priority != 0) communicators_.insert(*stream);
    return made;
  }

 protected:
  bool IsCommunicators(StreamHandle stream) {
    MutexLock lock(&mutex_);
    return communicators_.count(stream) > 0;
  }

 private:
  Mutex mutex_;
  std::set<StreamHandle> communicators_ ABSL_GUARDED_BY(mutex_);
};

class ForgetsTheProducer final : public StreamsKnown {
 public:
  using StreamsKnown::StreamsKnown;
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    if (IsCommunicators(stream)) return Result::kSuccess;
    return inner_->StreamWaitEvent(stream, event);
  }
};

class ForgetsTheConsumer final : public StreamsKnown {
 public:
  using StreamsKnown::StreamsKnown;
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    if (!IsCommunicators(stream)) return Result::kSuccess;
    return inner_->StreamWaitEvent(stream, event);
  }
};

// Drops a wait that is directly followed by an event's record: the wait for the
// launch slot.
class ForgetsTheTurn final : public StreamsKnown {
 public:
  using StreamsKnown::StreamsKnown;
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    if (!IsCommunicators(stream)) return inner_->StreamWaitEvent(stream, event);
    MutexLock lock(&mutex_);
    Flush();
    held_ = {stream, event};
    return Result::kSuccess;
  }
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    MutexLock lock(&mutex_);
    if (held_.first == stream) held_ = {};
    return inner_->EventRecord(event, stream);
  }

 private:
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [stream, event] = std::exchange(held_, {});
    if (stream != nullptr) inner_->StreamWaitEvent(stream, event);
  }
  Mutex mutex_;
  std::pair<StreamHandle, EventHandle> held_ ABSL_GUARDED_BY(mutex_);
};

class NeverRecords final : public StreamsKnown {
 public:
  using StreamsKnown::StreamsKnown;
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    if (IsCommunicators(stream)) return Result::kSuccess;
    return inner_->EventRecord(event, stream);
  }
};

class ReusesEvents final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result EventCreateWithFlags(EventHandle* event, unsigned flags) override {
    MutexLock lock(&mutex_);
    if (kept_ == nullptr) inner_->EventCreateWithFlags(&kept_, flags);
    *event = kept_;
    return Result::kSuccess;
  }
  Result EventDestroy(EventHandle) override { return Result::kSuccess; }

 private:
  Mutex mutex_;
  EventHandle kept_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

class FreesEventsEarly final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    const Result recorded = inner_->EventRecord(event, stream);
    inner_->EventDestroy(event);
    return recorded;
  }
  Result EventDestroy(EventHandle) override { return Result::kSuccess; }
};

// Shared by the two tables of RecordInTheGroup: the event recorded before the
// group ends, and the events that it replaces.
struct EarlyEvents {
  Mutex mutex;
  std::map<transport::nccl::CudaStreamHandle, transport::nccl::CudaEventHandle>
      early ABSL_GUARDED_BY(mutex);
  std::map<transport::nccl::CudaEventHandle, transport::nccl::CudaEventHandle>
      taken_for ABSL_GUARDED_BY(mutex);
};

class EarlyCuda final : public ForwardingCuda {
 public:
  EarlyCuda(std::shared_ptr<CudaApi> inner, std::shared_ptr<EarlyEvents> events)
      : ForwardingCuda(std::move(inner)), events_(std::move(events)) {}

  Result EventRecord(EventHandle event, StreamHandle stream) override {
    MutexLock lock(&events_->mutex);
    const auto early = events_->early.find(stream);
    if (early == events_->early.end()) {
      return inner_->EventRecord(event, stream);
    }
    events_->taken_for[event] = early->second;
    events_->early.erase(early);
    return Result::kSuccess;
  }
  Result EventQuery(EventHandle event) override {
    return inner_->EventQuery(Real(event));
  }
  Result StreamWaitEvent(StreamHandle stream, EventHandle event) override {
    return inner_->StreamWaitEvent(stream, Real(event));
  }

 private:
  EventHandle Real(EventHandle event) {
    MutexLock lock(&events_->mutex);
    const auto found = events_->taken_for.find(event);
    return found == events_->taken_for.end() ? event : found->second;
  }
  const std::shared_ptr<EarlyEvents> events_;
};

// --- Calls of NCCL ---

class EarlyNccl final : public ForwardingNccl {
 public:
  EarlyNccl(std::shared_ptr<NcclApi> inner, std::shared_ptr<CudaApi> cuda,
            std::shared_ptr<EarlyEvents> events)
      : ForwardingNccl(std::move(inner)),
        cuda_(std::move(cuda)),
        events_(std::move(events)) {}

  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    transport::nccl::CudaEventHandle event = nullptr;
    cuda_->EventCreateWithFlags(&event, 0);
    cuda_->EventRecord(event, stream);
    {
      MutexLock lock(&events_->mutex);
      events_->early[stream] = event;
    }
    return inner_->AllReduce(in, out, count, dtype, op, comm, stream);
  }

 private:
  const std::shared_ptr<CudaApi> cuda_;
  const std::shared_ptr<EarlyEvents> events_;
};

class IgnoresErrors final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommGetAsyncError(Comm comm, Result* error) override {
    const Result asked = inner_->CommGetAsyncError(comm, error);
    if (*error == Result::kRemoteError) *error = Result::kSuccess;
    return asked;
  }
};

// Enqueues on a thread of its own, after the call.
class EnqueuesLater final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  ~EnqueuesLater() override {
    for (std::thread& thread : threads_) thread.join();
  }
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    threads_.emplace_back([=, this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const transport::nccl::DeviceScope scope(*cuda_);
      inner_->AllReduce(in, out, count, dtype, op, comm, stream);
    });
    return Result::kSuccess;
  }
  void set_cuda(std::shared_ptr<CudaApi> cuda) { cuda_ = std::move(cuda); }

 private:
  std::shared_ptr<CudaApi> cuda_;
  std::vector<std::thread> threads_;
};

class DoesNotBlock final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    config->blocking = 0;
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }
};

// Where nobody can abort it before it has connected.
class ConnectsOutsideAGroup final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    inner_->GroupEnd();
    const Result made =
        inner_->CommInitRankConfig(comm, size, id, rank, config);
    inner_->GroupStart();
    return made;
  }
};

class MovesNothingForNothing final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    return inner_->AllReduce(in, out, dtype == DType::kUint8 ? 0 : count, dtype,
                             op, comm, stream);
  }
};

class NoGroupForMessages final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result GroupStart() override {
    held_ = true;
    return Result::kSuccess;
  }
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    Open();
    return inner_->AllReduce(in, out, count, dtype, op, comm, stream);
  }
  Result AllGather(const void* in, void* out, size_t count, DType dtype,
                   Comm comm, StreamHandle stream) override {
    Open();
    return inner_->AllGather(in, out, count, dtype, comm, stream);
  }
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    Open();
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }
  Result CommAbort(Comm comm) override {
    Open();
    return inner_->CommAbort(comm);
  }
  Result GroupEnd() override {
    held_ = false;
    return std::exchange(open_, false) ? inner_->GroupEnd() : Result::kSuccess;
  }

 private:
  void Open() {
    if (!std::exchange(held_, false)) return;
    open_ = true;
    inner_->GroupStart();
  }
  inline static thread_local bool held_ = false;
  inline static thread_local bool open_ = false;
};

// --- Endings ---

class AbortsAlone final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommAbort(Comm comm) override {
    inner_->GroupEnd();
    const Result aborted = inner_->CommAbort(comm);
    inner_->GroupStart();
    return aborted;
  }
};

// Aborts each communicator behind the next one.
class AbortsTheVerdictLast final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommAbort(Comm comm) override {
    if (held_ == nullptr) {
      held_ = comm;
      return Result::kSuccess;
    }
    const Result aborted = inner_->CommAbort(comm);
    inner_->CommAbort(std::exchange(held_, nullptr));
    return aborted;
  }
  Result GroupEnd() override {
    if (held_ != nullptr) inner_->CommAbort(std::exchange(held_, nullptr));
    return inner_->GroupEnd();
  }

 private:
  inline static thread_local Comm held_ = nullptr;
};

class ForgetsToAbort final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommAbort(Comm) override { return Result::kSuccess; }
};

class AbortsTwice final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommAbort(Comm comm) override {
    inner_->CommAbort(comm);
    return inner_->CommAbort(comm);
  }
};

class DestroysWithoutFinalizing final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommFinalize(Comm) override { return Result::kSuccess; }
};

class AbortsInsteadOfFinalizing final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommFinalize(Comm) override { return Result::kInternalError; }
};

class ForgetsTheMultiply final : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  Result CastScale(const void*, DType, double, void*, DType, size_t,
                   StreamHandle) override {
    return Result::kSuccess;
  }
};

void RecordInTheGroup(int, Tables* tables) {
  const auto events = std::make_shared<EarlyEvents>();
  tables->nccl =
      std::make_shared<EarlyNccl>(tables->nccl, tables->cuda, events);
  tables->cuda = std::make_shared<EarlyCuda>(tables->cuda, events);
}

void EnqueueLater(int, Tables* tables) {
  const auto later = std::make_shared<EnqueuesLater>(tables->nccl);
  later->set_cuda(tables->cuda);
  tables->nccl = later;
}

void ForgetTheMultiply(int, Tables* tables) {
  tables->kernels = std::make_shared<ForgetsTheMultiply>(tables->kernels);
}

}  // namespace

std::vector<Fault> AllFaults() {
  return {
      {"forgets to wait for the producer", "wrong value",
       DecorateCuda<ForgetsTheProducer>()},
      {"forgets to let the consumer wait", "wrong value",
       DecorateCuda<ForgetsTheConsumer>()},
      // Work that begins in another order meets other work, or none.
      {"forgets to keep the order of beginnings", "deadlock|wrong value",
       DecorateCuda<ForgetsTheTurn>()},
      {"waits for events that were never recorded", "never recorded",
       DecorateCuda<NeverRecords>()},
      {"reuses a stale event", "recorded twice", DecorateCuda<ReusesEvents>()},
      {"waits for an event that is freed", "destroyed",
       DecorateCuda<FreesEventsEarly>()},
      {"records before the group ends: publishes early", "wrong value",
       RecordInTheGroup},
      // Or connects later than its peer waits for it.
      {"returns before it has enqueued", "wrong value|late|at once",
       EnqueueLater},
      {"ignores NCCL's errors", "late: the news",
       DecorateNccl<IgnoresErrors>()},
      {"makes communicators that do not block", "does not block",
       DecorateNccl<DoesNotBlock>()},
      {"connects outside a group", "made outside a group",
       DecorateNccl<ConnectsOutsideAGroup>()},
      {"does not meet for nothing", "barrier",
       DecorateNccl<MovesNothingForNothing>()},
      {"has no group for messages", "deadlock|late: connect",
       DecorateNccl<NoGroupForMessages>()},
      {"aborts outside a group", "outside a group",
       DecorateNccl<AbortsAlone>()},
      {"aborts the verdict last", "abort order",
       DecorateNccl<AbortsTheVerdictLast>()},
      {"forgets to abort", "late: the end", DecorateNccl<ForgetsToAbort>()},
      {"aborts twice", "aborted twice", DecorateNccl<AbortsTwice>()},
      {"destroys without finalizing", "not quiet",
       DecorateNccl<DestroysWithoutFinalizing>()},
      {"aborts instead of finalizing", "though all was done",
       DecorateNccl<AbortsInsteadOfFinalizing>()},
      {"forgets the multiply of a mean", "wrong value", ForgetTheMultiply},
  };
}

}  // namespace lockstep::fake
