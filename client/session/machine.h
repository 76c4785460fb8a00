// The pure state machine of one session: join, plan, run, resume, leave.
//
// Step() takes one event and the time and returns the effects to perform; the
// event loop (event_loop.h) owns the threads and the streams. The machine does
// not depend on gRPC, protobuf, a thread or a clock.
//
//   joining ─EpochFormed▶ formed ─PlanReady▶ planned ─Start▶ running
//      │                    └─────────┬─────────┴──────────────┘
//      │ Refused,                     │ EpochEnded, a local failure,
//      │ no coordinator               │ proof of a member's death
//      ▼                              ▼
//   failed                          ended ──Leave──▶ left
//
// A lost stream does not change the phase: training continues without the
// coordinator, and the next stream resumes. Messages that the coordinator
// repeats are idempotent; messages of this worker that the coordinator may not
// have received are sent again (unacked_messages.h).
//
// Composed of: reconnector.h (streams), heartbeat_sender.h (progress,
// heartbeats), unacked_messages.h, passes.h (negotiated mode),
// checkpoint_reporter.h.
//
// Threads: not thread-safe; the session's loop thread is the only caller.
// Errors:  Step cannot fail. View::status has the final error.

#ifndef LOCKSTEP_CLIENT_SESSION_MACHINE_H_
#define LOCKSTEP_CLIENT_SESSION_MACHINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/session/checkpoint_reporter.h"
#include "client/session/event.h"
#include "client/session/heartbeat_sender.h"
#include "client/session/passes.h"
#include "client/session/reconnector.h"
#include "client/session/unacked_messages.h"
#include "client/session/view.h"
#include "lockstep/job_spec.h"

namespace lockstep::session {

struct MachineOptions {
  JobName job;
  WorkerName worker;
  uint64_t incarnation = 0;  // Hello::incarnation
  std::optional<JobSpec> spec;
  std::string token;
  protocol::ProcessInfo process;
  std::optional<protocol::Launch> launch;
  std::optional<protocol::HeldState> held;
  std::string watch_address;  // Hello::watch_address
  // HOST:PORT each, at least one; streams are opened to them in turn.
  std::vector<std::string> addresses;
  // A session that needs a coordinator fails after this long without one: one
  // that was never welcomed, or that waits for an epoch, a plan or the start.
  absl::Duration connect_timeout = absl::Seconds(30);
  // A stream that is not welcomed within this time is closed.
  absl::Duration welcome_timeout = absl::Seconds(5);
  absl::Duration backoff_initial = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Milliseconds(300);
  // The least time between two messages of Progress, Busy or Heartbeat.
  absl::Duration progress_interval = absl::Milliseconds(100);
  // The time that leaving waits for the answer of a coordinator that is there.
  absl::Duration leave_timeout = absl::Seconds(2);
  // The time that a clean Leave waits in all: a coordinator that is down, and
  // restarts, must know that the worker is done.
  absl::Duration leave_outage_timeout = absl::Minutes(2);
  uint64_t jitter_seed = 0;
};

class Machine {
 public:
  explicit Machine(const MachineOptions& options);

  // Applies one event. Calls must carry non-decreasing times.
  Effects Step(absl::Time now, const Event& event);

  // When Step(DeadlineExpired) could do something; InfiniteFuture if only an
  // event can.
  absl::Time NextWake() const;

  const View& view() const { return view_; }
  // Grows with every change of the view.
  uint64_t changes() const { return changes_; }

 private:
  void On(const Begin&);
  void On(const StreamOpened& event);
  void On(const StreamMessage& event);
  void On(const StreamClosed& event);
  void On(const DeadlineExpired&) {}
  void On(const RegisterAll& event);
  void On(const AcceptPlan& event);
  void On(const OfferHandles& event);
  void On(const DataPlaneConnected& event);
  void On(const AnnouncePass& event);
  void On(const SubmitInPass& event);
  void On(const OfferOrder& event);
  void On(const ReportValueDigests& event);
  void On(const ReportCheckpoint& event);
  void On(const Moved& event) { heartbeats_.Moved(event.progress); }
  void On(const BusyChanged& event) { heartbeats_.SetBusy(event.busy); }
  void On(const PeerFailed& event);
  void On(const FailLocally& event);
  void On(const Quiesced& event);
  void On(const LeaveNow& event);

