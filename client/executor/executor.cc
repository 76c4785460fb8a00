#include "client/executor/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/executor/enqueue.h"

namespace lockstep::executor {

absl::StatusOr<std::shared_ptr<Executor>> Executor::Create(
    std::vector<std::unique_ptr<Communicator>> communicators,
    std::shared_ptr<transport::DeviceContext> compute) {
  std::shared_ptr<Executor> executor(
      new Executor(std::move(communicators), std::move(compute)));
  auto queue = executor->compute_->MakeQueue("ls-comm");
  if (!queue.ok()) return queue.status();
  executor->queue_ = *std::move(queue);
  return executor;
}

Executor::~Executor() = default;

// --- The program ------------------------------------------------------------

absl::StatusOr<std::vector<std::unique_ptr<Stream>>> Executor::MakeStreams(
    const Program& program) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Program::LaneProgram& lane : program.lanes()) {
    streams.push_back(nullptr);
    if (lane.run != LaneRun::kStream) continue;
    auto stream = compute_->MakeStream("ls-" + lane.planned->name);
    if (!stream.ok()) return stream.status();
    streams.back() = *std::move(stream);
  }
  return streams;
}

absl::Status Executor::Adopt(std::shared_ptr<const Program> program) {
  bool is_first = false;
  {
    MutexLock lock(&mutex_);
    is_first = lanes_.empty();
  }
  absl::StatusOr<std::vector<std::unique_ptr<Stream>>> streams;
  if (is_first) streams = MakeStreams(*program);
  if (is_first && !streams.ok()) return streams.status();
  MutexLock lock(&mutex_);
  program_ = std::move(program);
  lanes_.resize(program_->lanes().size());
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (is_first) lanes_[lane].stream = std::move((*streams)[lane]);
    const bool goes_on =
        !is_first && program_->lanes()[lane].run == LaneRun::kStream;
    if (!goes_on) BeginStep(lane);
  }
  return absl::OkStatus();
}

void Executor::BeginStep(size_t lane) {
  const std::vector<Unit>& units = program_->lanes()[lane].units;
  LaneState& state = lanes_[lane];
  state.next = 0;
  state.units.resize(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    state.units[i].pending = units[i].pending;
    state.units[i].events.clear();
    state.units[i].done = Event();
  }
}

// --- Readiness --------------------------------------------------------------

// Several calls on one stream may have one event (KernelQueue::Mark). Without a
// state it is complete already.
void Executor::Add(Event event, std::vector<Event>* events) {
  const auto is_known = [&](const Event& other) {
    return other.state() == event.state();
  };
  if (event.state() == nullptr ||
      std::any_of(events->begin(), events->end(), is_known)) {
    return;
  }
  events->push_back(std::move(event));
}

absl::Status Executor::MarkReady(plan::TransferRef ref, Event event) {
  bool advances = false;
  {
    MutexLock lock(&mutex_);
    if (program_ == nullptr) return absl::OkStatus();
    const UnitRef unit = program_->UnitOf(ref);
    UnitState& state = lanes_[unit.lane].units[unit.unit];
    if (state.pending == 0) {
      const plan::Lane& lane = *program_->lanes()[ref.lane].planned;
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s in lane %s is ready again before the verdict of the step before",
          Describe(lane.transfers[ref.index]), lane.name));
    }
    Add(std::move(event), &state.events);
    state.pending -= 1;
    if (program_->lanes()[ref.lane].run != LaneRun::kDecided) {
      LaunchQueued();
    } else if (state.pending == 0) {
      LaunchOnQueue(unit);
      state.pending = program_->At(unit).pending;
    }
    // While a pipeline runs, its own thread launches its messages.
    const Program::LaneProgram& lane = program_->lanes()[ref.lane];
    const bool is_own = lane.run == LaneRun::kStream &&
                        lane.planned->kind != plan::LaneKind::kPipeline;
    advances = program_->has_streams() && (!running_ || is_own) &&
               HasLaunchableStream();
  }
  if (advances) Advance();
  RunIfDue();
  return absl::OkStatus();
}

absl::Status Executor::FirstError(int* communicator) const {
  absl::Status first;
  for (int c = 0; c < communicators(); ++c) {
    if (communicators_[c] == nullptr) continue;
    const absl::Status status = communicators_[c]->status();
    const bool is_cause = !status.ok() && !absl::IsAborted(status);
    if (status.ok() || (!first.ok() && !is_cause)) continue;
    first = status;
    *communicator = c;
    if (is_cause) break;
  }
  return first;
}

