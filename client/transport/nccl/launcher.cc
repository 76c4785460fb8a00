#include "client/transport/nccl/launcher.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/thread.h"
#include "client/transport/nccl/device_scope.h"

namespace lockstep::transport::nccl {
namespace {

// How often NCCL and the device are asked for errors.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(1);
// How often a call asks whether the device is done.
constexpr absl::Duration kAskInterval = absl::Microseconds(50);

// How long a communicator may take to be finalized, and then the device to end
// work that may write to the caller's buffers.
constexpr absl::Duration kFinalizeTimeout = absl::Milliseconds(500);
constexpr absl::Duration kDrainTimeout = absl::Seconds(2);

absl::Status Destroyed() {
  return absl::AbortedError("the communicator was destroyed");
}

}  // namespace

// A call that waits for other ranks. The watching thread ends its communicator
// when the wait is over: NCCL's call then returns.
class Launcher::Await {
 public:
  Await(Launcher* launcher, std::shared_ptr<CommState> member,
        const Deadline& deadline, std::string late,
        absl::AnyInvocable<absl::Status()> aborted)
      : launcher_(*launcher),
        member_(std::move(member)),
        deadline_(deadline),
        late_(std::move(late)),
        aborted_(std::move(aborted)) {
    MutexLock lock(&launcher_.mutex_);
    launcher_.awaits_.push_back(this);
    launcher_.changed_.NotifyAll();
  }
  ~Await() {
    MutexLock lock(&launcher_.mutex_);
    std::erase(launcher_.awaits_, this);
  }
  Await(const Await&) = delete;
  Await& operator=(const Await&) = delete;

  // Why the wait is over, if it ended before the call.
  absl::Status over() const {
    MutexLock lock(&launcher_.mutex_);
    return over_;
  }
  // On the watching thread.
  const std::shared_ptr<CommState>& member() const { return member_; }
  bool IsOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(launcher_.mutex_) {
    if (over_.ok()) over_ = aborted_();
    if (over_.ok()) over_ = member_->status();
    if (over_.ok() && deadline_.Passed()) {
      over_ = absl::DeadlineExceededError(
          absl::StrCat("group '", member_->name(), "': ", late_));
    }
    if (!over_.ok()) member_->Fail(over_);
    return !over_.ok();
  }

 private:
  Launcher& launcher_;
  const std::shared_ptr<CommState> member_;
  const Deadline deadline_;
  const std::string late_;
  absl::AnyInvocable<absl::Status()> aborted_;
  absl::Status over_;  // guarded by launcher_.mutex_
};

Launcher::Launcher(const Tables& tables)
    : tables_(tables),
      reclaimer_(tables),
      thread_(StartThread("ls-watch", [this] { Run(); })) {}

Launcher::~Launcher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

Launcher::Members Launcher::members() {
  MutexLock lock(&mutex_);
  return members_;
}

void Launcher::Forget(const CommState& member) {
  MutexLock lock(&mutex_);
  std::erase_if(members_,
                [&](const auto& one) { return one.get() == &member; });
}

// --- The beginning -----------------------------------------------------------

absl::Status Launcher::Connect(const std::shared_ptr<CommState>& member,
                               const NcclUniqueId& id, const Deadline& deadline,
                               absl::AnyInvocable<absl::Status()> aborted) {
  const DeviceScope scope(*tables_.cuda);
  {
    MutexLock lock(&mutex_);
    members_.push_back(member);
  }
  Await await(this, member, deadline,
              absl::StrCat("NCCL did not connect all ", member->size(),
                           " ranks in time"),
              std::move(aborted));
  absl::Status done = member->Connect(id);
  if (done.ok()) done = WarmUp(*member, await);
  // An aborted call may return as if it had succeeded.
  if (absl::Status over = await.over(); !over.ok()) done = over;
  if (done.ok() && member->ended()) done = member->status();
  if (done.ok()) return done;
  member->Fail(done);
  End({member});
  Forget(*member);
  return done;
}

absl::Status Launcher::WarmUp(CommState& member, const Await& await) {
  {
    MutexLock order(&order_);
    absl::Status enqueued = member.WarmUp(&launch_slot_);
    if (!enqueued.ok()) return enqueued;
  }
  while (!member.Idle() && await.over().ok()) absl::SleepFor(kAskInterval);
  return member.device_error();
}

// --- Operations --------------------------------------------------------------

void Launcher::Launch(const std::shared_ptr<CommState>& member,
                      std::span<const CollectiveOp> calls, CudaStream& stream) {
  const DeviceScope scope(*tables_.cuda);
  const CudaCaptureId capture = stream.capture();
  const auto after = stream.TryRecord();
  if (!after.ok()) return stream.error()->Set(after.status());
  absl::StatusOr<std::shared_ptr<CudaEvent>> end;
  {
    MutexLock order(&order_);
    end = Enqueue(member, calls, after->get(), capture, stream);
  }
  absl::Status done = end.status();
  if (done.ok()) done = stream.TryWaitFor(**end);
  // Set also if an abort came between, since its operations run to their end.
  stream.error()->Set(done.ok() ? member->status() : done);
  if (capture == 0) NoteRunning();
}

absl::StatusOr<std::shared_ptr<CudaEvent>> Launcher::Enqueue(
    const std::shared_ptr<CommState>& member,
    std::span<const CollectiveOp> calls, const CudaEvent* after,
    CudaCaptureId capture, CudaStream& stream) {
  absl::Status able = AddToCapture(member, capture);
  if (able.ok()) able = member->status();
  if (!able.ok()) return able;
  const bool captured = capture != 0;
  auto end = member->Enqueue(calls, after, captured, stream.error(),
                             captured ? &open_->launch_slot : &launch_slot_);
  if (end.ok()) return end;
  // Nothing of an invalid capture runs. A valid one would lack the operation.
  const bool is_invalid = captured && !stream.FindCapture().ok();
  if (is_invalid && !member->nccl_has_failed()) return end;
  Fail(*member, end.status());
  stream.error()->Set(member->status());
  // The stream goes on behind what is on the device already.
  auto enqueued = member->Mark(captured);
  if (enqueued.ok() && !captured) {
    member->AddRunning(*enqueued, stream.error());
  }
  return enqueued;
}

void Launcher::Fail(CommState& member, const absl::Status& error) {
  member.Fail(error);
  Abort(member);
}

// --- Watching ----------------------------------------------------------------

void Launcher::NoteRunning() {
  if (!asleep_) return;
  MutexLock lock(&mutex_);
  changed_.NotifyAll();
}

void Launcher::Run() {
  const DeviceScope scope(*tables_.cuda);
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!stopping_) changed_.WaitFor(&mutex_, kWatchInterval);
      asleep_ = true;
      while (!stopping_ && !HasWork()) changed_.Wait(&mutex_);
      asleep_ = false;
      if (stopping_) return;
    }
    WatchAwaited();
    Watch();
  }
}