  void Receive(EpochId epoch, const protocol::Welcome& welcome);
  void Receive(EpochId epoch, const protocol::Refused& refused);
  void Receive(EpochId epoch, const protocol::EpochFormed& formed);
  void Receive(EpochId epoch, const protocol::PlanReady& ready);
  void Receive(EpochId epoch, const protocol::GroupHandles& group);
  void Receive(EpochId epoch, const protocol::Start&);
  void Receive(EpochId epoch, const protocol::EpochEnded& ended);
  void Receive(EpochId epoch, const protocol::Left&);
  void Receive(EpochId epoch, const protocol::DesiredCommands& wanted);
  void Receive(EpochId epoch, const protocol::OrderWanted& order);
  void Receive(EpochId epoch, const protocol::Decide& decide);
  void Receive(EpochId epoch, const protocol::Warning& warning);
  void Receive(EpochId epoch, const protocol::CheckpointNews& news);
  void Receive(EpochId epoch, const protocol::RecoveryDecision& decision);
  void Receive(EpochId epoch, const protocol::PlanWanted& wanted);
  void Receive(EpochId epoch, const protocol::RegistrationWanted&);

  // Time-driven actions: opening and closing streams, deadlines, heartbeats.
  void SendDue();

  // Sends the message if a stream is welcomed; else the next Welcome sends it.
  void State(protocol::ToCoordinatorBody body);
  void Send(protocol::ToCoordinatorBody body);
  void SendCheckpointReport();
  // The coordinator (LoseStream) or this side (DropStream) ends the stream.
  void LoseStream(absl::Status why);
  void DropStream(absl::Status why);

  void EndEpoch(absl::Status status);
  void Fail(absl::Status status);
  void Leave(absl::Status status);
  // Closes the stream and opens no other.
  void EndStream();

  // The session is in a final state.
  bool Gone() const {
    return view_.phase == SessionPhase::kLeft ||
           view_.phase == SessionPhase::kFailed;
  }
  bool InEpoch() const;
  bool Negotiates() const {
    return view_.phase == SessionPhase::kRunning &&
           view_.spec->sync == SyncMode::kNegotiated;
  }
  bool NeedsCoordinator() const { return view_.phase < SessionPhase::kRunning; }
  protocol::Hello MakeHello() const;
  protocol::ResumeState MakeResumeState() const;
  absl::Status NoCoordinator() const;
  View& Change();

  const MachineOptions options_;
  View view_;
  uint64_t changes_ = 0;
  Reconnector reconnector_;
  HeartbeatSender heartbeats_;
  UnackedMessages unacked_;
  CheckpointReporter checkpoints_;
  Passes passes_;
  // Incomplete handle lists: the last message is still missing.
  std::map<int, std::vector<std::string>> pieces_;
  LeaderTerm term_;                       // the highest received
  std::string secret_;                    // from the newest Welcome with one
  std::vector<uint32_t> observed_order_;  // of the plan that was acknowledged
  bool hung_up_ = false;
  absl::Status last_close_;                         // of a stream
  bool said_unfit_ = false;                         // since the last welcome
  absl::Time give_up_at_ = absl::InfiniteFuture();  // finding a coordinator
  absl::Time leave_by_ = absl::InfiniteFuture();
  absl::Time leave_deadline_ = absl::InfiniteFuture();  // whatever happens
  absl::Duration leave_patience_;                       // until then

  absl::Time now_;   // of the Step in progress
  Effects effects_;  // of the Step in progress
};

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_MACHINE_H_
