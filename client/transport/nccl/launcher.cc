#include "client/transport/nccl/launcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "client/transport/nccl/device_scope.h"
#include "client/transport/nccl/gpu_status.h"

namespace lockstep::transport::nccl {
namespace {

// Poll intervals: short while something has just changed.
constexpr int kEagerTurns = 200;
constexpr absl::Duration kShortRest = absl::Microseconds(50);
constexpr absl::Duration kLongRest = absl::Milliseconds(1);

// How long a communicator may take to be finalized, and then the device to end
// work that may write to the caller's buffers.
constexpr absl::Duration kFinalizeTimeout = absl::Milliseconds(500);
constexpr absl::Duration kDrainTimeout = absl::Seconds(2);

// How long the launch thread may take to begin an abort, and a call of NCCL
// that does not wait to return.
constexpr absl::Duration kStuck = absl::Milliseconds(20);

void FailOthers(const CommState& culprit,
                const std::vector<std::shared_ptr<CommState>>& members) {
  const absl::Status why = culprit.status();
  for (const auto& member : members) {
    if (member.get() == &culprit) continue;
    member->Fail(absl::AbortedError(
        absl::StrCat("ended with another group: ", why.message())));
  }
}

absl::Status Destroyed() {
  return absl::AbortedError("the communicator was destroyed");
}

}  // namespace

void LaunchResult::Set(absl::Status status) {
  MutexLock lock(&mutex_);
  status_ = std::move(status);
  set_ = true;
  changed_.NotifyAll();
}

absl::Status LaunchResult::Wait() {
  MutexLock lock(&mutex_);
  while (!set_) changed_.Wait(&mutex_);
  return std::move(status_);
}

Launcher::Launcher(const Tables& tables)
    : tables_(tables),
      reclaimer_(tables),
      thread_(StartThread("ls-launch", [this] { Run(); })) {}

Launcher::~Launcher() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

absl::Status Launcher::Do(absl::AnyInvocable<absl::Status(NcclApi&)> task) {
  const auto outcome = std::make_shared<LaunchResult>();
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back([this, outcome, task = std::move(task)]() mutable {
      outcome->Set(task(*tables_.nccl));
    });
  });
  return outcome->Wait();
}

void Launcher::Connect(Connecting connecting) {
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back([this, connecting = std::move(connecting)]() mutable {
      const absl::Status begun = connecting.member->Begin(connecting.id);
      if (!begun.ok()) return connecting.outcome->Set(begun);
      members_.push_back(connecting.member);
      {
        MutexLock lock(&mutex_);
        living_.push_back(connecting.member);
      }
      connecting_.push_back(std::move(connecting));
    });
  });
}

void Launcher::PostOperation(std::shared_ptr<CommState> member,
                             QueuedOp posted) {
  Post([&](Inbox& inbox) {
    inbox.operations.push_back({std::move(member), std::move(posted)});
  });
}

void Launcher::PostAbort(std::shared_ptr<CommState> member) {
  bool watched = false;
  Post([&](Inbox& inbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    inbox.aborts.push_back(member);
    watched = std::exchange(watching_, true);
  });
  if (watched) return;
  reclaimer_.Run([this, member = std::move(member)] { WatchAbort(member); });
}

void Launcher::Close(std::shared_ptr<CommState> member) {
  const auto outcome = std::make_shared<LaunchResult>();
  Post([&](Inbox& inbox) {
    inbox.tasks.push_back([this, member = std::move(member), outcome] {
      closing_.push_back({member, outcome, Deadline(kFinalizeTimeout)});
    });
  });
  (void)outcome->Wait();
}

void Launcher::Post(absl::FunctionRef<void(Inbox&)> put) {
  MutexLock lock(&mutex_);
  put(posted_);
  changed_.NotifyAll();
}

void Launcher::Run() {
  const DeviceScope scope(*tables_.cuda);
  Inbox inbox;
  while (Collect(&inbox)) {
    for (const auto& member : inbox.aborts) AbortAllFor(*member);
    for (Operation& operation : inbox.operations) {
      const bool captured = operation.posted.ticket.capture != 0;
      (captured ? captured_ : operations_).push_back(std::move(operation));
    }
    for (auto& task : inbox.tasks) task();
    inbox = {};
    PollConnecting();
    PollRegistering();
    LaunchCaptured();
    Launch();
    Watch();
    PollClosing();
  }
}

