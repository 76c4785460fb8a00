// Faults with registered memory, and with each communicator's share of the
// device.

#include <chrono>
#include <climits>
#include <functional>
#include <future>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/nccl/device_scope.h"
#include "tests/client/transport/nccl/faults.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep::fake {
namespace {

using transport::nccl::CudaApi;
using transport::nccl::CudaStreamHandle;
using transport::nccl::KernelApi;
using transport::nccl::NcclApi;
using transport::nccl::NcclWindow;
using transport::nccl::Tables;

// --- Windows ---

// Uses memory before every rank has registered it.
class RegistersLater final : public ForwardingNccl {
 public:
  RegistersLater(std::shared_ptr<NcclApi> inner, std::shared_ptr<CudaApi> cuda)
      : ForwardingNccl(std::move(inner)), cuda_(std::move(cuda)) {}
  ~RegistersLater() override {
    for (std::thread& thread : threads_) thread.join();
  }
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes, NcclWindow*,
                            int flags) override {
    std::promise<void> begins;
    threads_.emplace_back([=, this, &begins] {
      const transport::nccl::DeviceScope scope(*cuda_);
      NcclWindow window = nullptr;
      begins.set_value();
      inner_->CommWindowRegister(comm, memory, bytes, &window, flags);
    });
    begins.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Result::kSuccess;
  }

 private:
  const std::shared_ptr<CudaApi> cuda_;
  std::vector<std::thread> threads_;
};

class AllocatesWithoutNccl final : public ForwardingNccl {
 public:
  AllocatesWithoutNccl(std::shared_ptr<NcclApi> inner,
                       std::shared_ptr<CudaApi> cuda)
      : ForwardingNccl(std::move(inner)), cuda_(std::move(cuda)) {}
  Result MemAlloc(void** memory, size_t bytes) override {
    cuda_->Malloc(memory, bytes);
    return Result::kSuccess;
  }
  Result MemFree(void* memory) override {
    cuda_->Free(memory);
    return Result::kSuccess;
  }

 private:
  const std::shared_ptr<CudaApi> cuda_;
};

// Places one rank's bucket behind other memory of its segment.
class PlacesRanksApart final : public ForwardingNccl {
 public:
  PlacesRanksApart(std::shared_ptr<NcclApi> inner, int rank)
      : ForwardingNccl(std::move(inner)), shift_(size_t{256} * rank) {}
  Result MemAlloc(void** memory, size_t bytes) override {
    const Result made = inner_->MemAlloc(memory, bytes + kRoom);
    *memory = static_cast<std::byte*>(*memory) + shift_;
    return made;
  }
  Result MemFree(void* memory) override {
    return inner_->MemFree(Segment(memory));
  }
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            NcclWindow* window, int flags) override {
    return inner_->CommWindowRegister(comm, Segment(memory), bytes + kRoom,
                                      window, flags);
  }

 private:
  static constexpr size_t kRoom = 4096;
  void* Segment(void* memory) const {
    return static_cast<std::byte*>(memory) - shift_;
  }
  const size_t shift_;
};

class RoundsUpAlone final : public ForwardingNccl {
 public:
  RoundsUpAlone(std::shared_ptr<NcclApi> inner, int rank)
      : ForwardingNccl(std::move(inner)), more_(size_t{4096} * rank) {}
  Result MemAlloc(void** memory, size_t bytes) override {
    return inner_->MemAlloc(memory, bytes + more_);
  }
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            NcclWindow* window, int flags) override {
    return inner_->CommWindowRegister(comm, memory, bytes + more_, window,
                                      flags);
  }

 private:
  const size_t more_;
};

class AsksForNoSymmetry final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            NcclWindow* window, int) override {
    return inner_->CommWindowRegister(comm, memory, bytes, window, 0);
  }
};

class ForgetsNoWindow final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowDeregister(Comm, NcclWindow) override {
    return Result::kSuccess;
  }
};

class ForgetsTwice final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowDeregister(Comm comm, NcclWindow window) override {
    inner_->CommWindowDeregister(comm, window);
    return inner_->CommWindowDeregister(comm, window);
  }
};

class FreesBeforeItForgets final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowDeregister(Comm comm, NcclWindow window) override {
    MutexLock lock(&mutex_);
    held_[window] = comm;
    return Result::kSuccess;
  }
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            NcclWindow* window, int flags) override {
    ForgetHeld();
    return inner_->CommWindowRegister(comm, memory, bytes, window, flags);
  }
  Result CommFinalize(Comm comm) override {
    ForgetHeld();
    return inner_->CommFinalize(comm);
  }

 private:
  void ForgetHeld() {
    MutexLock lock(&mutex_);
    for (const auto& [window, comm] : std::exchange(held_, {})) {
      inner_->CommWindowDeregister(comm, window);
    }
  }
  Mutex mutex_;
  std::map<NcclWindow, Comm> held_ ABSL_GUARDED_BY(mutex_);
};

class ForgetsBehindTheEnd final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowDeregister(Comm comm, NcclWindow window) override {
    held_[comm] = window;
    return Result::kSuccess;
  }
  Result CommDestroy(Comm comm) override {
    const Result destroyed = inner_->CommDestroy(comm);
    if (held_.count(comm) > 0) {
      inner_->CommWindowDeregister(comm, held_[comm]);
    }
    return destroyed;
  }

 private:
  std::map<Comm, NcclWindow> held_;
};

