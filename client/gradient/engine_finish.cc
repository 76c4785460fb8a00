// Finish: completes the gradients that were not submitted, then launches the
// verdict.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/gradient/engine.h"

namespace lockstep::gradient {

using protocol::Phase;

absl::Status Engine::CheckFinish(const FinishOptions& options) {
  if (!std::isfinite(options.inverse_scale) || options.inverse_scale <= 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "inverse_scale is %g, must be more than 0", options.inverse_scale));
  }
  if (options_.loss_scale && options.inverse_scale != 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "inverse_scale is %g, but the loss is scaled on the device, which "
        "knows its scale: leave inverse_scale out",
        options.inverse_scale));
  }
  {
    MutexLock lock(&mutex_);
    absl::Status may = supply_.CheckFinish(options);
    if (may.ok() && values_ != nullptr) may = values_->CheckBegun();
    const bool has_data =
        !supply_.out() && (options.more_data || options.samples > 0);
    if (may.ok()) may = executor_.pipeline_run().CheckFinish(has_data);
    if (!may.ok()) return may;
  }
  if (!options.per_sample) return absl::OkStatus();
  for (size_t p = 0; p < options_.names.size(); ++p) {
    if (facts_[p].op == ReduceOp::kSum) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "per_sample needs sums over samples, but %s was registered as a mean "
        "over ranks: register it with ReduceOp::kSum",
        options_.names[p]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PendingVerdict::State>> Engine::Finish(
    const FinishOptions& options, double max_norm, Stream* stream,
    absl::FunctionRef<void(uint64_t)> enqueued) {
  if (absl::Status over = ended(); !over.ok()) return over;
  if (absl::Status right = CheckStream(stream); !right.ok()) return right;
  if (absl::Status right = CheckFinish(options); !right.ok()) return right;
  if (stream != nullptr && !(max_norm > 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "max_norm is %g, must be more than 0: infinity does not clip",
        max_norm));
  }
  if (capturing_ != nullptr) return FinishCaptured(options, max_norm, *stream);
  if (absl::Status may = AwaitReplays(stream); !may.ok()) return may;
  if (stream != nullptr) AwaitStepBefore();
  if (absl::Status begun = BeginPassIfNone(); !begun.ok()) return begun;
  auto verdict = std::make_shared<PendingVerdict::State>(options_.explain);
  verdict->options = options;
  verdict->max_norm = max_norm;
  verdict->has_scalars = stream != nullptr;

  StepCall call(this);
  GradientTracker::Incomplete incomplete;
  std::vector<Event> lazy;
  absl::AnyInvocable<void()> tell_order = [] {};
  {
    MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    if (!after_the_last_.ok()) return after_the_last_;
    if (stream == nullptr && steps_.count() > 0) return NotWaitedFor();
    call.Begin();
    lazy = std::exchange(lazy_, {});
    supply_.Finish(options);
    if (values_ != nullptr) values_->EndStep();
    steps_.Close(verdict, &versions_->current());
    if (gate_of_steps_ != nullptr && stream != nullptr) {
      verdict->set_device_scalars(gate_of_steps_->ScalarsOf(verdict->launch));
      // With one set of buckets, the next backward pass may write to a view of
      // this step, and a step that has not passed here may have to be applied
      // from it: so the caller waits until the host knows.
      // Behind this step the program may launch graphs, which no call of the
      // host precedes, and which use the same buckets.
      verdict->stream_follows_device =
          run_ahead_ > 0 || (!uses_views_ && replays_ == nullptr);
    }
    tell_order = TakeOrderWatch(tracker_.completed());
    NoteLeaves(options);
    incomplete = tracker_.Finish();
  }
  executor_.EndStep();
  tell_order();
  // The waiter for a step drives the streams it depends on; here, this call.
  if (stream == nullptr) {
    for (const Event& submitted : lazy) submitted.Wait().IgnoreError();
  }
  absl::Status status =
      RunOn(stream, [this, verdict, incomplete = std::move(incomplete)](
                        KernelQueue& kernel_queue) {
        verdict->closed = options_.clock->Now();
        return CloseStep(incomplete, kernel_queue);
      });
  if (!status.ok()) {
    if (ended().ok()) Fail(-1, status);
    if (!PassesNevertheless(*verdict)) return status;
  }
  BeginNext().IgnoreError();  // it ends the epoch, but this step may pass
  enqueued(verdict->launch);
  verdict->set_driver(stream == nullptr ? Event() : compute_.Driver(*stream));
  if (stream != nullptr) {
    if (absl::Status joined = JoinVerdict(*stream, *verdict); !joined.ok()) {
      return joined;
    }
  }
  return verdict;
}