bool Launcher::Collect(Inbox* inbox) {
  MutexLock lock(&mutex_);
  if (posted_.empty() && AnythingToPoll()) {
    if (++idle_turns_ > kEagerTurns) {
      changed_.WaitFor(&mutex_, IsLaunching() ? kShortRest : kLongRest);
    }
  }
  while (posted_.empty() && !stopping_ && !AnythingToPoll()) {
    changed_.Wait(&mutex_);
  }
  if (!posted_.empty()) idle_turns_ = 0;
  *inbox = std::exchange(posted_, {});
  return !inbox->empty() || !stopping_ || AnythingToPoll();
}

// The first operations of a communicator count: others wait behind them.
bool Launcher::IsLaunching() const {
  return !operations_.empty() ||
         std::any_of(connecting_.begin(), connecting_.end(),
                     [](const Connecting& one) {
                       return one.phase != Connecting::WarmUpPhase::kConnects;
                     });
}

bool Launcher::AnythingToPoll() const {
  return !connecting_.empty() || !registering_.empty() ||
         !deregistering_.empty() || !captured_.empty() ||
         !operations_.empty() || !closing_.empty() ||
         std::any_of(members_.begin(), members_.end(), [](const auto& member) {
           return !member->ended() &&
                  (!member->Idle() || !member->device_error().ok());
         });
}

// --- Endings ---

void Launcher::AbortAllFor(const CommState& culprit) {
  FailOthers(culprit, members_);
  Abort(members_);
}

// A graph keeps its communicators alive, and can be destroyed only after its
// capture: until then the members are only marked as given up.
void Launcher::Abort(const std::vector<std::shared_ptr<CommState>>& members) {
  std::vector<std::shared_ptr<CommState>> living;
  for (const auto& member : members) {
    if (!GivenUp(*member)) living.push_back(member);
  }
  if (living.empty()) return;
  has_aborted_ = true;
  stop_words_.SetAll();
  for (const auto& member : living) member->FailRunning();
  if (open_ != nullptr) {
    to_abort_.insert(to_abort_.end(), living.begin(), living.end());
  } else {
    EndNow(living);
  }
  ReleaseWaiters();
}

void Launcher::EndNow(const std::vector<std::shared_ptr<CommState>>& living) {
  for (const auto& member : living) EndGraphsOf(*member, member->status());
  std::vector<Reclaimer::ReclaimedComm> endings;
  for (const auto& member : living) {
    Reclaimer::ReclaimedComm ending;
    if (End(member, &ending)) endings.push_back(std::move(ending));
  }
  reclaimer_.Abort(std::move(endings));
}

void Launcher::Destroy(const std::shared_ptr<CommState>& member) {
  Reclaimer::ReclaimedComm ending;
  if (End(member, &ending)) reclaimer_.Destroy(std::move(ending));
}

bool Launcher::End(const std::shared_ptr<CommState>& member,
                   Reclaimer::ReclaimedComm* ending) {
  *ending = {member, member->End()};
  MutexLock lock(&mutex_);
  std::erase(living_, member);
  changed_.NotifyAll();
  return ending->comm != nullptr;
}

bool Launcher::IsLiving(const CommState& member) const {
  return std::any_of(living_.begin(), living_.end(),
                     [&](const auto& one) { return one.get() == &member; });
}

// An open capture ends soon, and its graph must be destroyed before.
void Launcher::WatchAbort(const std::shared_ptr<CommState>& culprit) {
  const Deadline deadline(kStuck);
  std::vector<std::shared_ptr<CommState>> living;
  {
    MutexLock lock(&mutex_);
    while (IsLiving(*culprit) && (!deadline.Passed() || open_capture_ != 0)) {
      changed_.WaitFor(&mutex_, kStuck);
    }
    watching_ = false;
    if (!IsLiving(*culprit)) return;
    living = living_;
  }
  AbortWithoutLaunchThread(*culprit, living);
}

void Launcher::AbortWithoutLaunchThread(
    const CommState& culprit,
    const std::vector<std::shared_ptr<CommState>>& living) {
  has_aborted_ = true;
  stop_words_.SetAll();
  FailOthers(culprit, living);
  NcclApi& nccl = *tables_.nccl;
  const auto abort = [&](absl::Duration patience) {
    (void)nccl.GroupStart();
    for (const auto& member : living) {
      const NcclComm comm = member->Take(patience);
      if (comm == nullptr) continue;
      (void)nccl.CommAbort(comm);
      member->SetStopped();
    }
    (void)nccl.GroupEnd();
  };
  abort(kStuck);
  // One whose call of NCCL waits for the device can go on now.
  abort(absl::InfiniteDuration());
}

