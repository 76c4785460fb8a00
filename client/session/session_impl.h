// The session as GradientSync, Pipeline and other library classes see it.
//
//   AgreeOnPlan(parameters)  ─▶ plan, the same on all ranks
//   Connect(plan)            ─▶ communicators; all ranks are connected
//   TakePipeline             ─▶ the plan and communicators for the pipeline
//   AddWatch                 ─▶ called when the epoch ends: abort communicators
//   SetProgressSource        ─▶ called at most 10 times a second
//   SetViewListener          ─▶ called with the coordinator's commands
//   ReportPeerFailure        ─▶ a data-plane error that is about a peer
//   Explain                  ─▶ the cause of an error
//   Quiesced                 ─▶ after the end: this rank's position
//   Recover                  ─▶ ... and how training goes on
//
// Threads:   all methods from any thread; AgreeOnPlan and Connect from one at a
//            time, since they block until every rank does the same. Watches and
//            the progress source: see event_loop.h.
// Errors:    when the epoch has ended, every blocked call returns the reason at
//            once (the same as Session::status()). A failure of this rank
//            alone, say a plan with another digest, ends the epoch for all
//            before it is returned.
// Ownership: communicators and watches must be destroyed before the session.

#ifndef LOCKSTEP_CLIENT_SESSION_SESSION_IMPL_H_
#define LOCKSTEP_CLIENT_SESSION_SESSION_IMPL_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "client/executor/executor.h"
#include "client/session/checkpoint_channel.h"
#include "client/session/control_channel.h"
#include "client/session/event_loop.h"
#include "client/session/group_registry.h"
#include "client/session/halo_registry.h"
#include "client/session/state_registry.h"
#include "client/transport/process_watch.h"
#include "client/transport/transport.h"
#include "lockstep/communicator.h"
#include "lockstep/session.h"
#include "plan/ir.h"
#include "protocol/parameter.h"

namespace lockstep {

// A plan that all ranks have accepted and are connected for.
struct PlanInEffect {
  plan::Plan plan;
  int rank = -1;
  // Has the plan's communicators; GradientSync and Pipeline share it.
  std::shared_ptr<executor::Executor> executor;
};

class Session::Impl {
 public:
  // The parts of a session beside its options: Session::Join passes the real
  // ones, a test its own.
  struct Parts {
    std::unique_ptr<session::ChannelFactory> channels;
    // Called once, with the coordinator's spec of the job.
    std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>(
        const JobSpec&)>
        make_transport;
    std::shared_ptr<Clock> clock;
    protocol::ProcessInfo process;
    // Null: the ends of other processes are known by their connections only.
    std::unique_ptr<transport::ProcessWatch> process_watch;
    std::optional<protocol::Launch> launch;
    uint64_t incarnation = 0;  // drawn at random, not 0
  };

  // As Session::Join, with every required field of `options` set (identity.h
  // fills them in).
  static absl::StatusOr<std::unique_ptr<Session>> Join(
      const JoinOptions& options, Parts parts);

  ~Impl();

  // --- Facts of this epoch; they do not change ---
  // The job's, with the mesh of this epoch.
  const JobSpec& spec() const { return spec_; }
  const std::string& worker() const { return options_.worker; }
  Generation generation() const { return formed_->generation; }
  EpochId epoch() const { return formed_->epoch; }
  // The reason that the session's destructor gives to the other workers.
  std::string WhyDestroyed() const;
  uint64_t first_step() const { return formed_->first_step; }
  int rank() const { return formed_->rank; }
  const std::vector<protocol::Member>& members() const {
    return formed_->members;
  }
  const Clock& clock() const { return *clock_; }
  transport::Transport& transport() { return *transport_; }
  Arena& arena() { return *arena_; }  // the transport's

  // OK while the epoch lives, and the job does not grow; then the reason for
  // the end.
  absl::Status status() const;

  // --- Agreement ---

