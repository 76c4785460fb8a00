#include "client/session/event_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "client/session/warning.h"

namespace lockstep::session {

// One stream: turns the channel's callbacks into events, and owns the stream
// until OnClosed.
class EventLoop::Port : public StreamHandler {
 public:
  Port(EventLoop* event_loop, uint64_t number)
      : event_loop_(event_loop), number_(number) {}

  // Not in the constructor: the channel may call back before Open returns.
  void OpenOn(ControlChannel& channel) { stream_ = channel.Open(this); }
  ControlStream& stream() { return *stream_; }

  void OnOpened() override { event_loop_->Post(StreamOpened{number_}); }
  void OnMessage(protocol::ToWorker message) override {
    event_loop_->Post(StreamMessage{number_, std::move(message)});
  }
  void OnClosed(absl::Status status) override {
    event_loop_->loop_.Post([event_loop = event_loop_, number = number_,
                             status = std::move(status)]() mutable {
      event_loop->Apply(StreamClosed{number, std::move(status)});
      event_loop->Forget(number);
    });
  }

 private:
  EventLoop* const event_loop_;
  const uint64_t number_;
  std::unique_ptr<ControlStream> stream_;
};

EventLoop::EventLoop(const MachineOptions& options,
                     std::vector<std::unique_ptr<ControlChannel>> channels,
                     Clock* clock)
    : clock_(clock),
      progress_interval_(options.progress_interval),
      channels_(std::move(channels)),
      view_(std::make_shared<const View>()),
      machine_(options),
      loop_("ls-session", clock),
      wake_(&loop_, [this] { Apply(DeadlineExpired{}); }),
      progress_timer_(&loop_, [this] { PullProgress(); }),
      deadline_timer_(&loop_, [this] { Remind(absl::InfiniteFuture()); }) {
  Check(!channels_.empty() && channels_.size() == options.addresses.size(),
        "a session needs one channel for each address");
  Post(Begin{});
}

EventLoop::~EventLoop() {
  loop_.Post([this] { Close(); });
  {
    MutexLock lock(&mutex_);
    while (!closing_ || open_streams_ > 0) changed_.Wait(&mutex_);
  }
  channels_.clear();  // also ends fetches, whose callbacks may Notify
  loop_.Stop();
}

void EventLoop::Close() {
  stopped_ = true;
  for (auto& [number, port] : ports_) port->stream().Cancel();
  MutexLock lock(&mutex_);
  closing_ = true;
  changed_.NotifyAll();
}

void EventLoop::Post(Event event) {
  loop_.Post([this, event = std::move(event)]() mutable {
    if (auto* failed = std::get_if<FailLocally>(&event)) {
      // The current position: the last report may be many steps old.
      PullProgress();
      failed->failure.step =
          std::max({failed->failure.step, step(), machine_.view().first_step});
    }
    Apply(event);
  });
}

void EventLoop::Leave(protocol::Leave leave) {
  loop_.Post([this, leave = std::move(leave)]() mutable {
    leaves_ = true;
    PullProgress();
    leave.steps = step();
    Apply(LeaveNow{std::move(leave)});
  });
}

// --- The view ---------------------------------------------------------------

std::shared_ptr<const View> EventLoop::view() const {
  MutexLock lock(&mutex_);
  return view_;
}

std::shared_ptr<const View> EventLoop::Await(
    absl::FunctionRef<bool(const View&)> holds, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) {
    loop_.Post([this, deadline] { Remind(deadline); });
  }
  MutexLock lock(&mutex_);
  while (!holds(*view_) && clock_->Now() < deadline) changed_.Wait(&mutex_);
  return view_;
}

void EventLoop::Notify() {
  MutexLock lock(&mutex_);
  changed_.NotifyAll();
}

// Wakes the Awaits whose deadline has passed, and sets the timer for the next.
void EventLoop::Remind(absl::Time when) {
  deadlines_.insert({when, absl::InfiniteFuture()});  // never empty
  deadlines_.erase(deadlines_.begin(), deadlines_.upper_bound(clock_->Now()));
  deadline_timer_.Set(*deadlines_.begin());
  Notify();
}

void EventLoop::Publish() {
  if (published_ == machine_.changes()) return;
  published_ = machine_.changes();
  auto view = std::make_shared<const View>(machine_.view());
  {
    MutexLock lock(&mutex_);
    view_ = std::move(view);
    changed_.NotifyAll();
  }
  CallListener();
}

// --- Hooks ------------------------------------------------------------------

uint64_t EventLoop::AddWatch(Watch watch) {
  MutexLock lock(&hooks_mutex_);
  watches_[++last_watch_] = std::move(watch);
  loop_.Post([this] { CallWatches(); });
  return last_watch_;
}

