#include "client/transport/nccl/nccl.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/transport/common/communicator_base.h"
#include "client/transport/common/group_check.h"
#include "client/transport/nccl/cuda_arena.h"
#include "client/transport/nccl/cuda_device_context.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"
#include "client/transport/nccl/launcher.h"
#include "client/transport/nccl/nccl_handle.h"

namespace lockstep::transport::nccl {
namespace {

class NcclEnlistment final : public BufferRegistration {
 public:
  NcclEnlistment(std::shared_ptr<Launcher> launcher,
                 std::shared_ptr<CommState> member,
                 std::shared_ptr<Window> window)
      : launcher_(std::move(launcher)),
        member_(std::move(member)),
        window_(std::move(window)),
        kind_(window_->kind()) {}
  ~NcclEnlistment() override { launcher_->Deregister(*member_, *window_); }
  RegistrationKind kind() const override { return kind_; }

 private:
  const std::shared_ptr<Launcher> launcher_;
  const std::shared_ptr<CommState> member_;
  const std::shared_ptr<Window> window_;
  const RegistrationKind kind_;
};

// The registration of a buffer too small for NCCL's memory (cuda_arena.h).
class SmallEnlistment final : public BufferRegistration {
 public:
  RegistrationKind kind() const override { return RegistrationKind::kPlain; }
};

class NcclCommunicator final : public CommunicatorBase {
 public:
  NcclCommunicator(const GroupSpec& group, std::shared_ptr<Launcher> launcher,
                   std::shared_ptr<CommState> member)
      : CommunicatorBase(group.rank, group.size),
        launcher_(std::move(launcher)),
        member_(std::move(member)) {}

  ~NcclCommunicator() override { launcher_->Close(member_); }

  std::string_view transport() const override { return "nccl"; }
  bool ScalesInOwnPass() const override { return true; }  // lowering.h

  void Abort(std::string_view cause) override {
    member_->Fail(
        absl::AbortedError(absl::string_view(cause.data(), cause.size())));
    launcher_->Abort(*member_);
  }

  absl::Status status() const override { return member_->status(); }

  absl::StatusOr<std::unique_ptr<BufferRegistration>> RegisterBuffer(
      const ArenaBuffer& buffer, absl::Duration timeout) {
    auto window =
        launcher_->Register(member_, buffer.data(), buffer.bytes(), timeout);
    if (!window.ok()) return member_->status();
    return std::make_unique<NcclEnlistment>(launcher_, member_,
                                            *std::move(window));
  }

 private:
  absl::Status CheckStream(const Stream& stream) const override {
    const auto* const cuda = dynamic_cast<const CudaStream*>(&stream);
    if (cuda == nullptr) {
      return absl::InvalidArgumentError(
          "transport 'nccl' moves device memory: it needs a CudaStream");
    }
    const CudaCaptureId capture = cuda->capture();
    if (capture == 0 || capture == launcher_->open_capture()) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        "the stream is captured into a graph that this library cannot destroy "
        "in time: capture it with Capture of graph.h");
  }

  void Launch(std::span<CollectiveOp> calls, Stream& stream) override {
    launcher_->Launch(member_, calls, static_cast<CudaStream&>(stream));
  }

  const std::shared_ptr<Launcher> launcher_;
  const std::shared_ptr<CommState> member_;
};

class NcclGroup final : public PendingGroup {
 public:
  NcclGroup(const GroupSpec& group, std::string handle,
            std::shared_ptr<Launcher> launcher)
      : group_(group),
        handle_(std::move(handle)),
        launcher_(std::move(launcher)) {}

  const std::string& handle() const override { return handle_; }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      const std::vector<std::string>& handles,
      absl::Duration timeout) override {
    const Deadline deadline(timeout);
    absl::Status open = aborted_->status();
    open.Update(CheckHandles(group_, handles, handle_));
    if (!open.ok()) return open;
    const absl::StatusOr<NcclUniqueId> id = ParseHandles(group_, handles);
    if (!id.ok()) return id.status();
    const auto member =
        std::make_shared<CommState>(launcher_->tables(), group_);
    absl::Status connected = launcher_->Connect(
        member, *id, deadline, [cause = aborted_] { return cause->status(); });
    if (!connected.ok()) return connected;
    return std::make_unique<NcclCommunicator>(group_, launcher_, member);
  }

  void Abort(std::string_view cause) override {
    aborted_->Set(
        absl::AbortedError(absl::string_view(cause.data(), cause.size())));
  }

 private:
  // Asked by the thread that watches.
  class AbortCause {
   public:
    void Set(const absl::Status& status) {
      MutexLock lock(&mutex_);
      if (status_.ok()) status_ = status;
    }
    absl::Status status() const {
      MutexLock lock(&mutex_);
      return status_;
    }

   private:
    mutable Mutex mutex_;
    absl::Status status_ ABSL_GUARDED_BY(mutex_);
  };