class ForgetsBehindAnAbort final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowRegister(Comm comm, void* memory, size_t bytes,
                            NcclWindow* window, int flags) override {
    const Result made =
        inner_->CommWindowRegister(comm, memory, bytes, window, flags);
    MutexLock lock(&mutex_);
    known_[comm] = *window;
    return made;
  }
  Result CommAbort(Comm comm) override {
    aborted_.push_back(comm);
    return inner_->CommAbort(comm);
  }
  Result GroupEnd() override {
    const Result ended = inner_->GroupEnd();
    for (Comm comm : std::exchange(aborted_, {})) {
      MutexLock lock(&mutex_);
      if (known_.count(comm) == 0) continue;
      inner_->CommWindowDeregister(comm, known_[comm]);
    }
    return ended;
  }

 private:
  inline static thread_local std::vector<Comm> aborted_;
  Mutex mutex_;
  std::map<Comm, NcclWindow> known_ ABSL_GUARDED_BY(mutex_);
};

// --- A communicator's share of the device ------

template <int kFirst, int kLater>
class TakesChannels final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommInitRankConfig(Comm* comm, int size, const Id& id, int rank,
                            Config* config) override {
    config->max_ctas = made_++ == 0 ? kFirst : kLater;
    return inner_->CommInitRankConfig(comm, size, id, rank, config);
  }

 private:
  int made_ = 0;
};

// Row reductions that are delayed until the next call on the stream.
struct HeldReductions {
  Mutex mutex;
  std::map<CudaStreamHandle, std::function<void()>> held ABSL_GUARDED_BY(mutex);

  void Launch(CudaStreamHandle stream) {
    MutexLock lock(&mutex);
    const auto found = held.find(stream);
    if (found == held.end()) return;
    found->second();
    held.erase(found);
  }
};

// Gathers the next rows before the previous ones have been reduced.
class ReducesLate final : public ForwardingKernels {
 public:
  ReducesLate(std::shared_ptr<KernelApi> inner,
              std::shared_ptr<HeldReductions> reductions)
      : ForwardingKernels(std::move(inner)),
        reductions_(std::move(reductions)) {}
  Result ReduceRows(const void* inputs, int rows, void* out, size_t count,
                    lockstep::DType dtype, ReduceOp op,
                    StreamHandle stream) override {
    reductions_->Launch(stream);
    MutexLock lock(&reductions_->mutex);
    reductions_->held[stream] = [=, inner = inner_] {
      inner->ReduceRows(inputs, rows, out, count, dtype, op, stream);
    };
    return Result::kSuccess;
  }

 private:
  const std::shared_ptr<HeldReductions> reductions_;
};

class LaunchesHeld final : public ForwardingCuda {
 public:
  LaunchesHeld(std::shared_ptr<CudaApi> inner,
               std::shared_ptr<HeldReductions> reductions)
      : ForwardingCuda(std::move(inner)), reductions_(std::move(reductions)) {}
  Result EventRecord(EventHandle event, StreamHandle stream) override {
    reductions_->Launch(stream);
    return inner_->EventRecord(event, stream);
  }

 private:
  const std::shared_ptr<HeldReductions> reductions_;
};

void RegisterLater(int, Tables* tables) {
  tables->nccl = std::make_shared<RegistersLater>(tables->nccl, tables->cuda);
}

void AllocateWithoutNccl(int, Tables* tables) {
  tables->nccl =
      std::make_shared<AllocatesWithoutNccl>(tables->nccl, tables->cuda);
}

void ReduceLate(int, Tables* tables) {
  const auto reductions = std::make_shared<HeldReductions>();
  tables->kernels = std::make_shared<ReducesLate>(tables->kernels, reductions);
  tables->cuda = std::make_shared<LaunchesHeld>(tables->cuda, reductions);
}

}  // namespace

std::vector<Fault> WindowFaults() {
  return {
      {"uses a window before it is made", "two calls of one|registered twice",
       RegisterLater},
      {"makes windows over memory that is not NCCL's", "did not allocate",
       AllocateWithoutNccl},
      {"places buckets at other offsets", "different offsets",
       DecorateNccl<PlacesRanksApart>()},
      {"makes windows of different sizes", "different sizes",
       DecorateNccl<RoundsUpAlone>()},
      {"does not ask for symmetry", "not symmetric",
       DecorateNccl<AsksForNoSymmetry>()},
      {"makes a window of what it still knows", "registered twice",
       DecorateNccl<ForgetsNoWindow>()},
      {"forgets a window twice", "was not registered",
       DecorateNccl<ForgetsTwice>()},
      {"frees memory before it forgets the window", "freed that a communicator",
       DecorateNccl<FreesBeforeItForgets>()},
      {"ends before it forgets its windows", "destroyed that knows memory",
       DecorateNccl<ForgetsBehindTheEnd>()},
      {"forgets windows of what was aborted", "has ended",
       DecorateNccl<ForgetsBehindAnAbort>()},
      {"gathers rows over those that are not reduced yet",
       "wrong value: the large maximum", ReduceLate},
      {"gives the verdict all channels", "channels: 0 0",
       DecorateNccl<TakesChannels<INT_MIN, INT_MIN>>()},
      {"gives the gradients few channels", "channels: 2 2",
       DecorateNccl<TakesChannels<2, 2>>()},
  };
}

}  // namespace lockstep::fake
