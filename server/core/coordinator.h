// The coordinator: several jobs in one daemon, each a state machine of its own.
//
// A pure state machine. Step() takes one event and the time, updates the state
// and returns what the outside world should do about it. It does no I/O, reads
// no clock, starts no thread and keeps no reference to anything outside itself,
// so any history can be replayed exactly.
//
//            Received, SessionClosed, CreateJob, ..., Wake
//   adapters ─────────────────────────────▶ Step ──▶ Effects ──▶ adapters
//                                            │
//                                            └─▶ NextWake(): when to send Wake
//
// This class finds the job an event is about and keeps what jobs share: session
// numbers, record numbers, the leader term. What happens inside a job is in
// job.h, and that is composed of parts that answer questions.
//
// An event costs what its own job costs: the moments at which jobs want to wake
// are kept in order, and jobs that are over are in no list that is walked. Of
// those kJobsOverMax are kept (durable.h).
//
// A coordinator that was itself stopped (SIGSTOP, a suspended machine) finds
// its Wake late: then all leases begin anew, for it was not the workers who
// were silent.
//
// Threads: not thread-safe; server/runtime's loop owns the only instance.
// Errors:  Step cannot fail. A message that makes no sense is refused on its
//          stream or ignored, as protocol.h says.

#ifndef LOCKSTEP_SERVER_CORE_COORDINATOR_H_
#define LOCKSTEP_SERVER_CORE_COORDINATOR_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "plan/ir.h"
#include "plan/words/job_view.h"
#include "server/core/adoption.h"
#include "server/core/deadlines.h"
#include "server/core/durable_state.h"
#include "server/core/event.h"
#include "server/core/job.h"
#include "server/core/refusals.h"
#include "server/core/secret.h"
#include "server/core/session_table.h"

namespace lockstep::core {

struct CoordinatorOptions {
  LeaderTerm term{1};
  // A Wake later than this after its moment means that the coordinator itself
  // was stopped.
  absl::Duration stopped_after = absl::Seconds(1);
  // One that starts without a record forms no first epoch of a job for this
  // long after its first Step: jobs that it does not know may run, and their
  // workers take a while to offer them (adoption.h).
  absl::Duration adoption_window = absl::ZeroDuration();
  // Of the secrets of sessions: at least 32 bytes that nobody can guess, others
  // in each daemon and after each restart. A test may leave it empty.
  std::string secret_seed = {};
};

class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();

  // Applies one event. Calls must carry non-decreasing times.
  Effects Step(absl::Time now, const Event& event);

  // When Step(Wake) could do something; InfiniteFuture if only an event can.
  // While workers are there it is never far away: the coordinator looks at its
  // own clock, so that it can tell their silence from its own.
  absl::Time NextWake() const { return next_wake_; }

  // Rebuilds the durable state from one record of an earlier life, in order,
  // before the first Step. InvalidArgument for a record that cannot follow.
  absl::Status Replay(const record::Record& record);

  // --- Questions ---
  std::vector<JobSummary> Jobs() const;
  // NotFound. `now` is for the durations in it.
  absl::StatusOr<JobView> Describe(const JobName& job, absl::Time now) const;
  // The plan of the running epoch with this digest; nullptr if there is none.
  std::shared_ptr<const plan::Plan> FindPlan(const JobName& job,
                                             const std::string& digest) const;
  // OK, NotFound or PermissionDenied: may the bearer of `token` see this job?
  absl::Status Authorize(const JobName& job, const std::string& token) const;
  // What it has promised: equal after a replay of its records.
  const DurableState& durable() const { return durable_; }

 private:
  void On(const Received& event, StepContext& context);
  void On(const SessionClosed& event, StepContext& context);
  void On(const CreateJob& event, StepContext& context);
  void On(const CommandJob& event, StepContext& context);
  void On(const StopJob& event, StepContext& context);
  void On(const DeleteJob& event, StepContext& context);
  void On(const Compiled& event, StepContext& context);
  void On(const ReportEvidence& event, StepContext& context);
  void On(const ShuttingDown& event, StepContext& context);
  void On(const Wake& event, StepContext& context);

  void RememberRefusal(const Received& event, const EffectSink& out,
                       absl::Time now);
  // `speaker`: who speaks on the stream, if anybody yet. An error refuses it.
  absl::Status Take(const Received& event,
                    const std::optional<Speaker>& speaker,
                    StepContext& context);
  absl::Status Greet(SessionId session, const JobName& name,
                     const protocol::Hello& hello,
                     const std::optional<Speaker>& speaker,
                     StepContext& context);

  // --- Running jobs that it does not know (adoption.h) ---
  // The Hello is of a worker of one that can be adopted: it is never refused
  // for good.
  bool IsOfUnknownJob(const JobName& name, const protocol::Hello& hello) const;
  // ... of one that cannot, for a job of its name has begun here.
  bool IsOfJobBesideOurs(const JobName& name,
                         const protocol::Hello& hello) const;
  void LetTrainOn(SessionId session, const JobName& name,
                  const protocol::Hello& hello, StepContext& context);
  // The Hello is of a worker that was welcomed elsewhere and is in no epoch.
  bool WaitsElsewhere(const JobName& name, const protocol::Hello& hello) const;
  void TakeOffer(SessionId session, const JobName& name,
                 const protocol::Hello& hello, StepContext& context);
  void LetGo(SessionId session, const JobName& name,
             const protocol::Hello& hello, StepContext& context);
  absl::Status MayOffer(const JobName& name,
                        const protocol::Hello& hello) const;
  void Adopt(const JobName& name, record::JobAdopted adopted,
             StepContext& context);
  // OK, or why no job of this name may be created or joined now.
  absl::Status NoOffersHold(const JobName& name, absl::Time now) const;
  // Finds the job, or creates it from the Hello's spec.
  absl::StatusOr<Job*> JobFor(const JobName& name, const protocol::Hello& hello,
                              StepContext& context);
  absl::Status Create(const JobSpec& spec, const std::string& token,
                      StepContext& context);
  absl::Status CreateAgain(const Job& job, const JobSpec& spec,
                           const std::string& token) const;
  // Both: a job that is over.
  void Archive(const JobName& name, StepContext& context);
  void Forget(const JobName& name, StepContext& context);
  absl::Status Delete(const DeleteJob& event, StepContext& context);
  absl::StatusOr<Job*> Authorized(const JobName& name,
                                  const std::string& token);
  // nullptr: there is none. What keeps track of jobs by their state looks at it
  // again when the Step is over.
  Job* Reach(const JobName& name);
  void Begin(absl::Time now);
  void NoteLate(absl::Time now);
  void Track(const JobName& name);
  void ForgetOldest(StepContext& context);

  const CoordinatorOptions options_;
  SecretSource secrets_;
  DurableState durable_;
  SessionTable sessions_;
  std::map<JobName, Job> jobs_;
  Adoptions adoptions_;
  Refusals refusals_;
  std::set<JobName> touched_;  // by the Step in progress
  std::set<JobName> live_;     // jobs that are not over
  Deadlines<JobName> wakes_;   // of those
  absl::Time next_wake_ = absl::InfiniteFuture();
  // Of all jobs that ever lived: what is not later is no news to any of them.
  absl::Duration late_min_ = absl::InfiniteDuration();
  uint64_t compilations_ = 0;  // asked for, ever
  // The end of the adoption window.
  absl::Time first_epochs_from_ = absl::InfinitePast();
  bool begun_ = false;
  bool shutting_down_ = false;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COORDINATOR_H_