  // Registers, waits until every rank has, fetches the plan, checks that it is
  // the announced one and can run, and accepts it. InvalidArgument if
  // registrations or declared groups differ: the message lists every differing
  // rank. FailedPrecondition for a second call.
  absl::StatusOr<plan::Plan> AgreeOnPlan(
      const std::vector<Parameter>& parameters);

  // Connects every communicator of the plan that this rank is a member of, in
  // the plan's order, and waits until every rank has. TakePipeline returns the
  // same executor; declared groups get their communicators.
  absl::StatusOr<PlanInEffect> Connect(plan::Plan plan);

  // --- Groups of collectives over named axes, and halo exchanges ---
  absl::StatusOr<AxisGroup> Group(
      const protocol::AxisGroupDeclaration& declaration);
  absl::StatusOr<HaloExchange> Halo(const HaloSpec& halo);
  LaneBytes lane_bytes() const;
  // Agrees on a plan without parameters and connects its groups and halos.
  absl::Status ConnectGroups();

  // --- State, for checkpoints and recovery ---
  absl::StatusOr<StateId> RegisterState(const StateSpec& state, void* data) {
    return state_.Register(spec().mesh, state, data);
  }
  session::StateRegistry& state() { return state_; }

  // Once, after Connect: the plan and the executor, if this rank has pipeline
  // lanes or tasks. FailedPrecondition if it has none, or they were taken.
  absl::StatusOr<PlanInEffect> TakePipeline();

  // --- Later revisions of the plan (revisions.cc) ---

  // The coordinator's announcements about revisions.
  struct RevisionNews {
    Revision order_wanted;  // the revision whose order it asks for; 0: none
    Revision announced;     // the newest plan
  };
  // Blocks until `holds` is true or `deadline`, and returns the news of that
  // time. `holds` is called again after every change of the news and every
  // Notify.
  absl::StatusOr<RevisionNews> AwaitRevisions(
      absl::FunctionRef<bool(const RevisionNews&)> holds,
      absl::Time deadline = absl::InfiniteFuture());
  void Notify() { event_loop_->Notify(); }
  // Fetches and checks the announced plan, in one attempt. Returns Cancelled
  // soon after `cancelled` becomes true and a Notify. Errors for which
  // IsTransient is true are worth a retry.
  absl::StatusOr<plan::Plan> FetchRevision(absl::FunctionRef<bool()> cancelled);
  static bool IsTransient(const absl::Status& fetched);
  // Reports that this rank holds the revision, which was fetched last.
  void AcceptRevision(Revision revision, const std::string& digest,
                      std::vector<uint32_t> observed_order);
  // The answer to `order_wanted`.
  void OfferOrder(const protocol::ReadyOrder& order);

  // --- Hooks ---
  uint64_t AddWatch(session::EventLoop::Watch watch) {
    return event_loop_->AddWatch(std::move(watch));
  }
  void RemoveWatch(uint64_t number) { event_loop_->RemoveWatch(number); }
  void SetProgressSource(session::EventLoop::ProgressSource source) {
    event_loop_->SetProgressSource(WithGroups(std::move(source)));
  }
  // As a source that always returns `last`, but for the groups.
  void SetLastProgress(protocol::Progress last) {
    event_loop_->ReplaceProgressSource(
        WithGroups([last = std::move(last)] { return last; }));
  }

  // --- Passes, in negotiated mode; see event_loop.h ---
  void Announce(protocol::Announce announce) {
    event_loop_->Announce(std::move(announce));
  }
  void Submitted(uint64_t pass, uint32_t parameter) {
    event_loop_->Submitted(pass, parameter);
  }
  // Digests of the values that this rank begins with; at most once.
  void ReportValueDigests(protocol::ValueDigests values) {
    event_loop_->Post(session::ReportValueDigests{std::move(values)});
  }
  void SetDecisionSink(session::EventLoop::DecisionSink sink) {
    event_loop_->SetDecisionSink(std::move(sink));
  }
  void SetViewListener(session::EventLoop::ViewListener listener) {
    event_loop_->SetViewListener(std::move(listener));
  }
  // The last step of all ranks has passed, because of `command` if set. Leave
  // reports it.
  void NoteLastStep(std::optional<Command> command);
  // All ranks have passed a verdict with which the job grows: they report, and
  // the coordinator ends the epoch. `why` is the status until then.
  void NoteGrowth(const absl::Status& why, protocol::EpochReport report);

