// One job: from the first worker's arrival to its end.
//
//                    all ranks      all have      all are
//                    are there      registered    connected
//   Forming ────────▶ Sealed ─────▶ Planned ─────▶ Running ──▶ Completed
//      ▲                 └─────────────┴──────────────┤  all left cleanly
//      │ first comes again                            ▼
//      ├───────────────────────────────────────── EpochEnded ──▶ Failed
//      └── all left by an operator's drain            budget is spent
//   StopJob from anywhere, all left by an operator's stop ──▶ Stopped
//
// The parts answer questions; this class composes the answers. It is written in
// files by what they are about:
//
//   job.cc          the states above and the endings
//   job_members.cc  who comes
//   job_losses.cc   who goes: streams, evidence, leaving
//   job_stages.cc   what members say: registrations, plan, handles, progress
//   job_commands.cc what an operator asks of a running job
//   job_revisions.cc buckets cut anew while steps run
//   job_passes.cc   what members say of passes, in negotiated mode
//   job_clock.cc    what happens because time passed
//   job_revive.cc   what a restart of the coordinator forgot, or never knew
//   job_view.cc     what an operator sees
//
// What must survive a crash is in DurableJob, which changes only by records
// (durable.h); everything here is told anew by the workers.
//
// Threads: none. Errors: none; see coordinator.h.

#ifndef LOCKSTEP_SERVER_CORE_JOB_H_
#define LOCKSTEP_SERVER_CORE_JOB_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "plan/ir.h"
#include "plan/words/job_command.h"
#include "plan/words/job_view.h"
#include "plan/words/protocol.h"
#include "server/core/admission.h"
#include "server/core/deadlines.h"
#include "server/core/durable_state.h"
#include "server/core/effect_sink.h"
#include "server/core/epoch.h"
#include "server/core/event.h"
#include "server/core/history.h"
#include "server/core/restart_budget.h"
#include "server/core/roster.h"
#include "server/core/secret.h"
#include "server/core/waits.h"

namespace lockstep::core {

// One Step as a job sees it: what time it is, where to put effects, and where
// secrets come from.
struct StepContext {
  absl::Time now;
  EffectSink& out;
  SecretSource& secrets;
};

class Job {
 public:
  // `durable` must outlive it and belongs to this job's name.
  Job(const DurableJob& durable, absl::Duration stopped_after);

  // A Hello for this job, on a stream that speaks for nobody else. Binds the
  // stream or refuses.
  void Greet(SessionId session, const protocol::Hello& hello,
             StepContext& context);
  // Any other message, on a stream that is bound to `worker`.
  void Receive(SessionId session, const WorkerName& worker,
               const protocol::ToCoordinator& message, StepContext& context);
  void StreamClosed(SessionId session, const WorkerName& worker,
                    const std::string& why, StepContext& context);
  // `accuser`: who says so; empty if it is no worker.
  void Consider(const protocol::Evidence& evidence, const WorkerName& accuser,
                StepContext& context);
  void Stop(const std::string& reason, StepContext& context);
  // FailedPrecondition, and nothing changed: the job cannot do that now. Must
  // not be over.
  absl::Status Obey(JobCommand command, const std::string& reason,
                    StepContext& context);

  // What came of a compilation that it asked for; ignored if nothing waits for
  // it any more.
  void Take(const Compiled& event, StepContext& context);
  // It is over and will be archived or deleted: no stream speaks for it any
  // more.
  void LetGo(StepContext& context);

  // --- Time ---
  void Wake(StepContext& context);
  absl::Time NextWake() const;
  // The coordinator did not run for `late` beyond the moment it had asked for:
  // if that is long, nobody's silence counts.
  void NoteLate(absl::Duration late, absl::Time now);
  // What is not later than this is no news to NoteLate.
  absl::Duration late_min() const { return stopped_after_; }
  // After a replay: the members of a living epoch may resume from now on.
  void Revive(absl::Time now);
  // The same after record::JobAdopted: its members offered it.
  void BeginAdopted(StepContext& context);
  // Refuses the workers: another job of this name was adopted.
  void TurnAway(const absl::Status& why, StepContext& context);
  // The first epoch forms at `when` or later, because the job waits `why`: "for
  // running jobs to ...". Never moves the moment back. Must not have begun.
  void DelayFirstEpoch(absl::Time when, const std::string& why);
  // The worker trains in another job of this name, which no coordinator knows.
  // Noted once for each epoch of such a job.
  void NoteForeign(const protocol::Hello& hello, StepContext& context);

  // --- Questions ---
  const JobSpec& spec() const { return durable_.spec; }
  JobState state() const { return state_; }
  bool over() const { return durable_.ended.has_value(); }
  // It has had an epoch, or is over: no other job can take its place.
  bool has_begun() const { return durable_.epoch.value != 0 || over(); }
  // `hello` resumes in an epoch that this job never had: one of another job of
  // this name. Needs resume.
  bool IsForeign(const protocol::Hello& hello) const;
  // "job digits is over: it failed: ...". Must be over.
  absl::Status Over() const;
  JobView Describe(absl::Time now) const;
  JobSummary Summary() const;
  std::shared_ptr<const plan::Plan> FindPlan(const std::string& digest) const;