void Executor::AddEvent(plan::TransferRef ref, Event event) {
  MutexLock lock(&mutex_);
  if (program_ == nullptr) return;
  const UnitRef unit = program_->UnitOf(ref);
  Add(std::move(event), &lanes_[unit.lane].units[unit.unit].events);
}

// --- What may be launched ---------------------------------------------------

bool Executor::HasPassed(const UnitRef& unit, uint64_t step) const {
  const LaneState& lane = lanes_[unit.lane];
  if (lane.step != step) return lane.step > step;
  return lane.next > static_cast<size_t>(unit.unit);
}

bool Executor::MayLaunch(size_t lane) const {
  const LaneState& state = lanes_[lane];
  const std::vector<Unit>& units = program_->lanes()[lane].units;
  if (state.next == units.size() || state.units[state.next].pending > 0) {
    return false;
  }
  for (const UnitRef& earlier : units[state.next].after) {
    if (!HasPassed(earlier, state.step)) return false;
  }
  return true;
}

// --- The comm queue ---------------------------------------------------------

void Executor::LaunchQueued() {
  bool again = true;
  while (again) {
    again = false;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (program_->lanes()[lane].run != LaneRun::kQueued) continue;
      while (MayLaunch(lane)) {
        LaunchOnQueue(
            {static_cast<int>(lane), static_cast<int>(lanes_[lane].next++)});
        again = true;
        const plan::LaneKind kind = program_->lanes()[lane].planned->kind;
        if (kind != plan::LaneKind::kVerdict) continue;
        for (size_t queued = 0; queued < lanes_.size(); ++queued) {
          if (program_->lanes()[queued].run != LaneRun::kQueued) continue;
          lanes_[queued].step += 1;
          BeginStep(queued);
        }
        if (runs_ == QueueRuns::kOnClose) due_ = true;
        return;
      }
    }
  }
}

void Executor::LaunchOnQueue(const UnitRef& unit) {
  queue_->Launch(*program_->lanes()[unit.lane].operations[unit.unit],
                 TakeEvents(unit));
  Count(*program_, unit);
  undrained_ = true;
  if (runs_ == QueueRuns::kInCall) due_ = true;
}

std::vector<Event> Executor::TakeEvents(const UnitRef& unit) {
  LaneState& state = lanes_[unit.lane];
  std::vector<Event> events = std::exchange(state.units[unit.unit].events, {});
  const auto add = [&events](const Event& event) {
    if (event.state() != nullptr) events.push_back(event);
  };
  for (const UnitRef& earlier : program_->At(unit).after) {
    const LaneState& other = lanes_[earlier.lane];
    // A lane in a later step has finished this one: no event to wait for.
    if (other.step == state.step) add(other.units[earlier.unit].done);
  }
  const bool is_verdict =
      program_->lanes()[unit.lane].planned->kind == plan::LaneKind::kVerdict;
  if (is_verdict) {
    for (LaneState& lane : lanes_) add(std::exchange(lane.last, Event()));
  }
  return events;
}

// In kInCall two calls may be here: the second one waits until the first has
// run its launches, too.
void Executor::RunIfDue() {
  const bool in_call = runs_ == QueueRuns::kInCall;
  if (in_call || due_.load(std::memory_order_relaxed)) {
    if (due_.exchange(false) || in_call) queue_->Drain();
  }
}

void Executor::Run(absl::AnyInvocable<void(KernelQueue&)> work,
                   std::vector<Event> after) {
  queue_->Run(std::move(work), std::move(after));
  if (runs_ == QueueRuns::kInCall) queue_->Drain();
}

void Executor::SetQueueRuns(QueueRuns runs) {
  if (runs_.exchange(runs) == runs) return;
  queue_->SetOnDrain(runs != QueueRuns::kOnThread);
}

// --- Steps ------------------------------------------------------------------

void Executor::EndStep() {
  pipeline_run_.EndStep();
  MutexLock lock(&mutex_);
  if (program_ == nullptr) return;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (program_->lanes()[lane].run != LaneRun::kStream) continue;
    lanes_[lane].step += 1;
    BeginStep(lane);
  }
}

