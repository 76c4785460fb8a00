// Faults where communicators end while the device is busy, or a stream is full.

#include <atomic>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/transport/nccl/faults.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::fake {
namespace {

using transport::nccl::CudaApi;
using transport::nccl::NcclApi;
using transport::nccl::Tables;

// Holds calls that end a communicator until the launch thread, which is the one
// that polls, makes them.
class HoldsEnds : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommGetAsyncError(Comm comm, Result* error) override {
    for (const auto& end : Held()) end();
    return inner_->CommGetAsyncError(comm, error);
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

class DestroysOnTheLaunchThread final : public HoldsEnds {
 public:
  using HoldsEnds::HoldsEnds;
  Result CommDestroy(Comm comm) override {
    Hold([this, comm] { inner_->CommDestroy(comm); });
    return Result::kSuccess;
  }
};

class AbortsOnTheLaunchThread final : public HoldsEnds {
 public:
  using HoldsEnds::HoldsEnds;
  Result CommAbort(Comm comm) override {
    Hold([this, comm] {
      inner_->GroupStart();
      inner_->CommAbort(comm);
      inner_->GroupEnd();
    });
    return Result::kSuccess;
  }
};

// One abort after the other, on one thread.
class ReclaimsOneAfterTheOther final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result GroupStart() override {
    if (!IsReclaimer()) return inner_->GroupStart();
    mutex_.Lock();
    return inner_->GroupStart();
  }
  Result GroupEnd() override {
    const Result ended = inner_->GroupEnd();
    if (IsReclaimer()) mutex_.Unlock();
    return ended;
  }
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    launch_thread_ = std::this_thread::get_id();
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }

 private:
  bool IsReclaimer() const {
    return std::this_thread::get_id() != launch_thread_;
  }
  std::atomic<std::thread::id> launch_thread_{};
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

void AbortUnderTheLockOfACall(int, Tables* tables) {
  const auto lock = std::make_shared<EnqueueLock>();
  tables->nccl = std::make_shared<AbortsLocked>(tables->nccl, lock);
  tables->cuda = std::make_shared<EnqueuesLocked>(tables->cuda, lock);
}

}  // namespace

std::vector<Fault> EndFaults() {
  return {
      {"destroys on the launch thread", "late: an operation beside an end",
       DecorateNccl<DestroysOnTheLaunchThread>()},
      {"aborts on the launch thread", "late: the end behind a full stream",
       DecorateNccl<AbortsOnTheLaunchThread>()},
      {"ends one communicator after the other",
       "late: the end beside an abort that hangs",
       DecorateNccl<ReclaimsOneAfterTheOther>()},
      {"aborts under the lock of a call", "late: the end behind a full stream",
       AbortUnderTheLockOfACall},
  };
}

}  // namespace lockstep::fake
