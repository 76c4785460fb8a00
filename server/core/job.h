// One job: from the first worker's arrival to its end.
//
//                    enough have    all have      all are
//                    arrived        registered    connected
//   Forming ────────▶ Sealed ─────▶ Planned ─────▶ Running ──▶ Completed
//      ▲                 └─────────────┴──────────────┤  all left cleanly
//      │ first worker rejoins                         ▼
//      ├───────────────────────────────────────── EpochEnded ──▶ Failed
//      └── all left by an operator's drain            budget is spent
//   StopJob in any state, all left by an operator's stop ──▶ Stopped
//
// A live epoch handles the messages of its members (epoch.h). This class
// decides who its members are, and what follows its end. Its methods are
// divided into files by subject:
//
//   job.cc           the states above and the endings
//   job_forming.cc   arrivals, and when an epoch forms
//   job_waiting.cc   workers that wait while an epoch lives
//   job_members.cc   joining and resuming
//   job_losses.cc    broken streams, evidence, leaving
//   job_commands.cc  an operator's commands to a running job
//   job_clock.cc     deadlines
//   job_recovery.cc  from the end of an epoch to the next one's state
//   job_revive.cc    restarts of the coordinator, and adopted jobs
//   job_view.cc      the view for operators
//
// State that must survive a crash is in DurableJob, which changes only by
// records (durable_state.h); workers send everything else again.
//
// Threads: none. Errors: none; see coordinator.h.

#ifndef LOCKSTEP_SERVER_CORE_JOB_H_
#define LOCKSTEP_SERVER_CORE_JOB_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "plan/ir.h"
#include "protocol/job_command.h"
#include "protocol/job_view.h"
#include "protocol/protocol.h"
#include "server/core/admission.h"
#include "server/core/checkpoint_history.h"
#include "server/core/deadlines.h"
#include "server/core/durable_state.h"
#include "server/core/epoch.h"
#include "server/core/event.h"
#include "server/core/event_context.h"
#include "server/core/formation.h"
#include "server/core/job_log.h"
#include "server/core/join_rate.h"
#include "server/core/link_history.h"
#include "server/core/measurements.h"
#include "server/core/recovery_tracker.h"
#include "server/core/restart_budget.h"
#include "server/core/roster.h"

namespace lockstep::core {

class Job {
 public:
  // `durable` must outlive it and belongs to this job's name.
  Job(const DurableJob& durable, absl::Duration stopped_after);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Handles a Hello for this job, on a stream that is not bound to another
  // worker. Binds the stream or refuses it.
  void OnHello(SessionId session, const protocol::Hello& hello,
               EventContext& context);
  // Handles any other message, on a stream that is bound to `worker`.
  void Receive(SessionId session, const WorkerName& worker,
               const protocol::ToCoordinator& message, EventContext& context);
  void StreamClosed(SessionId session, const WorkerName& worker,
                    const std::string& why, EventContext& context);
  // `reporter`: the reporting worker; empty if the reporter is no worker.
  void OnEvidence(const protocol::Evidence& evidence,
                  const WorkerName& reporter, EventContext& context);
  void Stop(const std::string& reason, EventContext& context);
  // FailedPrecondition, with no change, if the job cannot obey now. The job
  // must not be over. `by`: who asks (Requester::name).
  absl::Status ApplyCommand(JobCommand command, const std::string& reason,
                            const std::string& by, EventContext& context);
  // Adds a line to the history and to the event log.
  void Remember(std::string text, EventContext& context) {
    log_.Remember(std::move(text), context);
  }

  // The result of a compilation requested by this job; ignored if it is no
  // longer needed.
  void Take(const Compiled& event, EventContext& context);
  // Unbinds all streams of a job that is over, before it is archived or
  // deleted.
  void UnbindAll(EventContext& context);

  // --- Time ---
  void Wake(EventContext& context);
  absl::Time NextWake() const;
  // The coordinator ran `late` after its wake time. If that is long, silence in
  // this time does not count against any worker.
  void NoteLate(absl::Duration late, absl::Time now);
  // NoteLate ignores delays up to this.
  absl::Duration late_min() const { return stopped_after_; }
  // After a replay: restarts the timers of a live epoch, so that its members
  // may resume.
  void Revive(absl::Time now);
  // The same after record::JobAdopted, for the members that offered the job.
  void BeginAdopted(EventContext& context);
  // Refuses all workers, because another job of this name was adopted.
  void TurnAway(const absl::Status& why, EventContext& context);
  // Delays the first epoch until `when` at least. `why` completes the status
  // text: "for running jobs to ...". Never moves the time back. The job must
  // not have begun.
  void DelayFirstEpoch(absl::Time when, const std::string& why);
  // The worker trains in another job of this name, unknown to every
  // coordinator. Noted once for each epoch of such a job.
  void NoteForeign(const protocol::Hello& hello, EventContext& context);