void Executor::RestartStep() {
  MutexLock lock(&mutex_);
  if (program_ == nullptr) return;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (IsQueued(program_->lanes()[lane].run)) BeginStep(lane);
  }
}

// --- Lanes with streams -----------------------------------------------------

void Executor::SetOwner(plan::LaneKind kind, LaneOwner* owner) {
  MutexLock lock(&mutex_);
  if (program_ == nullptr) return;
  while (advancing_) advanced_.Wait(&mutex_);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Program::LaneProgram& planned = program_->lanes()[lane];
    if (planned.run == LaneRun::kStream && planned.planned->kind == kind) {
      lanes_[lane].owner = owner;
    }
  }
}

void Executor::BeginRun(const Event& free) {
  MutexLock lock(&mutex_);
  if (program_ == nullptr) return;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (program_->lanes()[lane].planned->kind != plan::LaneKind::kPipeline) {
      continue;
    }
    BeginStep(lane);
    if (!lanes_[lane].units.empty()) Add(free, &lanes_[lane].units[0].events);
  }
  running_ = true;
}

void Executor::EndRun() {
  MutexLock lock(&mutex_);
  running_ = false;
}

// A pipeline's messages are launched only during a run: those of the next step
// would be received into buffers that this step may still read.
bool Executor::MayLaunchOnStream(size_t lane) const {
  const LaneState& state = lanes_[lane];
  const plan::LaneKind kind = program_->lanes()[lane].planned->kind;
  return state.owner != nullptr && state.failure.ok() &&
         (running_ || kind != plan::LaneKind::kPipeline) && MayLaunch(lane);
}

bool Executor::HasLaunchableStream() const {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (MayLaunchOnStream(lane)) return true;
  }
  return false;
}

std::optional<Executor::PendingLaunch> Executor::TakeLaunch() {
  if (program_ == nullptr) return std::nullopt;
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    LaneState& state = lanes_[lane];
    if (!MayLaunchOnStream(lane)) continue;
    const UnitRef unit{static_cast<int>(lane), static_cast<int>(state.next)};
    return PendingLaunch{
        .program = program_,
        .unit = unit,
        .after = TakeEvents(unit),
        .owner = state.owner,
        .stream = state.stream.get(),
        .drains = program_->one_order() && std::exchange(undrained_, false)};
  }
  return std::nullopt;
}

absl::StatusOr<Event> Executor::LaunchOnStream(const PendingLaunch& launch) {
  if (launch.drains) queue_->Drain();
  compute_->TakeError(*launch.stream).IgnoreError();
  const plan::Lane& lane = *launch.program->lanes()[launch.unit.lane].planned;
  const Unit& unit = launch.program->At(launch.unit);
  Communicator& communicator = *communicators_[unit.communicator];
  absl::Status enqueued;
  for (const Event& event : launch.after) {
    enqueued.Update(compute_->WaitFor(*launch.stream, event));
  }
  std::vector<PlannedTransfer> planned;
  for (int i = unit.first; i < unit.first + unit.count; ++i) {
    const plan::Transfer& transfer = lane.transfers[i];
    planned.push_back(
        {&transfer, launch.owner->OperandsOf({launch.unit.lane, i}, transfer)});
  }
  if (enqueued.ok()) {
    enqueued = EnqueueTogether(planned, communicator, *launch.stream);
  }
  const Event done = launch.stream->Record();
  enqueued.Update(compute_->TakeError(*launch.stream));
  if (enqueued.ok()) Count(*launch.program, launch.unit);
  if (enqueued.ok()) return done;
  launch.owner->Failed(lane.transfers[unit.first],
                       communicator.status().ok() ? -1 : unit.communicator,
                       enqueued);
  return enqueued;
}

void Executor::Count(const Program& program, const UnitRef& unit) const {
  if (traffic_ == nullptr) return;
  traffic_->Add(program.lanes()[unit.lane].planned->kind,
                program.At(unit).bytes);
}

void Executor::EndLaunch(const UnitRef& unit,
                         const absl::StatusOr<Event>& done) {
  LaneState& lane = lanes_[unit.lane];
  if (!done.ok()) {
    lane.failure = done.status();
    return;
  }
  lane.units[unit.unit].done = lane.last = *done;
  lane.next += 1;
}

