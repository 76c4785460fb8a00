#include "client/transport/nccl/comm_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

// Communicators of small data use few multiprocessors, and messages leave most
// of them to the layers that compute meanwhile.
constexpr int kSmallCtas = 2;
constexpr int kMessageCtas = 8;

constexpr size_t kFewRowsBytes = 64 << 10;

// The range that profilers show for an operation.
class ProfilerRange {
 public:
  ProfilerRange(CudaApi* cuda, const char* name) : cuda_(cuda) {
    cuda_->RangePush(name);
  }
  ~ProfilerRange() { cuda_->RangePop(); }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  CudaApi* const cuda_;
};

}  // namespace

CommState::CommState(const Tables& tables, const GroupSpec& group)
    : tables_(tables),
      group_(group),
      rows_(tables.cuda.get(), group.traffic == TrafficClass::kBulk
                                   ? tables.bulk_rows_bytes
                                   : kFewRowsBytes) {}

CommState::~CommState() {
  if (stream_ == nullptr) return;
  const DeviceScope scope(*tables_.cuda);
  if (token_ != nullptr) tables_.cuda->FreeAsync(token_, stream_);
  rows_.Free();
  tables_.cuda->StreamDestroy(stream_);
}

absl::Status CommState::status() const {
  MutexLock lock(&mutex_);
  return error_;
}

void CommState::Fail(const absl::Status& error) {
  MutexLock lock(&mutex_);
  if (!error_.ok()) return;
  error_ =
      absl::Status(error.code(),
                   absl::StrCat("group '", group_.name, "', rank ", group_.rank,
                                " of ", group_.size, ": ", error.message()));
}

CommState::NcclCall::NcclCall(CommState* member) : member_(*member) {
  MutexLock lock(&member_.mutex_);
  while (member_.in_call_) member_.unused_.Wait(&member_.mutex_);
  comm_ = member_.comm_;
  if (comm_ == nullptr) return;
  member_.in_call_ = true;
  member_.uses_ += 1;
}

CommState::NcclCall::NcclCall(CommState* member, NcclComm made)
    : member_(*member), comm_(made) {
  if (made == nullptr) return;
  MutexLock lock(&member_.mutex_);
  member_.comm_ = made;
  member_.in_call_ = true;
  member_.uses_ += 1;
}

CommState::NcclCall::~NcclCall() {
  if (comm_ == nullptr) return;
  MutexLock lock(&member_.mutex_);
  member_.in_call_ = false;
  member_.uses_ -= 1;
  member_.unused_.NotifyAll();
}