  // For one checkpointer.
  session::CheckpointChannel& checkpoints() { return checkpoints_; }
  // True for one call, until ReturnCheckpoints: the checkpointer that uses the
  // channel, and below it.
  bool TakeCheckpoints() { return !checkpoints_taken_.exchange(true); }
  void ReturnCheckpoints() { checkpoints_taken_ = false; }
  // The nonce of the last directory that it has opened, or tried to.
  std::string& checkpoint_nonce() { return checkpoint_nonce_; }
  // Called by a clean Leave before the worker leaves; empty: nothing.
  void SetBeforeLeave(std::function<void()> call);

  // --- Failures ---

  // Reports to the coordinator the peer that a data-plane error names, if it
  // names one (client/transport/failed_peer.h). `group`: the world ranks of its
  // communicator. Does not block.
  void ReportPeerFailure(absl::Span<const int> group,
                         const absl::Status& error);

  // The cause behind a data-plane error: blocks until the epoch has ended and
  // returns the reason. If the coordinator does not end it within the resume
  // timeout plus one second, this rank does, with `call` and `error`.
  absl::Status Explain(const std::string& call, const absl::Status& error);

  // A step call failed on this rank: ends the epoch, here at once and for all.
  void ReportFailure(uint64_t step, const std::string& call,
                     const absl::Status& failure);

  // --- After the end of the epoch (recovery.cc) ---

  // Runs this rank's steps: GradientSync's functions for Leave and Recover.
  struct StepOwner {
    // The step's gradients are reduced, and no other step was begun.
    std::function<absl::StatusOr<Verdict>(const std::string& verdict)>
        roll_forward;
    // The verdict's bytes of the last step that this rank has passed.
    std::function<std::string()> last_verdict;
    // FailedPrecondition while something of the steps may still run.
    std::function<absl::Status()> may_recover;
  };
  // The owner calls Quiesced once the epoch has ended.
  void SetStepOwner(std::shared_ptr<const StepOwner> owner);
  void RemoveStepOwner();
  // This rank passes no verdict any more.
  void Quiesced(protocol::EpochReport report);
  absl::StatusOr<Recovery> Recover();
  // The ranks that hold the state that the epoch begins with.
  const std::vector<uint32_t>& holders() const { return formed_->holders; }
  // The epoch before had another number of ranks.
  bool resized() const;

  // --- For the public class ---
  uint64_t BeginBusy(const std::string& reason, absl::Duration max);
  void EndBusy(uint64_t scope);
  absl::Status Leave(bool clean, const std::string& reason);
  // The step of the newest progress report.
  uint64_t step() const { return event_loop_->step(); }
  // Messages sent to the coordinator in total.
  uint64_t messages_sent() const { return event_loop_->messages_sent(); }

 private:
  class Checkpoints final : public session::CheckpointChannel {
   public:
    explicit Checkpoints(Impl* session) : session_(session) {}
    void Report(const protocol::CheckpointReport& report) override;
    absl::StatusOr<protocol::CheckpointNews> Await(
        absl::FunctionRef<bool(const protocol::CheckpointNews&)> holds,
        absl::Time deadline) override;

   private:
    Impl* const session_;
  };

  Impl(const JoinOptions& options, Parts& parts,
       std::vector<std::unique_ptr<session::ControlChannel>> channels);
  // Blocks until an epoch is formed.
  absl::Status Form(Parts& parts);
  void WatchProcesses();
  void OnProcessNews(int rank, transport::ProcessNews news,
                     const absl::Status& why);

