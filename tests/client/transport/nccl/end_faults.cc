// Faults where communicators end while the device is busy, or a stream is full,
// where a function on the host waits, and where a communicator is used before
// it is ready for that.

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/nccl/device_scope.h"
#include "tests/client/transport/nccl/faults.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::fake {
namespace {

using transport::nccl::CudaApi;
using transport::nccl::NcclApi;
using transport::nccl::Tables;

// Holds calls that end a communicator until a caller enqueues the next
// operation, and makes them there.
class HoldsEnds : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    for (const auto& end : Held()) end();
    return inner_->AllReduce(in, out, count, dtype, op, comm, stream);
  }

 protected:
  void Hold(std::function<void()> end) {
    MutexLock lock(&mutex_);
    held_.push_back(std::move(end));
  }

 private:
  std::vector<std::function<void()>> Held() {
    MutexLock lock(&mutex_);
    return std::exchange(held_, {});
  }
  Mutex mutex_;
  std::vector<std::function<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

class DestroysInACall final : public HoldsEnds {
 public:
  using HoldsEnds::HoldsEnds;
  Result CommDestroy(Comm comm) override {
    Hold([this, comm] { inner_->CommDestroy(comm); });
    return Result::kSuccess;
  }
};

class AbortsInACall final : public HoldsEnds {
 public:
  using HoldsEnds::HoldsEnds;
  Result CommAbort(Comm comm) override {
    Hold([this, comm] { inner_->CommAbort(comm); });
    return Result::kSuccess;
  }
};

// Frees two that it has aborted though a call may still use them.
class FreesUnderACall final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommAbort(Comm comm) override {
    const Result aborted = inner_->CommAbort(comm);
    if (++aborts_ == 2) {
      inner_->GroupEnd();
      inner_->GroupStart();
    }
    return aborted;
  }
  Result GroupEnd() override {
    aborts_ = 0;
    return inner_->GroupEnd();
  }

 private:
  inline static thread_local int aborts_ = 0;
};

// One abort after the other, on one thread.
class ReclaimsOneAfterTheOther final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommAbort(Comm comm) override {
    if (!std::exchange(aborts_, true)) mutex_.Lock();
    return inner_->CommAbort(comm);
  }
  Result GroupEnd() override {
    const Result ended = inner_->GroupEnd();
    if (std::exchange(aborts_, false)) mutex_.Unlock();
    return ended;
  }

 private:
  inline static thread_local bool aborts_ = false;
  Mutex mutex_;
};

// An abort takes the lock under which work is enqueued.
struct EnqueueLock {
  Mutex mutex;
};

class EnqueuesLocked final : public ForwardingCuda {
 public:
  EnqueuesLocked(std::shared_ptr<CudaApi> inner,
                 std::shared_ptr<EnqueueLock> lock)
      : ForwardingCuda(std::move(inner)), lock_(std::move(lock)) {}
  Result StreamCreateWithPriority(StreamHandle* stream, unsigned flags,
                                  int priority) override {
    const Result made =
        inner_->StreamCreateWithPriority(stream, flags, priority);
    MutexLock lock(&mutex_);
    if (priority == 0) callers_.insert(*stream);
    return made;
  }
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    if (!IsCallers(stream)) return inner_->EventRecord(event, stream);
    MutexLock lock(&lock_->mutex);
    return inner_->EventRecord(event, stream);
  }

 private:
  bool IsCallers(StreamHandle stream) {
    MutexLock lock(&mutex_);
    return callers_.count(stream) > 0;
  }
  const std::shared_ptr<EnqueueLock> lock_;
  Mutex mutex_;
  std::set<StreamHandle> callers_ ABSL_GUARDED_BY(mutex_);
};

class AbortsLocked final : public ForwardingNccl {
 public:
  AbortsLocked(std::shared_ptr<NcclApi> inner,
               std::shared_ptr<EnqueueLock> lock)
      : ForwardingNccl(std::move(inner)), lock_(std::move(lock)) {}
  Result CommAbort(Comm comm) override {
    MutexLock lock(&lock_->mutex);
    return inner_->CommAbort(comm);
  }

 private:
  const std::shared_ptr<EnqueueLock> lock_;
};

// A function on the host waits until one of another stream has begun, as if for
// an event of its work.
class WaitsOnTheHost final : public ForwardingCuda {
 public:
  using ForwardingCuda::ForwardingCuda;
  Result LaunchHostFunc(StreamHandle stream, void (*run)(void*),
                        void* argument) override {
    struct Call {
      WaitsOnTheHost* self;
      void (*run)(void*);
      void* argument;
    };
    return inner_->LaunchHostFunc(
        stream,
        [](void* at) {
          const std::unique_ptr<Call> call(static_cast<Call*>(at));
          const int mine = ++call->self->begun_;
          while (mine == 1 && call->self->begun_ == 1) {
            std::this_thread::yield();
          }
          call->run(call->argument);
        },
        new Call{this, run, argument});
  }

 private:
  std::atomic<int> begun_{0};
};