  // --- Questions ---
  const JobSpec& spec() const { return durable_.spec; }
  JobState state() const { return epoch_ ? epoch_->state() : state_; }
  bool over() const { return durable_.ended.has_value(); }
  // It has had an epoch, or is over: no adopted job can replace it.
  bool has_begun() const { return durable_.epoch.value != 0 || over(); }
  // `hello` resumes in an epoch that this job never had, so it belongs to
  // another job of this name. `hello.resume` must be set.
  bool IsForeign(const protocol::Hello& hello) const;
  // "job digits is over: it failed: ...". Must be over.
  absl::Status Over() const;
  JobView Describe(absl::Time now) const;
  JobSummary Summary() const;
  JobMeasurements Measure(absl::Time now) const;
  std::shared_ptr<const plan::Plan> FindPlan(const std::string& digest) const;

 private:
  // A lost worker, and how: "died: killed by signal 9".
  struct Loss {
    Worker* worker;
    std::string what;
  };

  // --- Forming (job_forming.cc) ---
  void Arrive(Worker* worker, EventContext& context);
  // With the state that they hold.
  std::vector<ArrivedWorker> Arrived(bool also_suspects = false) const;
  void TryForm(EventContext& context);
  void TryFormSmaller(std::vector<protocol::Member> members,
                      EventContext& context);
  bool FormAtDeadline(EventContext& context);
  bool FirstEpochIsDelayed(absl::Time now) const;
  std::string WhyDelayed(absl::Time now) const;
  void Form(std::vector<protocol::Member> members, EventContext& context);
  record::EpochBegan BeginningOf(
      EpochId id, const std::vector<protocol::Member>& members) const;

  // --- Waiting workers (job_waiting.cc) ---
  std::string WhoWaits() const;
  void BeginWaiting(const Worker& worker, EventContext& context);
  bool MayGrow() const;
  int WorldIfGrown(bool also_suspects) const;
  // Wants growth, or withdraws the wish, as the waiting workers allow.
  void ReviseGrowth(EventContext& context);
  void EndGrown(const Worker& worker, EventContext& context);

  // --- States and endings (job.cc) ---
  void EndEpoch(EpochEnd end, EventContext& context);
  // The rank that goes because of its bad links, if it is time.
  std::optional<int> WorstLinked(const protocol::Cause& cause, absl::Time now);
  // Ends the epoch if a part of it says so.
  void EndIf(std::optional<EpochEnd> end, EventContext& context);
  void EndJob(record::JobOutcome outcome, protocol::Cause cause,
              EventContext& context);
  void TellTheEnd(const protocol::Cause& cause, EventContext& context);
  void TellWaiting(const protocol::Cause& cause, EventContext& context);
  void SendAway(std::set<WorkerName> workers, const protocol::Cause& cause,
                EventContext& context);
  void AwaitNextEpoch(absl::Time now);

  // --- Operator commands (job_commands.cc) ---
  absl::Status Rebuild(const std::string& asked, EventContext& context);
  bool MayTrain() const;
  void Want(protocol::DesiredCommands wanted, EventContext& context);
  void DrainAtOnce(EventContext& context);
  void EndAfterLastStep(std::optional<Command> command, EventContext& context);

  // --- Deadlines (job_clock.cc) ---
  bool TrainsUnheard(Worker* worker, absl::Time lived, EventContext& context);
  absl::Time SecondLeaseOfAll(absl::Time now) const;
  void ExpireLeases(EventContext& context);
  void ExpireResumes(EventContext& context);
  void MissJoinDeadline(EventContext& context);

  // --- Joining and resuming (job_members.cc) ---
  void GreetAfterEnd(SessionId session, const protocol::Hello& hello,
                     EventContext& context);
  void BeginLife(SessionId session, const protocol::Hello& hello,
                 EventContext& context);
  void ContinueLife(SessionId session, const protocol::Hello& hello,
                    EventContext& context);
  std::string GiveSecret(const WorkerName& worker, Generation generation,
                         uint64_t incarnation, EventContext& context);
  void Attach(Worker* worker, SessionId session, const protocol::Hello& hello,
              protocol::Welcome welcome, EventContext& context);