  session::EventLoop::ProgressSource WithGroups(
      session::EventLoop::ProgressSource source);
  // Gives the groups and halos their communicators, out of those of the plan.
  absl::Status ConnectDeclared(
      const plan::Plan& plan,
      session::GroupRegistry::Communicators* communicators);
  // The cause of an error of a group's communicator.
  absl::Status ExplainGroup(const std::vector<int>& ranks,
                            const std::string& call, const absl::Status& error);
  std::string DifferentCallsText(const std::vector<int>& ranks,
                                 const std::string& call,
                                 const absl::Status& error) const;

  // Fetches and checks the announced plan; retries transient errors.
  absl::StatusOr<plan::Plan> FetchPlan();
  absl::StatusOr<plan::Plan> FetchOnce(const std::string& digest,
                                       absl::FunctionRef<bool()> cancelled);
  absl::Status CheckPlan(const plan::Plan& plan,
                         const session::View& announced) const;
  // OK once `holds` is true or the deadline has passed; else the reason why
  // neither will happen.
  absl::Status AwaitUnlessOver(
      absl::FunctionRef<bool(const session::View&)> holds,
      absl::Time deadline = absl::InfiniteFuture());
  absl::Duration ExplanationTimeout(const absl::Status& error) const;
  absl::Status Unanswered(const absl::Status& error) const;
  absl::Status growth() const {
    MutexLock lock(&mutex_);
    return growth_;
  }
  // The state at the end of the epoch. FailedPrecondition if it lives, or was
  // left; DeadlineExceeded if the job grows, and the end is not heard.
  absl::StatusOr<std::shared_ptr<const session::View>> AwaitEnd();
  // Each replica along the elastic axis holds the same state.
  bool FitsAnyWorld() const;
  // This rank's state is that after `step` steps.
  bool HoldsStateAt(uint64_t step) const;
  bool IsHeld(const std::vector<uint32_t>& holders) const;
  // The kind of `recovery`, whose numbers are set; of a rank that holds the
  // state.
  absl::StatusOr<Recovery> CarryOut(const protocol::RecoveryDecision& decision,
                                    Recovery recovery);
  // Ends the epoch and returns the reason once it has ended.
  absl::Status FailHere(uint64_t step, const std::string& call,
                        const absl::Status& failure);

  const JoinOptions options_;
  const std::shared_ptr<Clock> clock_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Arena> arena_;
  const int uncaught_exceptions_at_creation_ = std::uncaught_exceptions();
  std::shared_ptr<const session::View> formed_;  // when the epoch was formed
  JobSpec spec_;                                 // of this epoch
  std::optional<PlanInEffect> pipeline_;         // from Connect until taken

  const std::shared_ptr<executor::LaneTraffic> traffic_ =
      std::make_shared<executor::LaneTraffic>();
  session::GroupRegistry groups_;
  session::HaloRegistry halos_;
  session::StateRegistry state_;
  Checkpoints checkpoints_{this};
  std::atomic<bool> checkpoints_taken_ = false;
  std::string checkpoint_nonce_;

  mutable Mutex mutex_;
  // The plan that was fetched last, until it is accepted.
  std::string fetched_digest_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::string> fetched_bytes_ ABSL_GUARDED_BY(mutex_);
  // AgreeOnPlan was called.
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, protocol::Busy> busy_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_busy_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Command> last_command_ ABSL_GUARDED_BY(mutex_);
  bool last_step_passed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status growth_ ABSL_GUARDED_BY(mutex_);  // why the epoch is to end
  std::function<void()> before_leave_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const StepOwner> step_owner_ ABSL_GUARDED_BY(mutex_);
  std::string last_verdict_ ABSL_GUARDED_BY(mutex_);  // of the step owner
  std::optional<protocol::EpochReport> report_ ABSL_GUARDED_BY(mutex_);
  bool recovered_ ABSL_GUARDED_BY(mutex_) = false;
  // The epoch had ended before its last step when Leave was called.
  bool leaves_too_late_ ABSL_GUARDED_BY(mutex_) = false;

  std::unique_ptr<session::EventLoop> event_loop_;
  // Posts to the loop; may be null. Destroyed first.
  const std::unique_ptr<transport::ProcessWatch> process_watch_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_SESSION_SESSION_IMPL_H_