// What was enqueued before an error may be all that the device needs.
bool Engine::PassesNevertheless(PendingVerdict::State& verdict) {
  return gate_of_steps_ != nullptr && verdict.AwaitResult().ok();
}

absl::Status Engine::BeginNext() {
  if (!versions_->Rotate()) return absl::OkStatus();
  absl::Status adopted = executor_.Adopt(versions_->current().program());
  if (!adopted.ok()) Fail(-1, adopted);
  return adopted;
}

void Engine::AwaitStepBefore() {
  if (gate_of_steps_ == nullptr || capturing_ != nullptr) return;
  std::shared_ptr<PendingVerdict::State> awaited;
  for (;;) {
    {
      MutexLock lock(&mutex_);
      const auto before = steps_.AwaitedByNext();
      if (before == nullptr || before == awaited) return;
      awaited = before;
    }
    awaited->AwaitResult().IgnoreError();
  }
}

void Engine::AwaitLastVerdict() {
  std::shared_ptr<PendingVerdict::State> last;
  {
    MutexLock lock(&mutex_);
    if (steps_.count() > 0) last = steps_.Find(steps_.launches() - 1);
  }
  if (last != nullptr) last->AwaitResult().IgnoreError();
}

// On the host the stream that holds the last step may have to be driven by the
// program, which a wait here would keep from it.
absl::Status Engine::MayRunPipeline() {
  if (!IsInHostMemory()) AwaitLastVerdict();
  absl::Status failed;
  {
    MutexLock lock(&mutex_);
    failed = failure_;
    if (failed.ok()) {
      if (absl::Status may = MayStep(); !may.ok()) return may;
      const bool waits = IsInHostMemory() && steps_.count() > 0;
      return waits ? NotWaitedFor() : absl::OkStatus();
    }
  }
  return options_.explain ? options_.explain(failed) : failed;
}

// --- Calls that launch a part of a step --------------------------------------

void Engine::StepCall::Begin() {
  if (engine_.run_ahead_ == 0) return;  // no void steps
  has_begun_ = true;
  engine_.step_calls_ += 1;
}

Engine::StepCall::~StepCall() {
  if (!has_begun_) return;
  MutexLock lock(&engine_.mutex_);
  engine_.step_calls_ -= 1;
  if (engine_.step_calls_ == 0) engine_.no_step_calls_.NotifyAll();
}

// Other ranks have enqueued their transfers already, captured if the last step
// was. The buckets are free: a step that has passed stands behind every update
// before it.
void Engine::LaunchVoidSteps(uint64_t last) {
  for (;;) {
    auto verdict = std::make_shared<PendingVerdict::State>(options_.explain);
    verdict->options.more_data = false;
    verdict->closed = options_.clock->Now();
    GradientTracker::Incomplete incomplete;
    StepsInFlight::GraphLaunch before;
    {
      MutexLock lock(&mutex_);
      // A call that failed may wait for this thread.
      while (step_calls_ > 0 && failure_.ok()) no_step_calls_.Wait(&mutex_);
      if (!failure_.ok() || steps_.launches() > last) return;
      before = steps_.last_graph();
      // Behind a switch no rank has launched anything.
      if (before.graph != nullptr && IsStaleNow(*before.graph)) before = {};
      if (before.graph != nullptr) {
        steps_.Launch(verdict, &versions_->current());
      } else {
        steps_.Close(verdict, &versions_->current());
        incomplete = tracker_.Finish();
      }
    }
    absl::Status launched;
    if (before.graph != nullptr) {
      LaunchVoidGraph(verdict, before);
    } else {
      executor_.EndStep();
      launched = RunOn(nullptr, [&](KernelQueue& kernel_queue) {
        return CloseStep(incomplete, kernel_queue);
      });
    }
    if (launched.ok()) launched = BeginNext();
    if (!launched.ok()) return Fail(-1, launched);
  }
}