 private:
  enum class Again { kIfBudgetAllows, kNever, kWhenWorkersCome };

  // A worker, and what became of it: "died: killed by signal 9".
  struct Loss {
    Worker* worker;
    std::string what;
  };

  // --- States and endings (job.cc) ---
  void Arrive(Worker* worker, StepContext& context);
  void TryForm(StepContext& context);
  bool FirstEpochIsDelayed(absl::Time now) const;
  std::string WhyDelayed(absl::Time now) const;
  void Form(StepContext& context);
  void EndEpoch(protocol::Cause cause, Again again, StepContext& context);
  void EndJob(record::Outcome outcome, protocol::Cause cause,
              StepContext& context);
  void TellTheEnd(const protocol::Cause& cause, StepContext& context);
  void AwaitNextEpoch(absl::Time now);

  // --- What an operator asks (job_commands.cc) ---
  bool MayTrain() const;
  void Want(protocol::DesiredCommands wanted, StepContext& context);
  void DrainAtOnce(StepContext& context);
  void EndAfterLastStep(std::optional<Command> command, StepContext& context);

  // --- Deadlines (job_clock.cc) ---
  void ExpireLeases(StepContext& context);
  void ExpireResumes(StepContext& context);
  void ExpireAccusations(StepContext& context);
  bool AwaitsTheAccused() const;
  void ExpireConnecting(StepContext& context);
  void NameLate(StepContext& context);
  void CallStuck(StepContext& context);
  void MissJoinDeadline(StepContext& context);

  // --- Who comes (job_members.cc) ---
  void GreetAfterEnd(SessionId session, const protocol::Hello& hello,
                     StepContext& context);
  void BeginLife(SessionId session, const protocol::Hello& hello,
                 StepContext& context);
  void ContinueLife(SessionId session, const protocol::Hello& hello,
                    StepContext& context);
  std::string GiveSecret(const WorkerName& worker, Generation generation,
                         uint64_t life, StepContext& context);
  void Attach(Worker* worker, SessionId session, const protocol::Hello& hello,
              protocol::Welcome welcome, StepContext& context);
  void Restate(const Worker& worker, StepContext& context);

  // --- Who goes (job_losses.cc) ---
  void Detach(Worker* worker, absl::Status why, StepContext& context);
  void Lose(protocol::CauseKind kind, const std::vector<Loss>& losses,
            StepContext& context);
  void AddProof(const protocol::Evidence& evidence, const Worker* subject,
                StepContext& context);
  // What is known beside `message` of those that it is about.
  std::string AddedProof(const std::string& message) const;
  void NoteStranger(const protocol::Evidence& evidence, const Worker* subject,
                    StepContext& context);
  void ForgetDeadlineIfNobodyIsHere();
  void On(Worker* worker, const protocol::Leave& message, StepContext& context);
  void LeaveEpoch(Worker* worker, int rank, const protocol::Leave& leave,
                  StepContext& context);
  void NoteLeft(int rank, uint64_t steps);
  // It takes part in no step beyond these.
  void NoteStopped(int rank, uint64_t steps);
  void EndIfLeaverBrokeLink(const protocol::Evidence& evidence,
                            const WorkerName& accuser, StepContext& context);
  void EndIfLeaverIsMissed(StepContext& context);
  void EndByLeaver(int rank, StepContext& context);
  protocol::Position LastWordOfLeaver() const;

  // --- What members say (job_stages.cc) ---
  void Deliver(int rank, const protocol::ToCoordinatorBody& body,
               StepContext& context);
  void On(int rank, const protocol::RegisterChunk& message,
          StepContext& context);
  void On(int rank, const protocol::PlanAck& message, StepContext& context);
  void On(int rank, const protocol::PublishHandles& message,
          StepContext& context);
  void On(int rank, const protocol::Connected& message, StepContext& context);
  void On(int rank, const protocol::Progress& message, StepContext& context);
  void On(int rank, const protocol::ValueDigests& message,
          StepContext& context);
  void On(int rank, const protocol::Busy& message, StepContext& context);
  void On(int rank, const protocol::Evidence& message, StepContext& context);
  void On(int rank, const protocol::LocalFailure& message,
          StepContext& context);
  void On(const Worker& worker, const protocol::EpochReport& message,
          StepContext& context);
  void CompilePlan(StepContext& context);
  void AdoptPlan(const CompiledPlan& compiled, StepContext& context);
  void Start(StepContext& context);
  void On(int rank, const protocol::ReadyOrder& message, StepContext& context);
  void EndByMismatch(int rank, const std::string& what, StepContext& context);
  void Touch(int rank, StepContext& context);