// Deregisters in the next call of the communicator, on another thread.
class DeregistersInACall final : public ForwardingNccl {
 public:
  DeregistersInACall(std::shared_ptr<NcclApi> inner,
                     std::shared_ptr<CudaApi> cuda)
      : ForwardingNccl(std::move(inner)), cuda_(std::move(cuda)) {}
  Result CommWindowDeregister(Comm comm,
                              transport::nccl::NcclWindow window) override {
    held_.emplace_back(comm, window);
    return Result::kSuccess;
  }
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    const Result begun =
        inner_->AllReduce(in, out, count, dtype, op, comm, stream);
    std::thread([this] {
      const transport::nccl::DeviceScope scope(*cuda_);
      Deregister();
    }).join();
    return begun;
  }
  Result CommFinalize(Comm comm) override {
    Deregister();
    return inner_->CommFinalize(comm);
  }

 private:
  void Deregister() {
    for (const auto& [comm, window] : std::exchange(held_, {})) {
      inner_->CommWindowDeregister(comm, window);
    }
  }
  const std::shared_ptr<CudaApi> cuda_;
  std::vector<std::pair<Comm, transport::nccl::NcclWindow>> held_;
};

// Leaves out the large ones of the first operations of each communicator.
class WarmsSmallOnly final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result AllReduce(const void* in, void* out, size_t count, DType dtype, Op op,
                   Comm comm, StreamHandle stream) override {
    return Left(comm, count)
               ? Result::kSuccess
               : inner_->AllReduce(in, out, count, dtype, op, comm, stream);
  }
  Result AllGather(const void* in, void* out, size_t count, DType dtype,
                   Comm comm, StreamHandle stream) override {
    return Left(comm, count)
               ? Result::kSuccess
               : inner_->AllGather(in, out, count, dtype, comm, stream);
  }
  Result ReduceScatter(const void* in, void* out, size_t count, DType dtype,
                       Op op, Comm comm, StreamHandle stream) override {
    return Left(comm, count)
               ? Result::kSuccess
               : inner_->ReduceScatter(in, out, count, dtype, op, comm, stream);
  }
  Result Broadcast(const void* in, void* out, size_t count, DType dtype,
                   int root, Comm comm, StreamHandle stream) override {
    return Left(comm, count)
               ? Result::kSuccess
               : inner_->Broadcast(in, out, count, dtype, root, comm, stream);
  }
  // The pairs are the last ones that are warmed.
  Result Send(const void* buffer, size_t count, DType dtype, int peer,
              Comm comm, StreamHandle stream) override {
    warm_.insert(comm);
    return inner_->Send(buffer, count, dtype, peer, comm, stream);
  }

 private:
  bool Left(Comm comm, size_t count) {
    return warm_.count(comm) == 0 && count >= kLarge;
  }
  static constexpr size_t kLarge = 512;
  std::set<Comm> warm_;
};

class WarmsNoPairs final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result Send(const void* buffer, size_t count, DType dtype, int peer,
              Comm comm, StreamHandle stream) override {
    return sent_.insert(comm).second
               ? Result::kSuccess
               : inner_->Send(buffer, count, dtype, peer, comm, stream);
  }
  Result Recv(void* buffer, size_t count, DType dtype, int peer, Comm comm,
              StreamHandle stream) override {
    return received_.insert(comm).second
               ? Result::kSuccess
               : inner_->Recv(buffer, count, dtype, peer, comm, stream);
  }

 private:
  std::set<Comm> sent_, received_;
};

void DeregisterInACall(int, Tables* tables) {
  tables->nccl =
      std::make_shared<DeregistersInACall>(tables->nccl, tables->cuda);
}

void AbortUnderTheLockOfACall(int, Tables* tables) {
  const auto lock = std::make_shared<EnqueueLock>();
  tables->nccl = std::make_shared<AbortsLocked>(tables->nccl, lock);
  tables->cuda = std::make_shared<EnqueuesLocked>(tables->cuda, lock);
}

}  // namespace

std::vector<Fault> EndFaults() {
  return {
      {"destroys in a call", "late: an operation beside an end",
       DecorateNccl<DestroysInACall>()},
      {"aborts in a call", "late: the end behind a full stream",
       DecorateNccl<AbortsInACall>()},
      {"frees a communicator under a call", "freed while a call uses it",
       DecorateNccl<FreesUnderACall>()},
      {"ends one communicator after the other",
       "late: the end beside an abort that hangs",
       DecorateNccl<ReclaimsOneAfterTheOther>()},
      {"waits in a function on the host", "late: functions on the host",
       DecorateCuda<WaitsOnTheHost>()},
      {"deregisters in a call", "two calls of one communicator",
       DeregisterInACall},
      {"warms small operations only", "a first use in a step",
       DecorateNccl<WarmsSmallOnly>()},
      {"warms no pairs", "a first use in a step", DecorateNccl<WarmsNoPairs>()},
      {"aborts under the lock of a call", "late: the end behind a full stream",
       AbortUnderTheLockOfACall},
  };
}

}  // namespace lockstep::fake