class CommState::Use {
 public:
  explicit Use(CommState* member) : member_(*member) {
    MutexLock lock(&member_.mutex_);
    comm_ = member_.comm_;
    if (comm_ != nullptr) member_.uses_ += 1;
  }
  ~Use() {
    if (comm_ == nullptr) return;
    MutexLock lock(&member_.mutex_);
    member_.uses_ -= 1;
    member_.unused_.NotifyAll();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  NcclComm comm() const { return comm_; }

 private:
  CommState& member_;
  NcclComm comm_;
};

absl::Status CommState::Taken() const {
  absl::Status why = status();
  why.Update(absl::AbortedError("the communicator has ended"));
  return why;
}

// --- The beginning ---

// In a group NCCL returns the communicator before it waits for the other ranks,
// so that another thread can abort it.
absl::Status CommState::Connect(const NcclUniqueId& id) {
  if (absl::Status made = MakeStream(); !made.ok()) return made;
  NcclApi& nccl = *tables_.nccl;
  NcclConfig config;
  config.blocking = 1;
  config.split_share = 0;
  if (group_.traffic == TrafficClass::kSmall) config.max_ctas = kSmallCtas;
  if (group_.traffic == TrafficClass::kMessages) config.max_ctas = kMessageCtas;
  NcclComm comm = nullptr;
  absl::Status done = Check(nccl, nccl.GroupStart(), "GroupStart");
  if (!done.ok()) return done;
  done = Check(
      nccl,
      nccl.CommInitRankConfig(&comm, group_.size, id, group_.rank, &config),
      "CommInitRankConfig");
  const NcclCall call(this, comm);
  const NcclResult ended = nccl.GroupEnd();
  done.Update(Check(nccl, ended, "CommInitRankConfig", comm));
  if (done.ok() && ended == NcclResult::kInProgress) {
    return absl::FailedPreconditionError(
        "NCCL made a communicator that does not block, as NCCL_COMM_BLOCKING "
        "asks: unset it");
  }
  return done;
}

absl::Status CommState::MakeStream() {
  CudaApi& cuda = *tables_.cuda;
  int least = 0;
  int greatest = 0;
  absl::Status made =
      Check(cuda, cuda.DeviceGetStreamPriorityRange(&least, &greatest),
            "DeviceGetStreamPriorityRange");
  if (!made.ok()) return made;
  made = Check(
      cuda,
      cuda.StreamCreateWithPriority(&stream_, kCudaStreamNonBlocking, greatest),
      "StreamCreateWithPriority");
  if (!made.ok()) return made;
  void* token = nullptr;
  made = Check(cuda, cuda.MallocAsync(&token, 2, stream_), "MallocAsync");
  token_ = static_cast<std::byte*>(token);
  return made.ok() ? rows_.Allocate(stream_) : made;
}

absl::Status CommState::WarmUp(LaunchSlot* launch_slot) {
  if (group_.size == 1) return absl::OkStatus();
  Lowering lowering{.rounds = {}};
  AddWarmUp(&lowering);
  absl::Status done = TakeLaunchSlot(launch_slot, /*captured=*/false);
  if (done.ok()) done = EnqueueRounds(lowering);
  if (!done.ok()) return done;
  auto event = Mark();
  if (!event.ok()) return event.status();
  AddRunning(*std::move(event), std::make_shared<FirstError>());
  return absl::OkStatus();
}

void CommState::AddWarmUp(Lowering* lowering) const {
  const size_t most = rows_.bytes() / sizeof(float);
  const size_t each = most / group_.size;
  std::byte* const all = rows_.data();
  std::byte* const mine = all + each * sizeof(float) * group_.rank;
  const auto add = [lowering](CollectiveKind kind, const void* in, void* out,
                              size_t count) {
    lowering->rounds.push_back({.steps = {{.kind = kind,
                                           .in = in,
                                           .out = out,
                                           .count = count,
                                           .dtype = NcclDType::kFloat32}},
                                .reduces = {},
                                .scales = {}});
  };
  for (size_t count = 1; count < most; count *= 64) {
    add(CollectiveKind::kAllReduce, all, all, count);
  }
  add(CollectiveKind::kAllReduce, all, all, most);
  add(CollectiveKind::kReduceScatter, all, mine, each);
  add(CollectiveKind::kAllGather, mine, all, each);
  add(CollectiveKind::kBroadcast, all, all, most);
  if (group_.size <= kPairsMax) AddPairs(lowering);
}

void CommState::AddPairs(Lowering* lowering) const {
  Round pairs;
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    pairs.steps.push_back({.kind = CollectiveKind::kSend,
                           .in = token_,
                           .count = 1,
                           .peer = peer});
    pairs.steps.push_back({.kind = CollectiveKind::kRecv,
                           .out = token_ + 1,
                           .count = 1,
                           .peer = peer});
  }
  lowering->rounds.push_back(std::move(pairs));
}

// --- Operations ---

absl::StatusOr<std::shared_ptr<CudaEvent>> CommState::Enqueue(
    std::span<const CollectiveOp> calls, const CudaEvent* after, bool captured,
    const std::shared_ptr<FirstError>& error, LaunchSlot* launch_slot) {
  const ProfilerRange range(tables_.cuda.get(), group_.name.c_str());
  nccl_has_failed_ = false;
  rows_.Begin(captured);
  absl::Status done;
  if (after != nullptr) {
    done = Check(*tables_.cuda,
                 tables_.cuda->StreamWaitEvent(stream_, after->handle()),
                 "StreamWaitEvent");
  }
  if (done.ok()) done = TakeLaunchSlot(launch_slot, captured);
  Lowering lowering;
  if (done.ok()) done = Lower(calls, &lowering);
  if (done.ok()) done = EnqueueRounds(lowering);
  done.Update(rows_.End());
  if (!done.ok()) return done;
  auto event = Mark(captured);
  if (event.ok() && !captured) AddRunning(*event, error);
  return event;
}

