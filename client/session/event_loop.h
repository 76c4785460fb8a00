// Runs a machine: one loop thread, the machine's streams, and the view that
// other threads read.
//
//   user threads ──Post──▶ ┌ loop thread ──────────────┐ ◀── channel threads
//                          │ machine.Step ─▶ effects ──┼──▶ streams
//   Await, view() ◀────────┤            └─▶ view       │
//   watches, progress ◀────┴───────────────────────────┘
//
// Threads:   all methods from any thread, the destructor from any but the loop
//            thread. Watches, the progress source and the view listener are
//            called on the loop thread, under a separate lock: they must be
//            quick, must not wait for this session, and must not add or remove
//            hooks.
// Ownership: owns the channels. The clock must outlive it.

#ifndef LOCKSTEP_CLIENT_SESSION_EVENT_LOOP_H_
#define LOCKSTEP_CLIENT_SESSION_EVENT_LOOP_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/mutex.h"
#include "client/session/control_channel.h"
#include "client/session/machine.h"

namespace lockstep::session {

class EventLoop {
 public:
  using Watch = std::function<void(const absl::Status&)>;
  using ProgressSource = std::function<protocol::Progress()>;
  using ViewListener = std::function<void(const View&)>;

  // channels[i] connects to options.addresses[i]. Starts the machine at once.
  EventLoop(const MachineOptions& options,
            std::vector<std::unique_ptr<ControlChannel>> channels,
            Clock* clock);

  // Ends the streams without a message: post LeaveNow first.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void Post(Event event);
  // Posts LeaveNow with the step count of the progress source in place of that
  // in `leave`.
  void Leave(protocol::Leave leave);

  std::shared_ptr<const View> view() const;

  // Blocks until `holds` is true for the view or the clock has passed
  // `deadline`, and returns the view of that time. `holds` is called again
  // after every change of the view and every Notify.
  std::shared_ptr<const View> Await(
      absl::FunctionRef<bool(const View&)> holds,
      absl::Time deadline = absl::InfiniteFuture());

  // Makes every Await check its condition again.
  void Notify();

  // `watch` is called once, with the status of the session when it is over
  // (IsOver, but not after an orderly Leave); soon, if it already is. Returns
  // the number of the watch.
  uint64_t AddWatch(Watch watch);
  // After it returns, the watch is not running and will not be called.
  void RemoveWatch(uint64_t number);

  // Reads the progress source now, before events that are posted later.
  void ReadProgress() {
    loop_.Post([this] { PullProgress(); });
  }

  // The source is called once each progress interval. Empty: none. After the
  // call returns, the former source is not running.
  void SetProgressSource(ProgressSource source);
  // The same; `source` is first called at the next interval.
  void ReplaceProgressSource(ProgressSource source);

  // Negotiated mode: what this rank announces and submits. Parameters submitted
  // before the loop handles the first of them share one message.
  void Announce(protocol::Announce announce);
  void Submitted(uint64_t pass, uint32_t parameter);
  // `sink` receives the decisions, in order, on the loop thread; set it before
  // the first Announce. Empty: none. After the call returns, the former sink is
  // not running.
  using DecisionSink =
      std::function<void(const std::vector<protocol::Decision>&)>;
  void SetDecisionSink(DecisionSink sink);

  // The listener is called with the current view, soon, and after each change.
  // Empty: none. After the call returns, the former listener is not running.
  void SetViewListener(ViewListener listener);

  // Asks the coordinator that the session is connected to, or the next address
  // if it is not connected. See ControlChannel::FetchPlan.
  void FetchPlan(const PlanRequest& request, absl::Duration timeout,
                 ControlChannel::PlanCallback done);

  // The step of the newest progress that was pulled.
  uint64_t step() const { return step_.load(std::memory_order_relaxed); }

  // Messages sent to the coordinator in total.
  uint64_t messages_sent() const {
    return messages_sent_.load(std::memory_order_relaxed);
  }

  Clock& clock() const { return *clock_; }

 private:
  class Port;

  // Called on the loop thread.
  void Apply(const Event& event);
  void Do(const Effect& effect);
  void Close();
  void Publish();
  void CallWatches();
  void CallListener();
  void PullProgress();
  void SaySubmitted();
  void Remind(absl::Time when);
  void Forget(uint64_t stream);

  Clock* const clock_;
  const absl::Duration progress_interval_;
  std::vector<std::unique_ptr<ControlChannel>> channels_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  int open_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // no new streams
  int address_ ABSL_GUARDED_BY(mutex_) = 0;       // of the newest stream

  std::atomic<uint64_t> step_{0};
  std::atomic<uint64_t> messages_sent_{0};

  Mutex hooks_mutex_;
  std::map<uint64_t, Watch> watches_ ABSL_GUARDED_BY(hooks_mutex_);
  uint64_t last_watch_ ABSL_GUARDED_BY(hooks_mutex_) = 0;
  ProgressSource progress_source_ ABSL_GUARDED_BY(hooks_mutex_);
  DecisionSink decision_sink_ ABSL_GUARDED_BY(hooks_mutex_);
  ViewListener view_listener_ ABSL_GUARDED_BY(hooks_mutex_);

  Mutex submitted_mutex_;
  // Not sent yet; all of one pass, since a pass ends with an answer.
  protocol::Submitted submitted_ ABSL_GUARDED_BY(submitted_mutex_);

  // Used by the loop thread only.
  Machine machine_;
  bool stopped_ = false;  // the machine receives no more events
  bool leaves_ = false;
  uint64_t published_ = 0;
  std::map<uint64_t, std::unique_ptr<Port>> ports_;
  std::set<absl::Time> deadlines_;

  Loop loop_;
  Loop::Timer wake_;
  Loop::Timer progress_timer_;
  Loop::Timer deadline_timer_;
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_EVENT_LOOP_H_