  // --- Later revisions (job_revisions.cc) ---
  bool OrderMatters() const;
  void RebuildOnce(StepContext& context);
  void ResumeRevisions(StepContext& context);
  absl::Status RebuildNow(StepContext& context);
  void AskForOrder(StepContext& context);
  void CompileRecut(StepContext& context);
  void AdoptRecut(const absl::StatusOr<CompiledPlan>& compiled,
                  StepContext& context);
  void HoldRevision(int rank, const protocol::PlanAck& ack,
                    StepContext& context);
  void RunRevision(int rank, Revision revision, StepContext& context);

  // --- Passes (job_passes.cc) ---
  void On(int rank, const protocol::Announce& message, StepContext& context);
  void On(int rank, const protocol::Submitted& message, StepContext& context);
  void On(int rank, const protocol::Held& message, StepContext& context);
  template <typename Word>
  void Negotiate(int rank, const Word& word, StepContext& context);
  void BeginNegotiation(Negotiation::Begins begins);
  void ResumePasses(int rank, const protocol::Hello& hello,
                    StepContext& context);
  std::vector<uint64_t> PassesDone() const;
  bool LagsInPass(int rank) const;

  // --- After a restart (job_revive.cc) ---
  bool HasStarted(const protocol::Hello& hello) const;
  bool EndWasLost() const;
  void EndAfterRestart(StepContext& context);
  void RecognizeStart(const protocol::Hello& hello, StepContext& context);
  bool MayRunForeignPlan() const;
  void RunForeignPlan(StepContext& context);
  bool IsTooEarly(int rank, const protocol::ToCoordinatorBody& body,
                  StepContext& context);
  void HearEarly(StepContext& context);

  // --- Questions ---
  AdmissionState TheDoor(const WorkerName& worker) const;
  int RankOf(const Worker& worker) const;  // -1: no member of a living epoch
  bool IsMember(const Worker& worker) const { return RankOf(worker) >= 0; }
  Worker* AtRank(int rank) { return roster_.Find(NameAt(rank)); }
  const Worker* AtRank(int rank) const { return roster_.Find(NameAt(rank)); }
  const WorkerName& NameAt(int rank) const {
    return epoch_->members[rank].worker;
  }
  std::vector<WorkerName> NamesOf(const std::vector<int>& ranks) const;
  std::string WhoIs(const Worker& worker) const;
  // "at step 412 while computing", or "last heard" there some time ago.
  std::string WhereIs(int rank, absl::Time now) const;
  // What the stage asks of every rank now, and who has done it.
  std::string Lack() const;
  std::vector<bool> Done() const;
  // All have registered, and the plan is compiled: nobody can do anything.
  bool AllWaitForPlan() const {
    return epoch_->plan == nullptr && epoch_->compiling.value != 0;
  }
  Waits WhoWaits() const;
  // Others wait for it, for longer than is usual, and it waits for nobody.
  bool IsLate(int rank, const Waits& waits, absl::Time now) const;
  // "step 412: worker-3 (...) has not submitted layers.7.weight for 2.1s; 6
  // ranks wait".
  std::string BlameSentence(int rank, const Waits& waits, absl::Time now) const;
  // "has not submitted w", and so what others wait for; or nothing.
  std::string Unsaid(int rank) const;
  // That, or "is at step 3 in the verdict".
  std::string Behind(int rank) const;
  WorkerView View(const Worker& worker, absl::Time now) const;

  // --- Doing ---
  void Tell(const Worker& worker, protocol::ToWorkerBody body,
            StepContext& context);
  void TellAll(const protocol::ToWorkerBody& body, StepContext& context);
  void Remember(std::string text, StepContext& context);
  // That, and it is shown as long as the job is, and printed by a rank.
  void Warn(const std::string& text, StepContext& context);
  void KeepWarning(const std::string& text, StepContext& context);
  // What ranks do not submit, and which values differ, once all have said it,
  // or `at_once`.
  void WarnOfWhatIsKnown(bool at_once, StepContext& context);
  JobName name() const {
    const JobName& archived = durable_.archived_as;
    return archived.value.empty() ? JobName{durable_.spec.name} : archived;
  }

  const DurableJob& durable_;
  const absl::Duration stopped_after_;
  JobState state_ = JobState::kForming;
  Roster roster_;
  Deadlines<WorkerName> leases_;   // of the seated
  Deadlines<WorkerName> resumes_;  // of the suspect
  absl::Time join_by_ = absl::InfiniteFuture();
  absl::Time pulse_ = absl::InfiniteFuture();
  absl::Time first_epoch_from_ = absl::InfinitePast();
  std::string why_delayed_;
  // All are here and wait for first_epoch_from_.
  absl::Time form_at_ = absl::InfiniteFuture();
  std::optional<Epoch> epoch_;  // while it lives
  // Steps that some worker is known to have committed, in all epochs; the next
  // epoch begins there.
  uint64_t step_ = 0;
  // How those died whose loss ended the last epoch, as far as it became known
  // after its end.
  std::map<WorkerName, std::string> proofs_;
  RestartBudget budget_;
  History history_;
  std::deque<std::string> warnings_;  // the newest 16
  // Epochs of other jobs of this name that were noted.
  std::set<std::string> foreign_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_JOB_H_