absl::Status CommState::Lower(std::span<const CollectiveOp> calls,
                              Lowering* lowering) {
  const size_t alone = calls.size() == 1 ? rows_.bytes() : 0;
  bool all = true;
  const auto temporary = [&](size_t bytes) {
    void* const memory = rows_.Take(bytes);
    all &= memory != nullptr;
    return memory;
  };
  for (const CollectiveOp& call : calls) {
    nccl::Lower(call, {group_.rank, group_.size, token_, temporary, alone},
                lowering);
  }
  if (all) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the device has no memory to reduce floats by min or max");
}

absl::Status CommState::TakeLaunchSlot(LaunchSlot* launch_slot, bool captured) {
  CudaApi& cuda = *tables_.cuda;
  // Operations on the same stream are ordered already.
  if (launch_slot->event != nullptr && launch_slot->stream != stream_) {
    absl::Status waits =
        Check(cuda, cuda.StreamWaitEvent(stream_, launch_slot->event->handle()),
              "StreamWaitEvent");
    if (!waits.ok()) return waits;
  }
  absl::StatusOr<std::shared_ptr<CudaEvent>> mine = Mark(captured);
  if (!mine.ok()) return mine.status();
  *launch_slot = {*std::move(mine), stream_};
  return absl::OkStatus();
}

