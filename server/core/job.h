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
#include "server/core/durable.h"
#include "server/core/epoch.h"
#include "server/core/event.h"
#include "server/core/history.h"
#include "server/core/outbox.h"
#include "server/core/restart_budget.h"
#include "server/core/roster.h"
#include "server/core/secret.h"
#include "server/core/waits.h"

namespace lockstep::core {

// One Step as a job sees it: what time it is, where to put effects, and where
// secrets come from.
struct Turn {
  absl::Time now;
  Outbox& out;
  SecretSource& secrets;
};

class Job {
 public:
  // `durable` must outlive it and belongs to this job's name.
  Job(const DurableJob& durable, absl::Duration stopped_after);

  // A Hello for this job, on a stream that speaks for nobody else. Binds the
  // stream or refuses.
  void Greet(SessionId session, const protocol::Hello& hello, Turn& turn);
  // Any other message, on a stream that is bound to `worker`.
  void Receive(SessionId session, const WorkerName& worker,
               const protocol::ToCoordinator& message, Turn& turn);
  void StreamClosed(SessionId session, const WorkerName& worker,
                    const std::string& why, Turn& turn);
  // `accuser`: who says so; empty if it is no worker.
  void Consider(const protocol::Evidence& evidence, const WorkerName& accuser,
                Turn& turn);
  void Stop(const std::string& reason, Turn& turn);
  // FailedPrecondition, and nothing changed: the job cannot do that now. Must
  // not be over.
  absl::Status Obey(JobCommand command, const std::string& reason, Turn& turn);

  // What came of a compilation that it asked for; ignored if nothing waits for
  // it any more.
  void Take(const Compiled& event, Turn& turn);
  // It is over and will be archived or deleted: no stream speaks for it any
  // more.
  void LetGo(Turn& turn);

  // --- Time ---
  void Wake(Turn& turn);
  absl::Time NextWake() const;
  // The coordinator did not run for `late` beyond the moment it had asked for:
  // if that is long, nobody's silence counts.
  void NoteLate(absl::Duration late, absl::Time now);
  // What is not later than this is no news to NoteLate.
  absl::Duration late_min() const { return stopped_after_; }
  // After a replay: the members of a living epoch may resume from now on.
  void Revive(absl::Time now);
  // The same after record::JobAdopted: its members offered it.
  void BeginAdopted(Turn& turn);
  // Refuses the workers: another job of this name was adopted.
  void TurnAway(const absl::Status& why, Turn& turn);
  // The first epoch forms at `when` or later, because the job waits `why`: "for
  // running jobs to ...". Never moves the moment back. Must not have begun.
  void DelayFirstEpoch(absl::Time when, const std::string& why);
  // The worker trains in another job of this name, which no coordinator knows.
  // Noted once for each epoch of such a job.
  void NoteForeign(const protocol::Hello& hello, Turn& turn);

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
  void Arrive(Worker* worker, Turn& turn);
  void TryForm(Turn& turn);
  bool FirstEpochIsDelayed(absl::Time now) const;
  std::string WhyDelayed(absl::Time now) const;
  void Form(Turn& turn);
  void EndEpoch(protocol::Cause cause, Again again, Turn& turn);
  void EndJob(record::Outcome outcome, protocol::Cause cause, Turn& turn);
  void TellTheEnd(const protocol::Cause& cause, Turn& turn);
  void AwaitNextEpoch(absl::Time now);

  // --- What an operator asks (job_commands.cc) ---
  bool MayTrain() const;
  void Want(protocol::Wanted wanted, Turn& turn);
  void DrainAtOnce(Turn& turn);
  void EndAfterLastStep(std::optional<Command> command, Turn& turn);

  // --- Deadlines (job_clock.cc) ---
  void ExpireLeases(Turn& turn);
  void ExpireResumes(Turn& turn);
  void ExpireAccusations(Turn& turn);
  bool AwaitsTheAccused() const;
  void ExpireConnecting(Turn& turn);
  void NameLate(Turn& turn);
  void CallStuck(Turn& turn);
  void MissJoinDeadline(Turn& turn);

  // --- Who comes (job_members.cc) ---
  void GreetAfterEnd(SessionId session, const protocol::Hello& hello,
                     Turn& turn);
  void BeginLife(SessionId session, const protocol::Hello& hello, Turn& turn);
  void ContinueLife(SessionId session, const protocol::Hello& hello,
                    Turn& turn);
  std::string GiveSecret(const WorkerName& worker, Generation generation,
                         uint64_t life, Turn& turn);
  void Attach(Worker* worker, SessionId session, const protocol::Hello& hello,
              protocol::Welcome welcome, Turn& turn);
  void Restate(const Worker& worker, Turn& turn);