  // --- Leaving and losses (job_losses.cc) ---
  void Detach(Worker* worker, absl::Status why, EventContext& context);
  void Lose(protocol::CauseKind kind, const std::vector<Loss>& losses,
            EventContext& context);
  void LoseIfUnreachable(Worker* worker, EventContext& context);
  void AddProof(const protocol::Evidence& evidence, const Worker* subject,
                EventContext& context);
  // Proof about the workers of the cause that `message` does not contain.
  std::string AddedProof(const std::string& message) const;
  void NoteStranger(const protocol::Evidence& evidence, const Worker* subject,
                    EventContext& context);
  void ForgetDeadlineIfNobodyIsHere();
  void On(Worker* worker, const protocol::Leave& message,
          EventContext& context);
  // --- Recovery (job_recovery.cc) ---
  std::vector<int> LostBefore() const;
  void AwaitReports(const std::vector<int>& lost, absl::Time now);
  void On(const Worker& worker, const protocol::EpochReport& message,
          EventContext& context);
  void EndWith(const Worker& worker, EventContext& context);
  // No report of the worker will come.
  void NoteUnfinished(const Worker& worker, const protocol::Position& position,
                      EventContext& context);
  void ForgetReport(const WorkerName& worker, EventContext& context);
  void ForgetReturn(const Worker& worker, EventContext& context);
  // The worker comes without a report to give.
  void JoinAgain(Worker* worker, EventContext& context);
  // Decides once no member is awaited, and forms an epoch if it can.
  void Settle(EventContext& context);
  void Decide(EventContext& context);
  void ForgetTheAbsent(EventContext& context);
  // With on_stuck: evict, members that have not joined again in time.
  void EvictTheHung(EventContext& context);
  std::vector<StallView> Hung(absl::Time now) const;
  void RecordFinished(const Worker& worker, const protocol::Leave& leave,
                      EventContext& context);
  // The last step is done: nobody is there to do another.
  bool AllHaveFinished() const;
  bool IsGone(const protocol::Member& member) const;
  void EndWithTheFinished(EventContext& context);
  void EndAfterRecovery(std::optional<Command> command, EventContext& context);
  // Present if the worker's claim agrees with the decision.
  std::optional<DecidedState> ClaimedState(const WorkerName& worker,
                                           const protocol::Hello& hello,
                                           EventContext& context);
  // Present if the worker has the state that the next epoch begins with.
  std::optional<int> HeldCell(const Worker& worker) const;

  // --- After a restart (job_revive.cc) ---
  void ReviveLeavers(absl::Time now);
  bool EndWasLost() const;
  void EndAfterRestart(EventContext& context);

  // --- Questions ---
  AdmissionState AdmissionStateOf(const WorkerName& worker) const;
  int RankOf(const Worker& worker) const;  // -1: no member of a living epoch
  bool IsMember(const Worker& worker) const { return RankOf(worker) >= 0; }
  std::string WhoIs(const Worker& worker) const;
  // The most steps that any worker is known to have committed, in all epochs.
  uint64_t committed() const;
  // JobMeasurements::stepped_at
  absl::Time stepped_at() const;
  WorkerView View(const Worker& worker, absl::Time now) const;

  // --- Effects ---
  void SendTo(const Worker& worker, protocol::ToWorkerBody body,
              EventContext& context);
  JobName name() const { return durable_.name(); }

  const DurableJob& durable_;
  const absl::Duration stopped_after_;
  JobState state_ = JobState::kForming;  // without an epoch
  Roster roster_;
  Deadlines<WorkerName> leases_;   // of workers that hold a rank
  Deadlines<WorkerName> resumes_;  // of the suspect
  absl::Time join_by_ = absl::InfiniteFuture();
  absl::Time pulse_ = absl::InfiniteFuture();
  absl::Time first_epoch_from_ = absl::InfinitePast();
  std::string why_delayed_;
  // When all workers have arrived and wait for first_epoch_from_.
  absl::Time form_at_ = absl::InfiniteFuture();
  absl::Time ended_at_ = absl::InfinitePast();  // the newest epoch
  // When the job goes on with fewer workers: elastic.wait after ended_at_.
  absl::Time shrink_at_ = absl::InfiniteFuture();
  // When growth is wanted, unless another worker arrives.
  absl::Time grow_at_ = absl::InfiniteFuture();
  JobLog log_;
  CheckpointHistory checkpoints_;
  std::optional<Epoch> epoch_;  // while it lives
  // Ids of the launches that a drain has sent away, until the next epoch.
  std::set<std::string> drained_launches_;
  // From the end of an epoch to the next one.
  std::optional<RecoveryTracker> recovery_;
  // After a restart: members that are not here then are not awaited any more.
  absl::Time reports_by_ = absl::InfiniteFuture();
  // When a member of the ended epoch that lives and has not joined again is
  // stuck.
  absl::Time returns_by_ = absl::InfiniteFuture();
  // As committed(), without the live epoch; the next epoch begins there.
  uint64_t step_ = 0;
  // The same of stepped_at().
  absl::Time stepped_at_ = absl::InfinitePast();
  // How the lost workers of the last epoch's cause died, as far as it became
  // known after the epoch's end.
  std::map<WorkerName, std::string> proofs_;
  RestartBudget budget_;
  JoinRate joins_;
  LinkHistory links_;
  // The epochs of other jobs of this name that were noted.
  std::set<std::string> foreign_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_JOB_H_
