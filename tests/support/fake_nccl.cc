#include "tests/support/fake_nccl.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::fake {
namespace {

using transport::CollectiveKind;
using transport::nccl::CudaResult;
using transport::nccl::CudaStreamHandle;
using transport::nccl::NcclApi;
using transport::nccl::NcclComm;
using transport::nccl::NcclConfig;
using transport::nccl::NcclDType;
using transport::nccl::NcclOp;
using transport::nccl::NcclPart;
using transport::nccl::NcclResult;
using transport::nccl::NcclUniqueId;
using transport::nccl::NcclWindow;

Comm* CommOf(NcclComm handle) { return reinterpret_cast<Comm*>(handle); }

class FakeNccl final : public NcclApi {
 public:
  FakeNccl(Fabric* fabric, int device, int version)
      : fabric_(*fabric),
        scheduler_(fabric->scheduler()),
        device_(fabric->device(device)),
        version_(version) {
    device_.nccl_version = version;
  }

  NcclResult GetVersion(int* version) override {
    *version = version_;
    return NcclResult::kSuccess;
  }
  const char* GetErrorString(NcclResult) override { return "a fake error"; }
  const char* GetLastError(NcclComm) override { return ""; }

  NcclResult GetUniqueId(NcclUniqueId* id) override {
    MutexLock lock(&scheduler_.mutex());
    *id = fabric_.MakeId();
    return NcclResult::kSuccess;
  }