bool Launcher::GivenUp(const CommState& member) const {
  return member.ended() ||
         std::any_of(to_abort_.begin(), to_abort_.end(),
                     [&](const auto& one) { return one.get() == &member; });
}

// Operations of ended members will not be queued: releases their waiters. That
// of an operation in progress only once NCCL has seen the abort, since its
// thread may enqueue it until then.
void Launcher::ReleaseWaiters() {
  for (std::deque<Operation>* queue : {&captured_, &operations_}) {
    std::erase_if(*queue, [this](Operation& operation) {
      if (!IsGivenUp(operation) || MayStillBeQueued(operation)) return false;
      Release(operation);
      return true;
    });
  }
}

bool Launcher::MayStillBeQueued(const Operation& operation) const {
  if (!operation.enqueued || operation.graph != nullptr) return false;
  CommState& member = *operation.member;
  if (member.ended()) return !member.stopped();
  // The abort waits for the end of a capture, which waits for this.
  const absl::StatusOr<bool> ready = member.Ready();
  return ready.ok() && !*ready;
}

bool Launcher::IsGivenUp(const Operation& operation) const {
  return operation.graph != nullptr ? !StatusOf(*operation.graph).ok()
                                    : GivenUp(*operation.member);
}

void Launcher::Release(Operation& operation) {
  const CudaStream::Ticket& ticket = operation.posted.ticket;
  if (operation.graph != nullptr) {
    return ticket.GiveUp(StatusOf(*operation.graph));
  }
  CudaEvents drained;
  if (operation.enqueued) {
    auto event = operation.member->Mark(ticket.capture != 0);
    if (event.ok()) drained.push_back(*std::move(event));
  }
  ticket.GiveUp(operation.member->status(), std::move(drained));
}

void Launcher::Fail(CommState& member, const absl::Status& error) {
  member.Fail(error);
  AbortAllFor(member);
}

// --- Connecting ---

void Launcher::PollConnecting() {
  connecting_.erase(
      std::remove_if(connecting_.begin(), connecting_.end(),
                     [this](Connecting& one) { return Connected(one); }),
      connecting_.end());
}

// NCCL does one operation at a time, so no other one is half made meanwhile.
absl::StatusOr<bool> Launcher::IsWarm(Connecting& connecting) {
  CommState& member = *connecting.member;
  using WarmUpPhase = Connecting::WarmUpPhase;
  if (connecting.phase == WarmUpPhase::kWarm) {
    const bool idle = member.Idle();
    if (!member.device_error().ok()) return member.device_error();
    return idle;
  }
  const absl::StatusOr<bool> ready = member.Ready();
  if (!ready.ok() || !*ready) return ready;
  if (connecting.phase == WarmUpPhase::kConnects) {
    const bool half_made =
        (!operations_.empty() && operations_.front().enqueued) ||
        (!captured_.empty() && captured_.front().enqueued);
    if (half_made || warming_ != nullptr) return false;
    warming_ = &member;
    connecting.phase = WarmUpPhase::kWarmsUp;
    absl::Status begun = member.WarmUp(&launch_slot_);
    if (!begun.ok()) return begun;
    return false;
  }
  const absl::StatusOr<bool> queued = member.CompleteWarmUp();
  if (!queued.ok() || !*queued) return queued;
  warming_ = nullptr;
  connecting.phase = WarmUpPhase::kWarm;
  return false;
}

bool Launcher::Connected(Connecting& connecting) {
  CommState& member = *connecting.member;
  absl::Status over = connecting.aborted();
  if (over.ok() && member.ended()) over = member.status();
  if (over.ok()) {
    const absl::StatusOr<bool> warm = IsWarm(connecting);
    if (warm.ok() && *warm) {
      connecting.outcome->Set(absl::OkStatus());
      return true;
    }
    over = warm.status();
  }
  if (over.ok() && connecting.deadline.Passed()) {
    over = absl::DeadlineExceededError(
        absl::StrCat("group '", member.name(), "': NCCL did not connect all ",
                     member.size(), " ranks in time"));
  }
  if (over.ok()) return false;
  if (warming_ == &member) warming_ = nullptr;
  member.Fail(over);
  Abort({connecting.member});
  members_.erase(
      std::remove(members_.begin(), members_.end(), connecting.member),
      members_.end());
  connecting.outcome->Set(over);
  return true;
}