  const GroupSpec group_;
  const std::string handle_;
  const std::shared_ptr<Launcher> launcher_;
  const std::shared_ptr<AbortCause> aborted_ = std::make_shared<AbortCause>();
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Tables& tables, int version)
      : version_(version), launcher_(std::make_shared<Launcher>(tables)) {}

  std::string_view name() const override { return "nccl"; }
  TransportFacts facts() const override {
    return {.decides_on_device = true};  // and no sums in pairs
  }
  std::optional<int> device() const override {
    CudaApi& cuda = *launcher_->tables().cuda;
    const DeviceScope scope(cuda);
    int device = 0;
    const absl::Status asked =
        Check(cuda, cuda.GetDevice(&device), "GetDevice");
    return asked.ok() ? std::optional(device) : std::nullopt;
  }
  // The wait for peers at the begin of a kernel ends with an abort, and the
  // kernel goes on.
  bool abort_writes_to_peers() const override { return true; }
  const std::shared_ptr<Launcher>& launcher() const { return launcher_; }

  std::unique_ptr<Arena> MakeArena() override {
    return MakeCudaArena(launcher_->tables().nccl, launcher_->tables().cuda);
  }
  absl::StatusOr<std::unique_ptr<BufferRegistration>> RegisterBuffer(
      Communicator& communicator, const ArenaBuffer& buffer,
      absl::Duration timeout) override {
    auto* const mine = dynamic_cast<NcclCommunicator*>(&communicator);
    if (mine == nullptr) return nullptr;
    if (buffer.bytes() < kNcclMemoryBytesMin) {
      return std::make_unique<SmallEnlistment>();
    }
    return mine->RegisterBuffer(buffer, timeout);
  }
  absl::StatusOr<std::unique_ptr<DeviceContext>> MakeDeviceContext() override {
    return MakeCudaDeviceContext(launcher_);
  }
  absl::StatusOr<std::unique_ptr<DeviceStream>> WrapStream(
      void* cuda_stream) override {
    const auto handle = static_cast<CudaStreamHandle>(cuda_stream);
    if (absl::Status here = CheckDevice(handle); !here.ok()) return here;
    return std::make_unique<CudaStream>(launcher_->tables().cuda.get(), handle);
  }

  absl::StatusOr<std::unique_ptr<PendingGroup>> Prepare(
      const GroupSpec& group) override {
    absl::Status able = CheckGroup(group);
    if (launcher_->has_aborted()) able.Update(CheckRestart(version_));
    if (!able.ok()) return able;
    if (group.rank != 0) return Pending(group, FormatHandle(group, nullptr));
    NcclUniqueId id;
    NcclApi& nccl = *launcher_->tables().nccl;
    const DeviceScope scope(*launcher_->tables().cuda);
    const absl::Status made = Check(nccl, nccl.GetUniqueId(&id), "GetUniqueId");
    if (!made.ok()) return made;
    return Pending(group, FormatHandle(group, &id));
  }

 private:
  absl::Status CheckDevice(CudaStreamHandle stream) {
    CudaApi& cuda = *launcher_->tables().cuda;
    const DeviceScope scope(cuda);
    int of_stream = 0;
    int of_session = 0;
    absl::Status asked =
        Check(cuda, cuda.StreamGetDevice(stream, &of_stream), "StreamGetCtx");
    asked.Update(Check(cuda, cuda.GetDevice(&of_session), "GetDevice"));
    if (!asked.ok() || of_stream == of_session) return asked;
    return absl::InvalidArgumentError(absl::StrCat(
        "the stream is of device ", of_stream, ", the session uses device ",
        of_session,
        ": make it on Session::device(), which JoinOptions::device or "
        "LOCAL_RANK chooses"));
  }

  std::unique_ptr<PendingGroup> Pending(const GroupSpec& group,
                                        std::string handle) {
    return std::make_unique<NcclGroup>(group, std::move(handle), launcher_);
  }

  const int version_;
  const std::shared_ptr<Launcher> launcher_;
};

std::string CudaVersionName(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

}  // namespace

absl::Status CheckGpu(CudaApi& cuda) {
  int driver = 0;
  int runtime = 0;
  int devices = 0;
  absl::Status asked =
      Check(cuda, cuda.DriverGetVersion(&driver), "DriverGetVersion");
  asked.Update(
      Check(cuda, cuda.RuntimeGetVersion(&runtime), "RuntimeGetVersion"));
  if (!asked.ok()) return asked;
  if (driver == 0) {
    return absl::FailedPreconditionError(
        "no GPU: no NVIDIA driver is loaded on this host");
  }
  const CudaResult counted = cuda.GetDeviceCount(&devices);
  if (counted == CudaResult::kInsufficientDriver) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU: the NVIDIA driver is too old: it knows CUDA ",
                     CudaVersionName(driver), ", this build needs ",
                     CudaVersionName(runtime)));
  }
  if (counted == CudaResult::kNoDevice ||
      (counted == CudaResult::kSuccess && devices == 0)) {
    return absl::FailedPreconditionError(
        "no GPU: the NVIDIA driver shows this process no device (see "
        "CUDA_VISIBLE_DEVICES)");
  }
  return Check(cuda, counted, "GetDeviceCount");
}

std::shared_ptr<Launcher> LauncherOf(const Transport& transport) {
  const auto* const nccl = dynamic_cast<const NcclTransport*>(&transport);
  return nccl == nullptr ? nullptr : nccl->launcher();
}

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const Tables& tables) {
  if (absl::Status found = CheckGpu(*tables.cuda); !found.ok()) return found;
  const DeviceScope scope(*tables.cuda);
  int version = 0;
  absl::Status able = Check(*tables.cuda, scope.result(), "SetDevice");
  if (!able.ok()) return able;
  able = Check(*tables.nccl, tables.nccl->GetVersion(&version), "GetVersion");
  able.Update(CheckVersion(version));
  if (!able.ok()) return able;
  return std::make_unique<NcclTransport>(tables, version);
}

}  // namespace lockstep::transport::nccl