  NcclResult CommInitRankConfig(NcclComm* handle, int size,
                                const NcclUniqueId& id, int rank,
                                NcclConfig* config) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("CommInitRankConfig of NCCL"))
      return NcclResult::kUnhandledCudaError;
    if (config == nullptr || config->blocking != 1) {
      scheduler_.Violation("a communicator that does not block");
    }
    Group& group = groups_[std::this_thread::get_id()];
    if (group.depth == 0) {
      scheduler_.Violation("a communicator is made outside a group");
      return NcclResult::kInvalidUsage;
    }
    Comm* const comm = fabric_.Init(device_, size, id, rank);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    const bool any = config == nullptr || config->max_ctas == INT_MIN;
    device_.channels.push_back(any ? 0 : config->max_ctas);
    comm->polls_left = fabric_.DrawPolls();
    comm->caller = std::this_thread::get_id();
    group.begun.push_back(comm);
    scheduler_.Wake();
    *handle = reinterpret_cast<NcclComm>(comm);
    return NcclResult::kSuccess;
  }

  NcclResult CommGetAsyncError(NcclComm handle, NcclResult* error) override {
    MutexLock lock(&scheduler_.mutex());
    scheduler_.RunOne();
    Comm* const comm = Use(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    *error = ErrorOf(*comm);
    return NcclResult::kSuccess;
  }

  NcclResult CommFinalize(NcclComm handle) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("CommFinalize of NCCL")) return NcclResult::kUnhandledCudaError;
    Comm* const comm = BeginCall(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    comm->finalizing = true;
    comm->polls_left = fabric_.DrawPolls();
    return EndCall({comm}, [this](Comm& one) { return fabric_.Peaceful(one); });
  }

  NcclResult CommDestroy(NcclComm handle) override {
    MutexLock lock(&scheduler_.mutex());
    Comm* const comm = Use(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    if (!comm->finalizing || !fabric_.Peaceful(*comm)) {
      scheduler_.Violation("a communicator is destroyed that is not quiet");
    }
    if (!comm->known.empty()) {
      scheduler_.Violation("a communicator is destroyed that knows memory");
    }
    comm->over = true;
    Free({comm}, "CommDestroy of NCCL");
    return NcclResult::kSuccess;
  }

  NcclResult CommAbort(NcclComm handle) override {
    MutexLock lock(&scheduler_.mutex());
    Comm* const comm = Use(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    if (comm->aborted) {
      scheduler_.Violation("a communicator is aborted twice");
      return NcclResult::kInvalidArgument;
    }
    fabric_.Abort(comm);
    scheduler_.Wake();
    Group& group = groups_[std::this_thread::get_id()];
    if (group.depth > 0) {
      group.aborted.push_back(comm);
    } else {
      scheduler_.Violation("an abort outside a group");
      Free({comm}, "CommAbort of NCCL");
    }
    return Refused("CommAbort of NCCL") ? NcclResult::kUnhandledCudaError
                                        : NcclResult::kSuccess;
  }

  bool Has(NcclPart part) const override {
    switch (part) {
      case NcclPart::kWindows: return version_ >= 22700;
      case NcclPart::kSymmetryTold: return version_ >= 22900;
      case NcclPart::kMemory:
      case NcclPart::kRegistration: break;
    }
    return true;
  }
  NcclResult MemAlloc(void** memory, size_t bytes) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("MemAlloc of NCCL")) return NcclResult::kUnhandledCudaError;
    scheduler_.AwaitDevice(device_.number, "MemAlloc of NCCL");
    *memory = fabric_.MemAlloc(bytes);
    return NcclResult::kSuccess;
  }
  NcclResult MemFree(void* memory) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("MemFree of NCCL")) return NcclResult::kUnhandledCudaError;
    scheduler_.AwaitDevice(device_.number, "MemFree of NCCL");
    fabric_.MemFree(memory);
    return NcclResult::kSuccess;
  }
  NcclResult CommRegister(NcclComm handle, void* memory, size_t bytes,
                          void** registered) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("CommRegister of NCCL")) return NcclResult::kUnhandledCudaError;
    Comm* const comm = BeginCall(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    fabric_.Register(comm, memory, bytes, /*window=*/false);
    *registered = memory;
    comm->caller.reset();
    return NcclResult::kSuccess;
  }
  NcclResult CommDeregister(NcclComm handle, void* registered) override {
    return Forget(handle, registered);
  }
  NcclResult CommWindowRegister(NcclComm handle, void* memory, size_t bytes,
                                NcclWindow* window, int flags) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("CommWindowRegister of NCCL"))
      return NcclResult::kUnhandledCudaError;
    Comm* const comm = BeginCall(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    if (flags != transport::nccl::kNcclWindowSymmetric) {
      scheduler_.Violation("a window that is not symmetric");
    }
    *window = nullptr;
    fabric_.RegisterWindow(comm, memory, bytes);
    comm->polls_left = fabric_.DrawPolls();
    scheduler_.Wake();
    const NcclResult registered = EndCall({comm}, [this](Comm& one) {
      return device_.network_broken || fabric_.WindowsComplete(one);
    });
    if (device_.network_broken) return NcclResult::kRemoteError;
    comm->registering = false;
    if (registered == NcclResult::kSuccess) {
      *window = reinterpret_cast<NcclWindow>(memory);
    }
    return registered;
  }
  NcclResult CommWindowDeregister(NcclComm handle, NcclWindow window) override {
    return Forget(handle, window);
  }

  NcclResult GroupStart() override {
    MutexLock lock(&scheduler_.mutex());
    ++groups_[std::this_thread::get_id()].depth;
    return NcclResult::kSuccess;
  }

  NcclResult GroupEnd() override {
    MutexLock lock(&scheduler_.mutex());
    Group& group = groups_[std::this_thread::get_id()];
    if (group.depth == 0) {
      scheduler_.Violation("the end of a group that has not begun");
      return NcclResult::kInvalidUsage;
    }
    if (--group.depth > 0) return NcclResult::kSuccess;
    const NcclResult submitted = Submit(group);
    Free(std::exchange(group.aborted, {}), "CommAbort of NCCL");
    return submitted;
  }

  NcclResult AllReduce(const void* in, void* out, size_t count, NcclDType dtype,
                       NcclOp op, NcclComm comm,
                       CudaStreamHandle stream) override {
    return Add({CollectiveKind::kAllReduce, in, out, count, dtype, op}, comm,
               stream);
  }
  NcclResult ReduceScatter(const void* in, void* out, size_t count,
                           NcclDType dtype, NcclOp op, NcclComm comm,
                           CudaStreamHandle stream) override {
    return Add({CollectiveKind::kReduceScatter, in, out, count, dtype, op},
               comm, stream);
  }
  NcclResult AllGather(const void* in, void* out, size_t count, NcclDType dtype,
                       NcclComm comm, CudaStreamHandle stream) override {
    return Add({CollectiveKind::kAllGather, in, out, count, dtype}, comm,
               stream);
  }
  NcclResult Broadcast(const void* in, void* out, size_t count, NcclDType dtype,
                       int root, NcclComm comm,
                       CudaStreamHandle stream) override {
    return Add(
        {CollectiveKind::kBroadcast, in, out, count, dtype, NcclOp::kSum, root},
        comm, stream);
  }
  NcclResult Send(const void* buffer, size_t count, NcclDType dtype, int peer,
                  NcclComm comm, CudaStreamHandle stream) override {
    return Add({CollectiveKind::kSend, buffer, nullptr, count, dtype,
                NcclOp::kSum, peer},
               comm, stream);
  }
  NcclResult Recv(void* buffer, size_t count, NcclDType dtype, int peer,
                  NcclComm comm, CudaStreamHandle stream) override {
    return Add({CollectiveKind::kRecv, nullptr, buffer, count, dtype,
                NcclOp::kSum, peer},
               comm, stream);
  }

 private:
  // The NCCL group of a thread.
  struct Group {
    int depth = 0;
    std::vector<Comm*> begun;  // being made
    std::map<Comm*, std::shared_ptr<Launch>> launches;
    std::vector<Comm*> aborted;
  };

  // NCCL uses the calling thread's current device.
  bool Refused(const char* call) {
    return scheduler_.Refusal(device_.number, call) != CudaResult::kSuccess;
  }

  NcclResult Forget(NcclComm handle, const void* memory) {
    MutexLock lock(&scheduler_.mutex());
    Comm* const comm = BeginCall(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    fabric_.Deregister(comm, memory);
    comm->caller.reset();
    return NcclResult::kSuccess;
  }

  // A communicator on which any call is allowed. One that is aborted is not
  // freed while a call uses it.
  Comm* Use(NcclComm handle) {
    Comm* const comm = CommOf(handle);
    if (comm == nullptr || comm->freed || (comm->over && !comm->aborted)) {
      scheduler_.Violation("a call on a communicator that has ended");
      return nullptr;
    }
    return comm;
  }

  // A communicator on which the thread begins a call that nobody else may make
  // meanwhile.
  Comm* BeginCall(NcclComm handle) {
    Comm* const comm = Use(handle);
    if (comm == nullptr) return nullptr;
    const std::thread::id here = std::this_thread::get_id();
    if (comm->caller.value_or(here) != here) {
      scheduler_.Violation("two calls of one communicator at once");
      return nullptr;
    }
    comm->caller = here;
    return comm;
  }

  // Blocks until `over` of each, or until no more can come of it.
  NcclResult EndCall(const std::vector<Comm*>& comms,
                     const std::function<bool(Comm&)>& over) {
    NcclResult result = NcclResult::kSuccess;
    scheduler_.AwaitThat(
        [&] {
          bool all = true;
          for (Comm* comm : comms) {
            const bool returns = over(*comm) || comm->aborted ||
                                 comm->error != NcclResult::kSuccess;
            all &= returns && comm->polls_left-- <= 0;
          }
          return all;
        },
        "a call of NCCL");
    for (Comm* comm : comms) {
      if (!over(*comm)) result = NcclResult::kInternalError;
      if (result == NcclResult::kSuccess) result = comm->error;
      comm->in_progress = nullptr;
      comm->caller.reset();
    }
    return result;
  }

  void Free(const std::vector<Comm*>& comms, const char* call) {
    for (const Comm* comm : comms) {
      if (comm->caller) {
        scheduler_.Violation("a communicator is freed while a call uses it");
      }
    }
    fabric_.AwaitFreed(comms, call);
  }

  NcclResult ErrorOf(const Comm& comm) const {
    return device_.network_broken ? NcclResult::kRemoteError : comm.error;
  }

  NcclResult Add(const Part& part, NcclComm handle, CudaStreamHandle stream) {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("an operation of NCCL")) {
      return NcclResult::kUnhandledCudaError;
    }
    if (scheduler_.CaptureRefusal(StreamOf(stream)) !=
        transport::nccl::CudaResult::kSuccess) {
      return NcclResult::kUnhandledCudaError;
    }
    Comm* const comm = BeginCall(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    Group& group = groups_[std::this_thread::get_id()];
    std::shared_ptr<Launch>& launch = group.launches[comm];
    if (part.count > 0) {  // NCCL skips empty operations
      if (launch == nullptr) launch = std::make_shared<Launch>();
      launch->stream = StreamOf(stream);
      launch->capture = launch->stream->capture;
      launch->captured = launch->stream->capture != nullptr;
      launch->parts.push_back(part);
    }
    return group.depth > 0 ? NcclResult::kSuccess : Submit(group);
  }

  NcclResult Submit(Group& group) {
    NcclResult result = NcclResult::kSuccess;
    if (!group.begun.empty()) {
      result = EndCall(std::exchange(group.begun, {}), [this](Comm& comm) {
        return device_.network_broken || comm.clique->connected;
      });
      if (device_.network_broken) return NcclResult::kRemoteError;
    }
    std::vector<Comm*> callers;
    for (auto& [comm, launch] : std::exchange(group.launches, {})) {
      callers.push_back(comm);
      if (launch != nullptr) fabric_.Begin(comm, launch);
    }
    if (callers.empty()) return result;
    const NcclResult launched =
        EndCall(callers, [this](Comm& comm) { return fabric_.Progress(comm); });
    return result == NcclResult::kSuccess ? launched : result;
  }

  Fabric& fabric_;
  Scheduler& scheduler_;
  Device& device_;
  const int version_;
  std::map<std::thread::id, Group> groups_;
};

}  // namespace

std::unique_ptr<NcclApi> MakeFakeNccl(Fabric* fabric, int device, int version) {
  return std::make_unique<FakeNccl>(fabric, device, version);
}

}  // namespace lockstep::fake
