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
    if (config == nullptr || config->blocking != 0) {
      scheduler_.Violation("a blocking communicator");
    }
    Comm* const comm = fabric_.Init(device_, size, id, rank);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    const bool any = config == nullptr || config->max_ctas == INT_MIN;
    device_.channels.push_back(any ? 0 : config->max_ctas);
    comm->polls_left = fabric_.DrawPolls();
    scheduler_.Wake();
    *handle = reinterpret_cast<NcclComm>(comm);
    return NcclResult::kInProgress;
  }

  NcclResult CommGetAsyncError(NcclComm handle, NcclResult* error) override {
    MutexLock lock(&scheduler_.mutex());
    scheduler_.RunOne();
    Comm* const comm = Use(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    *error = Poll(*comm);
    return NcclResult::kSuccess;
  }

  NcclResult CommFinalize(NcclComm handle) override {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("CommFinalize of NCCL")) return NcclResult::kUnhandledCudaError;
    Comm* const comm = UseNow(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    comm->finalizing = true;
    return NcclResult::kInProgress;
  }

  NcclResult CommDestroy(NcclComm handle) override {
    MutexLock lock(&scheduler_.mutex());
    Comm* const comm = Use(handle, /*any_thread=*/true);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    if (!comm->finalizing || !fabric_.Peaceful(*comm)) {
      scheduler_.Violation("a communicator is destroyed that is not quiet");
    }
    if (!comm->known.empty()) {
      scheduler_.Violation("a communicator is destroyed that knows memory");
    }
    comm->over = true;
    fabric_.AwaitFreed({comm}, "CommDestroy of NCCL");
    return NcclResult::kSuccess;
  }

  NcclResult CommAbort(NcclComm handle) override {
    MutexLock lock(&scheduler_.mutex());
    Comm* const comm = Use(handle, /*any_thread=*/true);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    fabric_.Abort(comm);
    Group& group = groups_[std::this_thread::get_id()];
    if (group.depth > 0) {
      group.aborted.push_back(comm);
    } else {
      scheduler_.Violation("an abort outside a group");
      fabric_.AwaitFreed({comm}, "CommAbort of NCCL");
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
    Comm* const comm = UseNow(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    fabric_.Register(comm, memory, bytes, /*window=*/false);
    *registered = memory;
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
    Comm* const comm = UseNow(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    if (flags != transport::nccl::kNcclWindowSymmetric) {
      scheduler_.Violation("a window that is not symmetric");
    }
    *window = nullptr;
    fabric_.RegisterWindow(comm, memory, bytes, [window, memory] {
      *window = reinterpret_cast<NcclWindow>(memory);
    });
    comm->polls_left = 1 + fabric_.DrawPolls();
    scheduler_.Wake();
    return NcclResult::kInProgress;
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
    fabric_.AwaitFreed(std::exchange(group.aborted, {}), "CommAbort of NCCL");
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
    std::map<Comm*, std::shared_ptr<Launch>> launches;
    std::vector<Comm*> aborted;
  };

  // NCCL uses the calling thread's current device.
  bool Refused(const char* call) {
    return scheduler_.Refusal(device_.number, call) != CudaResult::kSuccess;
  }

  NcclResult Forget(NcclComm handle, const void* memory) {
    MutexLock lock(&scheduler_.mutex());
    Comm* const comm = UseNow(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    fabric_.Deregister(comm, memory);
    return NcclResult::kSuccess;
  }

  // A communicator on which any call is allowed.
  Comm* Use(NcclComm handle, bool any_thread = false) {
    Comm* const comm = CommOf(handle);
    if (comm == nullptr || comm->over) {
      scheduler_.Violation("a call on a communicator that has ended");
      return nullptr;
    }
    if (!any_thread && comm->thread != std::this_thread::get_id()) {
      scheduler_.Violation("two threads call one communicator");
    }
    return comm;
  }

  // A communicator on which a new operation is allowed.
  Comm* UseNow(NcclComm handle) {
    Comm* const comm = Use(handle);
    if (comm == nullptr) return nullptr;
    if (comm->polls_left > 0 || !comm->clique->connected) {
      scheduler_.Violation("a call while another is in progress");
      return nullptr;
    }
    return comm;
  }

  NcclResult Poll(Comm& comm) {
    if (device_.network_broken) return NcclResult::kRemoteError;
    if (comm.error != NcclResult::kSuccess) return comm.error;
    if (!comm.clique->connected) return NcclResult::kInProgress;
    if (!fabric_.WindowsComplete(comm)) return NcclResult::kInProgress;
    if (!scheduler_.mean().nccl_threads) (void)fabric_.Progress(comm);
    if (comm.polls_left > 0 || comm.registering != nullptr ||
        comm.in_progress != nullptr) {
      return NcclResult::kInProgress;
    }
    if (comm.finalizing && !fabric_.Peaceful(comm)) {
      return NcclResult::kInProgress;
    }
    return NcclResult::kSuccess;
  }

  NcclResult Add(const Part& part, NcclComm handle, CudaStreamHandle stream) {
    MutexLock lock(&scheduler_.mutex());
    if (Refused("an operation of NCCL")) {
      return NcclResult::kUnhandledCudaError;
    }
    Comm* const comm = UseNow(handle);
    if (comm == nullptr) return NcclResult::kInvalidArgument;
    if (part.count > 0) {  // NCCL skips empty operations
      std::shared_ptr<Launch>& launch =
          groups_[std::this_thread::get_id()].launches[comm];
      if (launch == nullptr) launch = std::make_shared<Launch>();
      launch->stream = StreamOf(stream);
      launch->capture = launch->stream->capture;
      launch->captured = launch->stream->capture != nullptr;
      launch->parts.push_back(part);
    }
    Group& group = groups_[std::this_thread::get_id()];
    return group.depth > 0 ? NcclResult::kSuccess : Submit(group);
  }

  NcclResult Submit(Group& group) {
    NcclResult result = NcclResult::kSuccess;
    for (auto& [comm, launch] : std::exchange(group.launches, {})) {
      if (comm->over) continue;
      fabric_.Begin(comm, launch);
      // Without threads a call may be complete when it returns.
      if (comm->polls_left == 0 && !scheduler_.mean().nccl_threads) {
        (void)fabric_.Progress(*comm);
      }
      if (comm->in_progress != nullptr) result = NcclResult::kInProgress;
    }
    return result;
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