// A rank's last batch may be short, so it is not counted.
void Engine::NoteLeaves(const FinishOptions& options) {
  const bool ignored = options_.on_unsubmitted == OnUnsubmitted::kIgnore;
  if (leaves_ == 0 || ignored || !options.more_data) return;
  for (int p = 0; p < static_cast<int>(options_.names.size()); ++p) {
    unsubmitted_.NoteLeaves(p, tracker_.submitted(p), tracker_.uses(p));
  }
}

absl::Status Engine::JoinVerdict(Stream& stream,
                                 PendingVerdict::State& verdict) {
  if (gate_of_steps_ == nullptr) return GateStream(stream, verdict);
  const std::optional<Event> decided = verdict.AwaitEnqueued();
  if (decided) {
    if (absl::Status waits = WaitOn(stream, *decided); !waits.ok()) {
      const absl::Status result = verdict.AwaitResult();
      return result.ok() ? waits : result;
    }
  }
  const bool waits = !decided || !verdict.stream_follows_device;
  return waits ? verdict.AwaitResult() : absl::OkStatus();
}

absl::Status Engine::WaitOn(Stream& stream, const Event& event) {
  absl::Status waits = compute_.WaitFor(stream, event);
  if (!waits.ok() && capturing_ == nullptr) waits = event.Wait();
  if (!waits.ok()) FailHere(waits);
  return waits;
}

absl::Status Engine::GateStream(Stream& stream,
                                PendingVerdict::State& verdict) {
  auto hold = compute_.GateStream(stream, sizeof(VerdictScalars));
  if (!hold.ok()) {
    Fail(-1, hold.status());
    return hold.status();
  }
  verdict.Holds(*hold);
  (*hold)->Begin();
  return absl::OkStatus();
}

absl::AnyInvocable<void()> Engine::TakeOrderWatch(
    const std::vector<int>& completed) {
  const bool may_know = !completed.empty() || supply_.out();
  if (!watch_order_ || !may_know) return [] {};
  return [tell = std::exchange(watch_order_, nullptr),
          order = ReadyOrder(completed)]() mutable { tell(std::move(order)); };
}

// As indices of the plan's parameters: the completed ones, then the rest.
std::vector<uint32_t> Engine::ReadyOrder(
    const std::vector<int>& completed) const {
  std::vector<uint32_t> order;
  std::vector<bool> is_in(facts_.size());
  for (const int parameter : completed) {
    is_in[parameter] = true;
    order.push_back(facts_[parameter].plan_index);
  }
  for (size_t p = 0; p < facts_.size(); ++p) {
    if (!is_in[p]) order.push_back(facts_[p].plan_index);
  }
  std::sort(order.begin() + completed.size(), order.end());
  return order;
}

absl::Status Engine::CloseStep(const GradientTracker::Incomplete& incomplete,
                               KernelQueue& kernel_queue) {
  Enter(Phase::kTransfer);
  Layout& layout = versions_->current();
  for (int parameter : incomplete.never) {
    absl::Status done = writer_->Complete(parameter, false, kernel_queue);
    if (!done.ok()) return done;
  }
  for (int parameter : incomplete.partly) {
    absl::Status done = writer_->Complete(parameter, true, kernel_queue);
    if (!done.ok()) return done;
  }
  // So that no update reads scalars of a later step, however late it is.
  if (gate_of_steps_ != nullptr) {
    executor_.AddEvent(layout.verdict(), kernel_queue.Done());
    if (!kernel_queue.status().ok()) return kernel_queue.status();
  }
  if (!negotiates()) return executor_.MarkReady(layout.verdict());
  pass_lane_->Finish();
  return absl::OkStatus();
}

}  // namespace lockstep::gradient
