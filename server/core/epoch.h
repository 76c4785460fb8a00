// A live epoch: its members, and everything that they do together.
//
//   sealed    members register             ──▶ the plan is compiled
//   planned   they connect (ConnectStage)  ──▶ Start
//   running   they train                   ──▶ all leave
//
// An epoch receives the messages of its members, by rank, and the time. If it
// must end, it returns an EpochEnd, and its job ends it; an epoch never
// destroys itself. It does not know of leases, joining or restarts of the job.
//
// Each part owns its state and handles the messages about it:
//
//   Registry           registrations
//   ConnectStage       the plan's acknowledgements, handles, connections
//   PlanRevisions      the plan and its later revisions
//   PlanRecall         the plan, after a restart of the coordinator
//   Negotiation        passes, in negotiated mode
//   StepMonitor        progress, lags, differing values
//   CheckpointTracker  the checkpoints' directory, saves
//   Departures         ranks that left, and broken connections
//
// This class composes them. Its methods are divided into files by subject:
//
//   epoch.cc          messages, from registrations to steps; deadlines
//   epoch_leaving.cc  leaving and broken connections
//   epoch_resume.cc   new streams, and restarts of the coordinator
//   epoch_view.cc     late and stuck ranks; the view for operators
//
// Threads: none. Errors: none.

#ifndef LOCKSTEP_SERVER_CORE_EPOCH_H_
#define LOCKSTEP_SERVER_CORE_EPOCH_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "plan/ir.h"
#include "protocol/job_view.h"
#include "protocol/protocol.h"
#include "server/core/checkpoint_tracker.h"
#include "server/core/connect_stage.h"
#include "server/core/departures.h"
#include "server/core/epoch_context.h"
#include "server/core/event.h"
#include "server/core/members.h"
#include "server/core/negotiation.h"
#include "server/core/plan_recall.h"
#include "server/core/plan_revisions.h"
#include "server/core/pre_replay_buffer.h"
#include "server/core/registry.h"
#include "server/core/step_monitor.h"
#include "server/core/waits.h"

namespace lockstep::core {

class Epoch {
 public:
  // The newest epoch of `durable`, which must be live. The references must
  // outlive it.
  Epoch(const DurableJob& durable, Roster& roster, JobLog& log,
        CheckpointHistory& history, absl::Time now);
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  // --- Messages ---

  // Handles a member's message about the epoch; other messages are ignored.
  std::optional<EpochEnd> Receive(int rank,
                                  const protocol::ToCoordinatorBody& body,
                                  EventContext& event);
  // The result of a compilation; ignored if this epoch did not request it.
  std::optional<EpochEnd> Take(const Compiled& compiled, EventContext& event);
  // FailedPrecondition, with no change, if the buckets cannot be rebuilt now.
  absl::Status RebuildNow(EventContext& event);
  void SendAll(const protocol::ToWorkerBody& body, EventContext& event);

  // --- Members (epoch_resume.cc) ---

  // Tells every member that the epoch is formed.
  void Announce(EventContext& event);
  // The member has a new stream. Sends everything that it should know again;
  // handling is idempotent.
  std::optional<EpochEnd> Resume(int rank, const protocol::Hello& hello,
                                 EventContext& event);
  // The member's stream broke; it may resume.
  void LoseStream(int rank, EventContext& event);

  // --- Leaving and broken connections (epoch_leaving.cc) ---

  // Records the member's Leave, before it is answered.
  void RecordLeave(int rank, const protocol::Leave& leave, EventContext& event);
  // The same once it is answered and the worker has left.
  std::optional<EpochEnd> Leave(int rank, const protocol::Leave& leave,
                                EventContext& event);
  // The coordinator has restarted: positions are those of reports from now on.
  void Revive() { is_revived_ = true; }
  // After a restart: the rank had left cleanly.
  void RestoreLeft(int rank, uint64_t steps);
  // A hint about a worker that is still here.
  std::optional<EpochEnd> Accuse(const protocol::Evidence& evidence,
                                 const WorkerName& reporter,
                                 EventContext& event);
  // A hint about a worker that has gone.
  std::optional<EpochEnd> AccuseLeaver(const protocol::Evidence& evidence,
                                       const WorkerName& reporter,
                                       EventContext& event);

  // --- Time ---

  // `may_resume`: a worker without a stream may still resume.
  std::optional<EpochEnd> Wake(bool may_resume, EventContext& event);
  absl::Time NextWake() const;
  // Restarts all deadlines: the coordinator was not running for a while.
  void BeginAnew(absl::Time now);

  // --- Questions ---

  const Members& members() const { return members_; }
  const Mesh& mesh() const { return mesh_; }
  // Sealed, planned or running.
  JobState state() const;
  // Members may commit steps.
  bool MayTrain() const;
  bool all_left() const { return departures_.all_left(); }
  bool any_left() const { return departures_.count() > 0; }
  // The most steps that a member is known to have committed.
  uint64_t committed() const { return committed_; }
  // When all ranks are known to have lived last: ProgressTracker::advanced.
  absl::Time advanced() const { return progress().advanced(); }
  // The furthest step in progress; nullopt before the start.
  std::optional<uint64_t> FurthestStep() const;
  bool IsConnected(int rank) const {
    return started_ || (connecting_ && connecting_->IsConnected(rank));
  }
  // The plan, if this is its digest.
  std::shared_ptr<const plan::Plan> FindPlan(const std::string& digest) const {
    return revisions_.Find(digest);
  }
  // "at step 412 while computing", or "last reported" there with its age.
  std::string WhereIs(int rank, absl::Time now) const;
  // Both fill in what the epoch knows.
  void Describe(absl::Time now, JobView* view) const;
  void Describe(int rank, absl::Time now, WorkerView* view) const;
  // Members that stall the others: those of JobView::stalls, and more.
  int CountStalled(absl::Time now) const;