// --- Operations ---

void Launcher::Launch() {
  if (warming_ != nullptr) return;
  while (!operations_.empty() &&
         LaunchFirst(operations_.front(), &launch_slot_)) {
    operations_.pop_front();
    MutexLock lock(&mutex_);
    if (!posted_.aborts.empty()) return;
  }
}

// True once the operation is queued or given up. An error ends its member,
// which removes the operation.
bool Launcher::LaunchFirst(Operation& operation,
                           CommState::LaunchSlot* launch_slot) {
  if (IsGivenUp(operation)) {
    if (MayStillBeQueued(operation)) return false;
    Release(operation);
    return true;
  }
  if (!operation.enqueued && (!operation.posted.ticket.after->published() ||
                              MustWaitForCapture(operation))) {
    return false;
  }
  if (operation.graph != nullptr) return LaunchGraph(operation);
  CommState& member = *operation.member;
  if (!operation.enqueued) {
    operation.enqueued = true;
    const absl::Status enqueued = member.Enqueue(operation.posted, launch_slot);
    if (!enqueued.ok()) {
      Fail(member, enqueued);
      return false;
    }
  }
  for (;;) {
    const absl::StatusOr<bool> ready = member.Ready();
    if (ready.ok() && !*ready) return false;
    absl::StatusOr<bool> done = ready;
    if (done.ok()) done = member.Complete(operation.posted);
    if (done.ok() && *done) return true;
    if (done.ok()) continue;  // the next round is enqueued
    Fail(member, done.status());
    return false;
  }
}

// NCCL reports a broken connection only when polled, and a failed device not at
// all.
void Launcher::Watch() {
  for (size_t i = 0; i < members_.size(); ++i) {
    const std::shared_ptr<CommState> member = members_[i];
    if (GivenUp(*member)) continue;
    const bool idle = member->Idle();
    if (!member->device_error().ok()) {
      Fail(*member, member->device_error());
      continue;
    }
    if (idle) continue;
    const absl::StatusOr<bool> ready = member->Ready();
    if (!ready.ok()) Fail(*member, ready.status());
  }
}

// --- Closing ---

void Launcher::PollClosing() {
  closing_.erase(std::remove_if(closing_.begin(), closing_.end(),
                                [this](Closing& one) { return Closed(one); }),
                 closing_.end());
}

void Launcher::BeginClosing(Closing& closing) {
  CommState& member = *closing.member;
  const bool waited_for =
      std::any_of(operations_.begin(), operations_.end(),
                  [&](const Operation& one) { return one.Holds(member); });
  if (!GivenUp(member) && !waited_for && member.Idle() && open_ == nullptr) {
    EndGraphsOf(member, Destroyed());
    return;
  }
  member.Fail(Destroyed());
  Abort({closing.member});
  closing.deadline = Deadline(kDrainTimeout);
}

bool Launcher::Closed(Closing& closing) {
  CommState& member = *closing.member;
  if (!closing.begun) {
    closing.begun = true;
    BeginClosing(closing);
  }
  if (GivenUp(member) && !member.ended()) return false;  // a capture is open
  if (!member.ended()) {
    absl::StatusOr<bool> ready = IsBetweenCalls(member);
    if (ready.ok() && *ready && !std::exchange(closing.finalized, true)) {
      member.ForgetAll();
      if (absl::Status begun = member.Finalize(); begun.ok()) return false;
      ready = absl::InternalError("ncclCommFinalize failed");
    }
    if (ready.ok() && *ready) {
      Destroy(closing.member);
    } else if (!ready.ok() || closing.deadline.Passed()) {
      member.Fail(Destroyed());
      Abort({closing.member});
      closing.deadline = Deadline(kDrainTimeout);
    } else {
      return false;
    }
  }
  // Wait until no kernel can write to the caller's buffers.
  const bool quiet = member.stopped() && member.Idle();
  if (!quiet && !closing.deadline.Passed()) return false;
  members_.erase(std::remove(members_.begin(), members_.end(), closing.member),
                 members_.end());
  closing.outcome->Set(absl::OkStatus());
  return true;
}

}  // namespace lockstep::transport::nccl