  // --- Who goes (job_losses.cc) ---
  void Detach(Worker* worker, absl::Status why, Turn& turn);
  void Lose(protocol::CauseKind kind, const std::vector<Loss>& losses,
            Turn& turn);
  void AddProof(const protocol::Evidence& evidence, const Worker* subject,
                Turn& turn);
  // What is known beside `message` of those that it is about.
  std::string AddedProof(const std::string& message) const;
  void NoteStranger(const protocol::Evidence& evidence, const Worker* subject,
                    Turn& turn);
  void ForgetDeadlineIfNobodyIsHere();
  void On(Worker* worker, const protocol::Leave& message, Turn& turn);
  void LeaveEpoch(Worker* worker, int rank, const protocol::Leave& leave,
                  Turn& turn);
  void NoteLeft(int rank, uint64_t steps);
  // It takes part in no step beyond these.
  void NoteStopped(int rank, uint64_t steps);
  void EndIfLeaverBrokeLink(const protocol::Evidence& evidence,
                            const WorkerName& accuser, Turn& turn);
  void EndIfLeaverIsMissed(Turn& turn);
  void EndByLeaver(int rank, Turn& turn);
  protocol::Position LastWordOfLeaver() const;

  // --- What members say (job_stages.cc) ---
  void Deliver(int rank, const protocol::ToCoordinatorBody& body, Turn& turn);
  void On(int rank, const protocol::RegisterChunk& message, Turn& turn);
  void On(int rank, const protocol::PlanAck& message, Turn& turn);
  void On(int rank, const protocol::PublishHandles& message, Turn& turn);
  void On(int rank, const protocol::Connected& message, Turn& turn);
  void On(int rank, const protocol::Progress& message, Turn& turn);
  void On(int rank, const protocol::ValueDigests& message, Turn& turn);
  void On(int rank, const protocol::Busy& message, Turn& turn);
  void On(int rank, const protocol::Evidence& message, Turn& turn);
  void On(int rank, const protocol::LocalFailure& message, Turn& turn);
  void On(const Worker& worker, const protocol::EpochReport& message,
          Turn& turn);
  void CompilePlan(Turn& turn);
  void AdoptPlan(const CompiledPlan& compiled, Turn& turn);
  void Start(Turn& turn);
  void On(int rank, const protocol::ReadyOrder& message, Turn& turn);
  void EndByMismatch(int rank, const std::string& what, Turn& turn);
  void Touch(int rank, Turn& turn);

  // --- Later revisions (job_revisions.cc) ---
  bool OrderMatters() const;
  void RebuildOnce(Turn& turn);
  void ResumeRevisions(Turn& turn);
  absl::Status RebuildNow(Turn& turn);
  void AskForOrder(Turn& turn);
  void CompileRecut(Turn& turn);
  void AdoptRecut(const absl::StatusOr<CompiledPlan>& compiled, Turn& turn);
  void HoldRevision(int rank, const protocol::PlanAck& ack, Turn& turn);
  void RunRevision(int rank, Revision revision, Turn& turn);

  // --- Passes (job_passes.cc) ---
  void On(int rank, const protocol::Announce& message, Turn& turn);
  void On(int rank, const protocol::Submitted& message, Turn& turn);
  void On(int rank, const protocol::Held& message, Turn& turn);
  template <typename Word>
  void Negotiate(int rank, const Word& word, Turn& turn);
  void BeginNegotiation(Negotiation::Begins begins);
  void ResumePasses(int rank, const protocol::Hello& hello, Turn& turn);
  std::vector<uint64_t> PassesDone() const;
  bool LagsInPass(int rank) const;

  // --- After a restart (job_revive.cc) ---
  bool HasStarted(const protocol::Hello& hello) const;
  bool EndWasLost() const;
  void EndAfterRestart(Turn& turn);
  void RecognizeStart(const protocol::Hello& hello, Turn& turn);
  bool MayRunForeignPlan() const;
  void RunForeignPlan(Turn& turn);
  bool IsTooEarly(int rank, const protocol::ToCoordinatorBody& body,
                  Turn& turn);
  void HearEarly(Turn& turn);

  // --- Questions ---
  Door TheDoor(const WorkerName& worker) const;
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
  void Tell(const Worker& worker, protocol::ToWorkerBody body, Turn& turn);
  void TellAll(const protocol::ToWorkerBody& body, Turn& turn);
  void Remember(std::string text, Turn& turn);
  // That, and it is shown as long as the job is, and printed by a rank.
  void Warn(const std::string& text, Turn& turn);
  void KeepWarning(const std::string& text, Turn& turn);
  // What ranks do not submit, and which values differ, once all have said it,
  // or `at_once`.
  void WarnOfWhatIsKnown(bool at_once, Turn& turn);
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