 private:
  EpochContext With(EventContext& event) {
    return {durable_, members_, steps_.progress(), log_, event};
  }
  protocol::EpochFormed Formed(int rank) const;
  const JobSpec& spec() const { return durable_.spec; }
  const ProgressTracker& progress() const { return steps_.progress(); }

  // --- Messages ---
  std::optional<EpochEnd> Receive(int rank,
                                  const protocol::ToCoordinatorBody& body,
                                  EpochContext& context);
  std::optional<EpochEnd> Deliver(int rank,
                                  const protocol::ToCoordinatorBody& body,
                                  EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::RegisterChunk& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::PlanAck& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::PublishHandles& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Connected& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::ReadyOrder& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Progress& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::ValueDigests& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank,
                             const protocol::CheckpointReport& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Busy& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::LocalFailure& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Announce& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Submitted& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::Held& message,
                             EpochContext& context);
  std::optional<EpochEnd> On(int rank, const protocol::PlanPart& message,
                             EpochContext& context);
  template <typename Message>
  std::optional<EpochEnd> Negotiate(int rank, const Message& message,
                                    EpochContext& context);
  absl::Status CheckDataPlane() const;
  void CompilePlan(EpochContext& context);
  std::optional<EpochEnd> AdoptPlan(const CompiledPlan& compiled,
                                    EpochContext& context);
  void Start(EpochContext& context);
  void WarnOfWhatIsKnown(bool at_once, EpochContext& context);

  // --- Leaving ---
  std::optional<EpochEnd> EndIfLeaverIsMissed(
      const EpochContext& context) const;
  EpochEnd EndByLeaver(int rank, const EpochContext& context) const;

  // --- New streams and restarts ---
  void Restate(int rank, EpochContext& context);
  std::optional<EpochEnd> ResumePasses(int rank, const protocol::Hello& hello,
                                       EpochContext& context);
  bool HasStarted(const protocol::Hello& hello) const;
  bool HoldsPlan(const protocol::Hello& hello) const;
  std::optional<EpochEnd> TakeRecalled(const Compiled& checked,
                                       EpochContext& context);
  bool NeedsPlan(const protocol::ToCoordinatorBody& body) const;
  std::optional<EpochEnd> KeepEarly(int rank,
                                    const protocol::ToCoordinatorBody& body,
                                    EpochContext& context);
  std::optional<EpochEnd> ReceiveEarly(EpochContext& context);
  bool MayRunForeignPlan() const;
  void RunForeignPlan(EpochContext& context);

  // --- Late and stuck ranks ---
  void NameLate(EpochContext& context);
  std::optional<EpochEnd> CallStuck(EpochContext& context);
  // All have registered and the plan is being compiled, or checked after a
  // restart: no rank can progress.
  bool AllWaitForPlan() const {
    return compiling_.value != 0 || recall_.is_checking();
  }
  Waits WhoWaits() const;
  // Ranks have waited for it longer than usual, and it waits for no rank.
  bool IsLate(int rank, const Waits& waits, absl::Time now) const;
  // "step 412: worker-3 (...) has not submitted layers.7.weight for 2.1s; 6
  // ranks wait".
  std::string BlameSentence(int rank, const Waits& waits, absl::Time now) const;
  // Ranks wait for the rank's part of a checkpoint, and `stuck` has one.
  bool IsStuck(int rank, absl::Time now) const;
  std::vector<int> StuckRanks(absl::Time now) const;
  std::vector<int> StalledRanks(const Waits& waits, absl::Time now) const;
  bool BlocksSave(int rank, const std::vector<int>& stuck) const;
  // What the current stage requires of every rank, as a rank lacks it.
  std::string Lack() const;
  bool HasDone(int rank) const;
  // "has not submitted w", if other ranks wait for it; else empty.
  std::string Unsaid(int rank, const Waits& waits) const;
  // What another rank waits for: the same, or "is at step 3 in the verdict".
  std::string Behind(int rank, const Waits& waits) const;
  // For how many passes each rank has done its part; empty without passes.
  std::vector<uint64_t> PassesDone() const;
  bool LagsInPass(int rank) const;

  const DurableJob& durable_;
  JobLog& log_;
  const Mesh mesh_;  // of its members
  Members members_;

  Registry registry_;
  // All have, and the plan is compiled or being so; or it was recalled.
  bool registered_ = false;
  CompilationId compiling_;  // of the registrations; 0: none
  PlanRecall recall_;
  // Ranks' messages about a plan that the restarted coordinator does not have
  // yet.
  std::map<int, PreReplayBuffer> early_;
  std::optional<ConnectStage> connecting_;  // from the plan
  PlanRevisions revisions_;
  std::optional<Negotiation> negotiation_;  // from the plan; negotiated mode
  // A later revision was adopted while steps ran. A restarted coordinator
  // learns it otherwise from a member that was started.
  bool started_ = durable_.revision.value > 1;
  bool is_revived_ = false;
  StepMonitor steps_;
  uint64_t committed_;
  CheckpointTracker checkpoints_;
  Departures departures_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EPOCH_H_