void Executor::Advance() {
  for (;;) {
    std::optional<PendingLaunch> launch;
    {
      MutexLock lock(&mutex_);
      while (advancing_) advanced_.Wait(&mutex_);
      launch = TakeLaunch();
      advancing_ = launch.has_value();
    }
    if (!launch.has_value()) return RunIfDue();
    const absl::StatusOr<Event> done = LaunchOnStream(*launch);
    MutexLock lock(&mutex_);
    advancing_ = false;
    advanced_.NotifyAll();
    EndLaunch(launch->unit, done);
    if (program_ != nullptr) LaunchQueued();
  }
}

absl::StatusOr<Event> Executor::Launched(plan::TransferRef ref) {
  Advance();
  MutexLock lock(&mutex_);
  if (program_ == nullptr) {
    return absl::FailedPreconditionError(
        "the gradient synchronisation of this plan is gone");
  }
  const UnitRef unit = program_->UnitOf(ref);
  const LaneState& lane = lanes_[unit.lane];
  if (lane.next > static_cast<size_t>(unit.unit)) {
    return lane.units[unit.unit].done;
  }
  return WhyHeld(unit);
}

// Follows what each unit comes behind to the first one that is not launched. A
// lane fails when the epoch ends: then nobody here has forgotten anything.
absl::Status Executor::WhyHeld(const UnitRef& unit) const {
  for (const LaneState& lane : lanes_) {
    if (!lane.failure.ok()) return lane.failure;
  }
  const auto described = [this](const UnitRef& which) {
    return absl::StrFormat("%s in lane %s", Describe(program_->FirstOf(which)),
                           program_->lanes()[which.lane].planned->name);
  };
  const auto next = [this](int lane) {
    return UnitRef{lane, static_cast<int>(lanes_[lane].next)};
  };
  const UnitRef held = next(unit.lane);
  UnitRef holds = held;
  for (;;) {
    const LaneState& lane = lanes_[holds.lane];
    if (lane.units[holds.unit].pending > 0) break;
    const std::vector<UnitRef>& after = program_->At(holds).after;
    const auto earlier = std::find_if(
        after.begin(), after.end(),
        [&](const UnitRef& one) { return !HasPassed(one, lane.step); });
    if (earlier == after.end()) {
      return absl::FailedPreconditionError(described(holds) + " has no owner");
    }
    // A lane that has not begun the step is held by the one before.
    const bool has_begun = lanes_[earlier->lane].step == lane.step;
    holds = has_begun ? next(earlier->lane) : *earlier;
    if (!has_begun) break;
  }
  const bool is_itself = holds.lane == held.lane && holds.unit == held.unit;
  return absl::FailedPreconditionError(
      is_itself ? described(held) + " is not ready"
                : absl::StrFormat("%s comes behind %s, which is not ready",
                                  described(held), described(holds)));
}

void Executor::Synchronize(int lane) {
  Stream* stream = nullptr;
  {
    MutexLock lock(&mutex_);
    stream = lanes_[lane].stream.get();
  }
  if (stream != nullptr) stream->Synchronize().IgnoreError();
}

bool Executor::IsBehindStreams(plan::TransferRef ref) const {
  MutexLock lock(&mutex_);
  if (program_ == nullptr) return false;
  const UnitRef unit = program_->UnitOf(ref);
  for (int i = 0; i < program_->At(unit).named; ++i) {
    const UnitRef& earlier = program_->At(unit).after[i];
    const bool has_stream =
        program_->lanes()[earlier.lane].run == LaneRun::kStream;
    if (has_stream && !HasPassed(earlier, lanes_[unit.lane].step)) return true;
  }
  return false;
}

// --- The end ----------------------------------------------------------------

void Executor::Abort(const absl::Status& cause) {
  const std::string message(cause.message());
  for (const auto& communicator : communicators_) {
    if (communicator != nullptr) communicator->Abort(message);
  }
}

void Executor::Close() {
  if (queue_ == nullptr) return;
  std::shared_ptr<const Program> program;
  {
    MutexLock lock(&mutex_);
    while (advancing_) advanced_.Wait(&mutex_);
    program = std::exchange(program_, nullptr);
  }
  queue_->Drain();
  queue_ = nullptr;
  if (program == nullptr) return;
  communicators_[0] = nullptr;
  for (const Program::LaneProgram& lane : program->lanes()) {
    if (!IsQueued(lane.run)) continue;
    for (const Unit& unit : lane.units) {
      communicators_[unit.communicator] = nullptr;
    }
  }
}

}  // namespace lockstep::executor
