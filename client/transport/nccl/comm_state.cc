#include "client/transport/nccl/comm_state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

// Communicators of small data use few multiprocessors, and messages leave most
// of them to the layers that compute meanwhile.
constexpr int kSmallCtas = 2;
constexpr int kMessageCtas = 8;

// Memory to gather floats in before a min or max reduction.
constexpr size_t kRowsBytes = 4 << 20;
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
    : tables_(tables), group_(group) {}

CommState::~CommState() {
  if (stream_ == nullptr) return;
  const DeviceScope scope(*tables_.cuda);
  if (token_ != nullptr) tables_.cuda->FreeAsync(token_, stream_);
  if (rows_ != nullptr) tables_.cuda->FreeAsync(rows_, stream_);
  for (const Block& block : kept_) {
    if (block.memory != nullptr) tables_.cuda->FreeAsync(block.memory, stream_);
  }
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

absl::Status CommState::Begin(const NcclUniqueId& id) {
  if (absl::Status made = MakeStream(); !made.ok()) return made;
  NcclConfig config;
  config.blocking = 0;
  config.split_share = 0;
  if (group_.traffic == TrafficClass::kSmall) config.max_ctas = kSmallCtas;
  if (group_.traffic == TrafficClass::kMessages) config.max_ctas = kMessageCtas;
  NcclComm comm = nullptr;
  absl::Status begun = Check(*tables_.nccl,
                             tables_.nccl->CommInitRankConfig(
                                 &comm, group_.size, id, group_.rank, &config),
                             "CommInitRankConfig");
  MutexLock lock(&mutex_);
  comm_ = comm;
  return begun;
}

CommState::Call::Call(CommState* member) : member_(*member) {
  MutexLock lock(&member_.mutex_);
  comm_ = member_.comm_;
  member_.in_call_ = true;
}

CommState::Call::~Call() {
  MutexLock lock(&member_.mutex_);
  member_.in_call_ = false;
  member_.called_.NotifyAll();
}

NcclComm CommState::Take(absl::Duration patience) {
  const Deadline deadline(patience);
  MutexLock lock(&mutex_);
  while (in_call_ && !deadline.Passed()) {
    called_.WaitFor(&mutex_, deadline.Left());
  }
  if (in_call_ || comm_ == nullptr) return nullptr;
  taken_away_ = true;
  return std::exchange(comm_, nullptr);
}

NcclComm CommState::End() {
  ended_ = true;
  graphs_own_.clear();  // freed with the graph
  MutexLock lock(&mutex_);
  if (comm_ == nullptr && !taken_away_) stopped_ = true;  // there never was one
  return std::exchange(comm_, nullptr);
}

absl::Status CommState::Taken() const {
  absl::Status why = status();
  why.Update(absl::AbortedError("the communicator has ended"));
  return why;
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
  if (!made.ok()) return made;
  void* rows = nullptr;
  made = Check(cuda, cuda.MallocAsync(&rows, rows_bytes(), stream_),
               "MallocAsync");
  rows_ = static_cast<std::byte*>(rows);
  return made;
}

size_t CommState::rows_bytes() const {
  return group_.traffic == TrafficClass::kBulk ? kRowsBytes : kFewRowsBytes;
}

absl::StatusOr<bool> CommState::Ready() {
  const Call call(this);
  if (!call) return Taken();
  NcclResult error = NcclResult::kSuccess;
  absl::Status asked =
      Check(*tables_.nccl, tables_.nccl->CommGetAsyncError(call.comm(), &error),
            "CommGetAsyncError", call.comm());
  asked.Update(Check(*tables_.nccl, error, "", call.comm()));
  if (!asked.ok()) return asked;
  return error == NcclResult::kSuccess;
}

absl::Status CommState::WarmUp(LaunchSlot* launch_slot) {
  lowering_ = {.rounds = {}};
  round_ = 0;
  captured_ = false;
  if (group_.size == 1) return absl::OkStatus();
  const size_t most = rows_bytes() / sizeof(float);
  const size_t each = most / group_.size;
  std::byte* const mine = rows_ + each * sizeof(float) * group_.rank;
  const auto add = [this](CollectiveKind kind, const void* in, void* out,
                          size_t count) {
    lowering_.rounds.push_back({.steps = {{.kind = kind,
                                           .in = in,
                                           .out = out,
                                           .count = count,
                                           .dtype = NcclDType::kFloat32}},
                                .reduces = {},
                                .scales = {}});
  };
  for (size_t count = 1; count < most; count *= 64) {
    add(CollectiveKind::kAllReduce, rows_, rows_, count);
  }
  add(CollectiveKind::kAllReduce, rows_, rows_, most);
  add(CollectiveKind::kReduceScatter, rows_, mine, each);
  add(CollectiveKind::kAllGather, mine, rows_, each);
  add(CollectiveKind::kBroadcast, rows_, rows_, most);
  if (group_.size <= kPairsMax) AddPairs();
  absl::Status slot = TakeLaunchSlot(launch_slot, /*captured=*/false);
  return slot.ok() ? EnqueueGroup() : slot;
}

void CommState::AddPairs() {
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
  lowering_.rounds.push_back(std::move(pairs));
}

absl::StatusOr<bool> CommState::EnqueueNextRound() {
  if (round_ + 1 >= lowering_.rounds.size()) return false;
  ++round_;
  absl::Status done = EnqueueGroup();
  if (!done.ok()) return done;
  return true;
}

absl::StatusOr<bool> CommState::CompleteWarmUp() {
  const absl::StatusOr<bool> more = EnqueueNextRound();
  if (!more.ok() || *more) return more.ok() ? false : more;
  absl::StatusOr<std::shared_ptr<CudaEvent>> event = Mark();
  if (!event.ok()) return event.status();
  AddRunning(*std::move(event), std::make_shared<FirstError>());
  return true;
}

absl::Status CommState::Enqueue(const QueuedOp& posted,
                                LaunchSlot* launch_slot) {
  const ProfilerRange range(tables_.cuda.get(), group_.name.c_str());
  captured_ = posted.ticket.capture != 0;
  taken_ = 0;
  rows_taken_ = 0;
  absl::Status done = posted.ticket.after->Join(*tables_.cuda, stream_);
  done.Update(TakeLaunchSlot(launch_slot, captured_));
  lowering_ = {};
  round_ = 0;
  const size_t alone = posted.calls.size() == 1 ? rows_bytes() : 0;
  bool all = true;
  const auto temporary = [&](size_t bytes) {
    void* const memory = Temporary(bytes);
    all &= memory != nullptr;
    return memory;
  };
  for (const CollectiveOp& call : posted.calls) {
    Lower(call, {group_.rank, group_.size, token_, temporary, alone},
          &lowering_);
  }
  if (!all) {
    done.Update(absl::ResourceExhaustedError(
        "the device has no memory to reduce floats by min or max"));
  }
  if (!done.ok()) return done;
  return EnqueueGroup();
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

absl::Status CommState::EnqueueGroup() {
  const Call call(this);
  if (!call) return Taken();
  NcclApi& nccl = *tables_.nccl;
  absl::Status done = Check(nccl, nccl.GroupStart(), "GroupStart", call.comm());
  if (!done.ok()) return done;
  for (const NcclStep& step : lowering_.rounds[round_].steps)
    done.Update(Issue(step, call.comm()));
  done.Update(Check(nccl, nccl.GroupEnd(), "GroupEnd", call.comm()));
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

absl::StatusOr<bool> CommState::Complete(const QueuedOp& posted) {
  absl::Status done = LaunchKernels();
  if (done.ok()) {
    const absl::StatusOr<bool> more = EnqueueNextRound();
    if (!more.ok()) return more;
    if (*more) return false;
  }
  absl::StatusOr<std::shared_ptr<CudaEvent>> event = Mark(captured_);
  done.Update(event.status());
  if (!done.ok()) return done;
  if (!captured_) AddRunning(*event, posted.ticket.error);
  posted.ticket.done->Publish({*std::move(event)});
  return true;
}

absl::Status CommState::LaunchKernels() {
  CudaApi& cuda = *tables_.cuda;
  KernelApi& kernels = *tables_.kernels;
  absl::Status done;
  for (const ReduceStep& s : lowering_.rounds[round_].reduces) {
    done.Update(Check(cuda,
                      kernels.ReduceRows(s.inputs, group_.size, s.out, s.count,
                                         s.dtype, s.op, stream_),
                      " kernel ReduceRows"));
  }
  for (const ScaleStep& s : lowering_.rounds[round_].scales) {
    done.Update(
        Check(cuda, kernels.Scale(s.data, s.dtype, s.factor, s.count, stream_),
              " kernel Scale"));
  }
  const bool last = round_ + 1 == lowering_.rounds.size();
  if (!last) return done;
  for (void* memory : std::exchange(graphs_own_, {})) {
    done.Update(Check(cuda, cuda.FreeAsync(memory, stream_), "FreeAsync"));
  }
  return done;
}

void* CommState::Temporary(size_t bytes) {
  constexpr size_t kAlignment = 256;
  const size_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (aligned <= rows_bytes() - rows_taken_) {
    return rows_ + std::exchange(rows_taken_, rows_taken_ + aligned);
  }
  if (!captured_) return Kept(bytes);
  void* memory = nullptr;
  if (tables_.cuda->MallocAsync(&memory, bytes, stream_) !=
      CudaResult::kSuccess) {
    return nullptr;
  }
  graphs_own_.push_back(memory);
  return memory;
}

void* CommState::Kept(size_t bytes) {
  if (taken_ == kept_.size()) kept_.push_back({nullptr, 0});
  Block& block = kept_[taken_++];
  if (block.bytes >= bytes) return block.memory;
  CudaApi& cuda = *tables_.cuda;
  if (block.memory != nullptr) cuda.FreeAsync(block.memory, stream_);
  block = {nullptr, 0};
  if (cuda.MallocAsync(&block.memory, bytes, stream_) != CudaResult::kSuccess) {
    return block.memory = nullptr;
  }
  block.bytes = bytes;
  return block.memory;
}

absl::Status CommState::JoinRunning(CudaStreamHandle stream) const {
  // The operations are ordered, so the last one ends last.
  if (running_.empty()) return absl::OkStatus();
  CudaApi& cuda = *tables_.cuda;
  return Check(cuda,
               cuda.StreamWaitEvent(stream, running_.back().event->handle()),
               "StreamWaitEvent");
}

bool CommState::Idle() {
  while (!running_.empty()) {
    const Running& first = running_.front();
    const absl::StatusOr<bool> reached = first.event->Reached();
    if (reached.ok() && !*reached) return false;
    if (!reached.ok()) {
      first.error->Set(reached.status());
      device_error_.Update(reached.status());
    }
    running_.pop_front();
  }
  return true;
}

void CommState::FailRunning() {
  const absl::Status why = status();
  for (const Running& running : running_) {
    const absl::StatusOr<bool> reached = running.event->Reached();
    if (!reached.ok() || !*reached) running.error->Set(why);
  }
}

absl::Status CommState::BeginRegister(const std::shared_ptr<Window>& window) {
  const Call call(this);
  if (!call) return Taken();
  windows_.push_back(window);
  return window->Begin(*tables_.nccl, call.comm());
}

void CommState::EndRegister(Window& window) {
  if (const Call call(this); call) window.End(*tables_.nccl, call.comm());
}

void CommState::Forget(Window& window) {
  if (const Call call(this); call) {
    (void)window.Forget(*tables_.nccl, call.comm());
  }
  std::erase_if(windows_,
                [&](const auto& one) { return one.get() == &window; });
}

void CommState::ForgetAll() {
  const Call call(this);
  for (const auto& window : std::exchange(windows_, {})) {
    if (call) (void)window->Forget(*tables_.nccl, call.comm());
  }
}

absl::Status CommState::Finalize() {
  const Call call(this);
  if (!call) return Taken();
  return Check(*tables_.nccl, tables_.nccl->CommFinalize(call.comm()),
               "CommFinalize", call.comm());
}

}  // namespace lockstep::transport::nccl