absl::Status CommState::EnqueueRounds(const Lowering& lowering) {
  const NcclCall call(this);
  if (!call) return Taken();
  for (const Round& round : lowering.rounds) {
    absl::Status done = EnqueueGroup(round, call.comm());
    if (done.ok()) done = LaunchKernels(round);
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

absl::Status CommState::EnqueueGroup(const Round& round, NcclComm comm) {
  NcclApi& nccl = *tables_.nccl;
  absl::Status done = Check(nccl, nccl.GroupStart(), "GroupStart", comm);
  if (done.ok()) {
    for (const NcclStep& step : round.steps) done.Update(Issue(step, comm));
    done.Update(Check(nccl, nccl.GroupEnd(), "GroupEnd", comm));
  }
  nccl_has_failed_ = !done.ok();
  return done;
}

absl::Status CommState::Issue(const NcclStep& s, NcclComm comm) {
  NcclApi& nccl = *tables_.nccl;
  switch (s.kind) {
    case CollectiveKind::kAllReduce:
      return Check(
          nccl,
          nccl.AllReduce(s.in, s.out, s.count, s.dtype, s.op, comm, stream_),
          "AllReduce", comm);
    case CollectiveKind::kReduceScatter:
      return Check(nccl,
                   nccl.ReduceScatter(s.in, s.out, s.count, s.dtype, s.op, comm,
                                      stream_),
                   "ReduceScatter", comm);
    case CollectiveKind::kAllGather:
      return Check(nccl,
                   nccl.AllGather(s.in, s.out, s.count, s.dtype, comm, stream_),
                   "AllGather", comm);
    case CollectiveKind::kBroadcast:
      return Check(
          nccl,
          nccl.Broadcast(s.in, s.out, s.count, s.dtype, s.peer, comm, stream_),
          "Broadcast", comm);
    case CollectiveKind::kSend:
      return Check(nccl,
                   nccl.Send(s.in, s.count, s.dtype, s.peer, comm, stream_),
                   "Send", comm);
    case CollectiveKind::kRecv:
      return Check(nccl,
                   nccl.Recv(s.out, s.count, s.dtype, s.peer, comm, stream_),
                   "Recv", comm);
    default: return absl::InternalError("no function of NCCL");
  }
}

absl::Status CommState::LaunchKernels(const Round& round) {
  CudaApi& cuda = *tables_.cuda;
  KernelApi& kernels = *tables_.kernels;
  absl::Status done;
  for (const ReduceStep& s : round.reduces) {
    done.Update(Check(cuda,
                      kernels.ReduceRows(s.inputs, group_.size, s.out, s.count,
                                         s.dtype, s.op, stream_),
                      " kernel ReduceRows"));
  }
  for (const ScaleStep& s : round.scales) {
    done.Update(
        Check(cuda, kernels.Scale(s.data, s.dtype, s.factor, s.count, stream_),
              " kernel Scale"));
  }
  return done;
}

absl::Status CommState::JoinRunning(CudaStreamHandle stream) const {
  std::shared_ptr<CudaEvent> last;
  {
    MutexLock lock(&mutex_);
    // The operations are ordered, so the last one ends last.
    if (!running_.empty()) last = running_.back().event;
  }
  if (last == nullptr) return absl::OkStatus();
  CudaApi& cuda = *tables_.cuda;
  return Check(cuda, cuda.StreamWaitEvent(stream, last->handle()),
               "StreamWaitEvent");
}

void CommState::AddRunning(std::shared_ptr<CudaEvent> event,
                           std::shared_ptr<FirstError> error) {
  MutexLock lock(&mutex_);
  running_.push_back({std::move(event), std::move(error)});
}

// --- Watching ---

bool CommState::in_call() const {
  MutexLock lock(&mutex_);
  return in_call_;
}

bool CommState::has_running() const {
  MutexLock lock(&mutex_);
  return !running_.empty();
}

// Asks the device without the lock.
bool CommState::Idle() {
  for (;;) {
    Running first;
    {
      MutexLock lock(&mutex_);
      if (running_.empty()) return true;
      first = running_.front();
    }
    const absl::StatusOr<bool> reached = first.event->Reached();
    if (reached.ok() && !*reached) return false;
    if (!reached.ok()) first.error->Set(reached.status());
    MutexLock lock(&mutex_);
    device_error_.Update(reached.status());
    // Another thread may have asked, too.
    if (!running_.empty() && running_.front().event == first.event) {
      running_.pop_front();
    }
  }
}

absl::Status CommState::device_error() const {
  MutexLock lock(&mutex_);
  return device_error_;
}

absl::Status CommState::AsyncError() {
  const Use use(this);
  if (use.comm() == nullptr) return absl::OkStatus();
  NcclResult error = NcclResult::kSuccess;
  absl::Status asked =
      Check(*tables_.nccl, tables_.nccl->CommGetAsyncError(use.comm(), &error),
            "CommGetAsyncError", use.comm());
  if (error != NcclResult::kInProgress) {
    asked.Update(Check(*tables_.nccl, error, "", use.comm()));
  }
  return asked;
}

// --- The end ---

NcclComm CommState::Take() {
  ended_ = true;
  MutexLock lock(&mutex_);
  return std::exchange(comm_, nullptr);
}

void CommState::FailRunning() {
  const absl::Status why = status();
  std::deque<Running> running;
  {
    MutexLock lock(&mutex_);
    running = running_;
  }
  for (const Running& one : running) {
    const absl::StatusOr<bool> reached = one.event->Reached();
    if (!reached.ok() || !*reached) one.error->Set(why);
  }
}

void CommState::AwaitUnused() {
  MutexLock lock(&mutex_);
  while (uses_ > 0) unused_.Wait(&mutex_);
}

bool CommState::JoinCapture() {
  MutexLock lock(&mutex_);
  if (comm_ == nullptr) return false;
  uses_ += 1;
  captures_ += 1;
  return true;
}

void CommState::LeaveCapture() {
  MutexLock lock(&mutex_);
  uses_ -= 1;
  captures_ -= 1;
  unused_.NotifyAll();
}

bool CommState::in_capture() const {
  MutexLock lock(&mutex_);
  return captures_ > 0;
}

// --- Registered memory ---

absl::Status CommState::Register(const std::shared_ptr<Window>& window) {
  const NcclCall call(this);
  if (!call) return Taken();
  absl::Status made = window->Register(*tables_.nccl, call.comm());
  if (!made.ok()) return made;
  MutexLock lock(&mutex_);
  windows_.push_back(window);
  return absl::OkStatus();
}

void CommState::Deregister(Window& window) {
  const NcclCall call(this);
  if (call) (void)window.Deregister(*tables_.nccl, call.comm());
  MutexLock lock(&mutex_);
  std::erase_if(windows_,
                [&](const auto& one) { return one.get() == &window; });
}

void CommState::DeregisterAll() {
  std::vector<std::shared_ptr<Window>> windows;
  {
    MutexLock lock(&mutex_);
    windows.swap(windows_);
  }
  const NcclCall call(this);
  for (const auto& window : windows) {
    if (call) (void)window->Deregister(*tables_.nccl, call.comm());
  }
}

}  // namespace lockstep::transport::nccl