void EventLoop::RemoveWatch(uint64_t number) {
  MutexLock lock(&hooks_mutex_);
  watches_.erase(number);
}

void EventLoop::CallWatches() {
  const absl::Status& status = machine_.view().status;
  if (status.ok()) return;
  MutexLock lock(&hooks_mutex_);
  for (auto& [number, watch] : watches_) {
    if (watch) std::exchange(watch, nullptr)(status);
  }
}

void EventLoop::SetProgressSource(ProgressSource source) {
  MutexLock lock(&hooks_mutex_);
  progress_source_ = std::move(source);
  loop_.Post([this] { PullProgress(); });
}

void EventLoop::ReplaceProgressSource(ProgressSource source) {
  MutexLock lock(&hooks_mutex_);
  progress_source_ = std::move(source);
}

void EventLoop::SetViewListener(ViewListener listener) {
  MutexLock lock(&hooks_mutex_);
  view_listener_ = std::move(listener);
  loop_.Post([this] { CallListener(); });
}

void EventLoop::CallListener() {
  MutexLock lock(&hooks_mutex_);
  if (view_listener_) view_listener_(machine_.view());
}

void EventLoop::PullProgress() {
  protocol::Progress progress;
  {
    MutexLock lock(&hooks_mutex_);
    if (!progress_source_ || IsOver(machine_.view())) return;
    progress = progress_source_();
  }
  if (leaves_) progress.withdrawn = false;  // Leave reports it
  step_.store(progress.position.step, std::memory_order_relaxed);
  progress_timer_.Set(clock_->Now() + progress_interval_);
  Apply(Moved{std::move(progress)});
}

// --- Passes -----------------------------------------------------------------

void EventLoop::Announce(protocol::Announce announce) {
  Post(AnnouncePass{std::move(announce)});
}

void EventLoop::Submitted(uint64_t pass, uint32_t parameter) {
  {
    MutexLock lock(&submitted_mutex_);
    submitted_.pass = pass;
    submitted_.parameters.push_back(parameter);
    if (submitted_.parameters.size() > 1) return;  // already posted
  }
  loop_.Post([this] { SaySubmitted(); });
}

void EventLoop::SaySubmitted() {
  SubmitInPass word;
  {
    MutexLock lock(&submitted_mutex_);
    word.submitted = std::exchange(submitted_, {});
  }
  Apply(word);
}

void EventLoop::SetDecisionSink(DecisionSink sink) {
  MutexLock lock(&hooks_mutex_);
  decision_sink_ = std::move(sink);
}

// --- The loop ---------------------------------------------------------------

void EventLoop::Apply(const Event& event) {
  if (stopped_) return;
  const Effects effects = machine_.Step(clock_->Now(), event);
  Publish();
  CallWatches();
  for (const Effect& effect : effects) Do(effect);
  wake_.Set(machine_.NextWake());
}

void EventLoop::Do(const Effect& effect) {
  if (const auto* open = std::get_if<OpenStream>(&effect)) {
    {
      MutexLock lock(&mutex_);
      ++open_streams_;
      address_ = open->address;
    }
    auto& port = ports_[open->stream];
    port = std::make_unique<Port>(this, open->stream);
    port->OpenOn(*channels_[open->address]);
  } else if (const auto* send = std::get_if<SendOn>(&effect)) {
    const auto port = ports_.find(send->stream);
    if (port == ports_.end()) return;
    messages_sent_.fetch_add(1, std::memory_order_relaxed);
    port->second->stream().Send(send->message);
  } else if (const auto* close = std::get_if<CloseStream>(&effect)) {
    const auto port = ports_.find(close->stream);
    if (port != ports_.end()) port->second->stream().Cancel();
  } else if (const auto* warn = std::get_if<Warn>(&effect)) {
    PrintWarning(warn->text);
  } else if (const auto* decided = std::get_if<Decided>(&effect)) {
    MutexLock lock(&hooks_mutex_);
    if (decision_sink_) decision_sink_(decided->decisions);
  }
}

void EventLoop::Forget(uint64_t stream) {
  ports_.erase(stream);
  MutexLock lock(&mutex_);
  --open_streams_;
  changed_.NotifyAll();
}

void EventLoop::FetchPlan(const PlanRequest& request, absl::Duration timeout,
                          ControlChannel::PlanCallback done) {
  int address;
  {
    MutexLock lock(&mutex_);
    address = address_;
  }
  channels_[address]->FetchPlan(request, timeout, std::move(done));
}

}  // namespace lockstep::session