bool Launcher::HasWork() {
  return !awaits_.empty() ||
         std::any_of(members_.begin(), members_.end(),
                     [this](const auto& member) {
                       return !member->ended() &&
                              (member->has_running() || member->in_call() ||
                               graphs_->ProgramHas(*member));
                     });
}

// NCCL reports a broken connection only when polled, and a failed device not at
// all.
void Launcher::Watch() {
  for (const auto& member : members()) {
    if (member->ended()) continue;
    const bool rests =
        member->Idle() && !member->in_call() && !graphs_->ProgramHas(*member);
    absl::Status failed = member->device_error();
    if (failed.ok() && !rests) failed = member->AsyncError();
    if (!failed.ok() && !member->ended()) Fail(*member, failed);
  }
}

// Again and again: the communicator may be known only after the first time.
void Launcher::WatchAwaited() {
  Members over;
  {
    MutexLock lock(&mutex_);
    for (Await* await : awaits_) {
      if (await->IsOver()) over.push_back(await->member());
    }
  }
  if (!over.empty()) End(over);
}

// --- The end -----------------------------------------------------------------

void Launcher::Abort(const CommState& culprit) {
  const absl::Status why = culprit.status();
  const Members all = members();
  for (const auto& member : all) {
    if (member.get() == &culprit) continue;
    // Nobody else can explain that this process is out of memory. Other causes
    // are the culprit's alone.
    const absl::StatusCode code = absl::IsResourceExhausted(why)
                                      ? absl::StatusCode::kResourceExhausted
                                      : absl::StatusCode::kAborted;
    member->Fail(absl::Status(
        code, absl::StrCat("ended with another group: ", why.message())));
  }
  End(all);
}

void Launcher::End(const Members& members) {
  const bool ends = std::any_of(members.begin(), members.end(),
                                [](const auto& one) { return !one->ended(); });
  if (ends) {
    has_aborted_ = true;
    stop_words_.SetAll();
    for (const auto& member : members) {
      if (!member->ended()) member->FailRunning();
    }
  }
  std::vector<Reclaimer::ReclaimedComm> endings;
  for (const auto& member : members) {
    if (const NcclComm comm = member->Take(); comm != nullptr) {
      endings.push_back({member, comm});
    }
  }
  reclaimer_.Abort(std::move(endings), graphs_);
}

void Launcher::Close(const std::shared_ptr<CommState>& member) {
  const DeviceScope scope(*tables_.cuda);
  const bool rests = !member->ended() && member->status().ok() &&
                     !member->in_capture() && member->Idle() &&
                     !graphs_->ProgramHas(*member);
  if (rests) {
    graphs_->DestroyThoseOf(*member, *tables_.cuda, Destroyed());
    member->DeregisterAll();
    if (const NcclComm comm = member->Take(); comm != nullptr) {
      reclaimer_.Destroy({member, comm}, kFinalizeTimeout);
    }
  } else {
    member->Fail(Destroyed());
    End({member});
  }
  AwaitQuiet(*member);
  Forget(*member);
}

// Until no kernel can write to the caller's buffers.
void Launcher::AwaitQuiet(CommState& member) {
  const Deadline deadline(kDrainTimeout);
  while (!(member.stopped() && member.Idle()) && !deadline.Passed()) {
    absl::SleepFor(kAskInterval);
  }
}

// --- Registered memory -------------------------------------------------------

absl::StatusOr<std::shared_ptr<Window>> Launcher::Register(
    const std::shared_ptr<CommState>& member, void* memory, size_t bytes,
    absl::Duration timeout) {
  const DeviceScope scope(*tables_.cuda);
  const auto window = std::make_shared<Window>(memory, bytes);
  const Await await(this, member, Deadline(timeout),
                    "not all ranks made their memory known in time",
                    [] { return absl::OkStatus(); });
  absl::Status done = member->Register(window);
  if (absl::Status over = await.over(); !over.ok()) done = over;
  if (done.ok()) return window;
  // NCCL cannot undo a window that is half made.
  Fail(*member, done);
  return done;
}

void Launcher::Deregister(CommState& member, Window& window) {
  const DeviceScope scope(*tables_.cuda);
  member.Deregister(window);
}

}  // namespace lockstep::transport::nccl
