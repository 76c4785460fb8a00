// The coordinator: several jobs in one daemon, each with its own state machine.
//
// A pure state machine. Step() takes one event and the time, updates the state
// and returns the effects to perform. It does no I/O, reads no clock, starts no
// thread and keeps no reference to anything outside itself, so any history can
// be replayed exactly.
//
//            Received, SessionClosed, CreateJob, ..., Wake
//   adapters ─────────────────────────────▶ Step ──▶ Effects ──▶ adapters
//                                            │
//                                            └─▶ NextWake(): when to send Wake
//
// This class finds the job an event is about and owns what jobs share: session
// numbers, record numbers, the leader term. Job (job.h) handles what happens
// inside a job, and is composed of parts that answer questions.
//
// The cost of an event does not grow with the number of jobs: wake times are
// kept sorted, and no event iterates over jobs that are over. At most
// kJobsOverMax of those are kept (durable_state.h).
//
// A coordinator that was itself stopped (SIGSTOP, a suspended machine) handles
// its Wake late. It then restarts all leases, because the silence was its own
// and not the workers'.
//
// Threads: not thread-safe; server/runtime's loop owns the only instance.
// Errors:  Step cannot fail. An invalid message is refused on its stream or
//          ignored, as protocol.h says.

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
#include "protocol/job_view.h"
#include "protocol/limit_use.h"
#include "server/core/adoption.h"
#include "server/core/deadlines.h"
#include "server/core/durable_state.h"
#include "server/core/event.h"
#include "server/core/job.h"
#include "server/core/limits.h"
#include "server/core/measurements.h"
#include "server/core/refusals.h"
#include "server/core/secret.h"
#include "server/core/session_table.h"

namespace lockstep::core {

struct CoordinatorOptions {
  LeaderTerm term{1};
  // A Wake later than this means that the coordinator itself was stopped.
  absl::Duration stopped_after = absl::Seconds(1);
  // A coordinator that starts without records, or with a repaired journal,
  // forms no first epoch of a job for this long after its first Step: jobs
  // unknown to it may be running, and their workers need time to offer them
  // (adoption.h).
  absl::Duration adoption_window = absl::ZeroDuration();
  // The seed of session secrets: at least 32 unpredictable bytes, different for
  // each daemon and each restart. Tests may leave it empty.
  std::string secret_seed = {};
  LimitValues limits = {};
};

class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options);
  ~Coordinator();

  // Applies one event. Calls must carry non-decreasing times.
  Effects Step(absl::Time now, const Event& event);

  // When Step(TimerExpired) could have an effect; InfiniteFuture if only an
  // event can. While workers are connected it is never far away, so that the
  // coordinator notices when it was itself stopped.
  absl::Time NextWake() const { return next_wake_; }

  // Takes the state of an earlier run's snapshot, before the first Replay.
  void Restore(DurableState state);

  // Applies one record of an earlier run, in order, before the first Step.
  // InvalidArgument for a record that cannot follow.
  absl::Status Replay(const record::Record& record);

  // --- Questions ---
  std::vector<JobSummary> Jobs() const;
  // NotFound. `now` is the reference of all durations in the view.
  absl::StatusOr<JobView> Describe(const JobName& job, absl::Time now) const;
  // The plan of the running epoch with this digest; nullptr if there is none.
  std::shared_ptr<const plan::Plan> FindPlan(const JobName& job,
                                             const std::string& digest) const;
  // OK, NotFound or PermissionDenied: whether `token` opens this job.
  absl::Status Authorize(const JobName& job, const std::string& token) const;
  std::vector<LimitUse> LimitUses() const;
  // Without WorkerViews and texts, so cheaper than Describe.
  Measurements Measure(absl::Time now) const;
  // All durable promises; equal after a replay of the same records.
  const DurableState& durable() const { return durable_; }

 private:
  void On(const MessageReceived& event, EventContext& context);
  void On(const SessionClosed& event, EventContext& context);
  void On(const CreateJob& event, EventContext& context);
  void On(const CommandJob& event, EventContext& context);
  void On(const StopJob& event, EventContext& context);
  void On(const DeleteJob& event, EventContext& context);
  void On(const Compiled& event, EventContext& context);
  void On(const ReportEvidence& event, EventContext& context);
  void On(const ShuttingDown& event, EventContext& context);
  void On(const TimerExpired& event, EventContext& context);

  void RememberRefusal(const MessageReceived& event, const EffectSink& out,
                       absl::Time now);
  // `speaker`: the worker bound to the stream, if any. An error refuses the
  // stream.
  absl::Status Take(const MessageReceived& event,
                    const std::optional<Speaker>& speaker,
                    EventContext& context);
  absl::Status OnHello(SessionId session, const JobName& name,
                       const protocol::Hello& hello,
                       const std::optional<Speaker>& speaker,
                       EventContext& context);

  // --- Running jobs that this coordinator does not know (adoption.h) ---
  // Whether the Hello is from a worker of an unknown job that can be adopted;
  // such a Hello is never refused for good.
  bool IsOfUnknownJob(const JobName& name, const protocol::Hello& hello) const;
  // The same of a job that cannot be adopted, because a job of its name has
  // begun here.
  bool IsOfJobBesideOurs(const JobName& name,
                         const protocol::Hello& hello) const;
  void LetTrainOn(SessionId session, const JobName& name,
                  const protocol::Hello& hello, EventContext& context);
  // The Hello is from a worker that another coordinator welcomed and that is in
  // no epoch.
  bool WaitsElsewhere(const JobName& name, const protocol::Hello& hello) const;
  bool HoldsUnknownState(const JobName& name,
                         const protocol::Hello& hello) const;
  absl::Status RefuseUnknownState(SessionId session, const JobName& name,
                                  const protocol::Hello& hello,
                                  EventContext& context);
  void TakeOffer(SessionId session, const JobName& name,
                 const protocol::Hello& hello, EventContext& context);
  void ReleaseLeaver(SessionId session, const JobName& name,
                     const protocol::Hello& hello, EventContext& context);
  absl::Status MayOffer(const JobName& name, const protocol::Hello& hello,
                        absl::Time now);
  void Adopt(const JobName& name, record::JobAdopted adopted,
             EventContext& context);
  // OK, or why no job of this name may be created or joined now.
  absl::Status NoOffersHold(const JobName& name, absl::Time now) const;
  // Finds the job, or creates it from the Hello's spec.
  absl::StatusOr<Job*> JobFor(const JobName& name, const protocol::Hello& hello,
                              EventContext& context);
  // `by`: who creates it, for people; may be empty, as in what follows.
  absl::Status Create(const JobSpec& spec, const std::string& token,
                      const std::string& by, EventContext& context);
  void DelayFirstEpochOf(Job* job) const;
  absl::Status CreateAgain(const Job& job, const JobSpec& spec,
                           const std::string& token) const;
  // Both need a job that is over.
  void Archive(const JobName& name, const std::string& by,
               EventContext& context);
  void Forget(const JobName& name, const std::string& by,
              EventContext& context);
  absl::Status Delete(const DeleteJob& event, EventContext& context);
  absl::StatusOr<Job*> Authorized(const JobName& name,
                                  const std::string& token);
  // The job, or nullptr if there is none. Marks it as touched, so that Track
  // updates the lists of jobs after the Step.
  Job* Reach(const JobName& name);
  void Begin(absl::Time now);
  void NoteLate(absl::Time now);
  void Track(const JobName& name);
  void ForgetOldest(EventContext& context);

  const CoordinatorOptions options_;
  SecretSource secrets_;
  Limits limits_;
  DurableState durable_;
  SessionTable sessions_;
  std::map<JobName, Job> jobs_;
  Adoptions adoptions_;
  Refusals refusals_;
  std::set<JobName> touched_;  // by the Step in progress
  std::set<JobName> live_;     // jobs that are not over
  Deadlines<JobName> wakes_;   // of the live jobs
  absl::Time next_wake_ = absl::InfiniteFuture();
  // The minimum of Job::late_min() over all jobs ever seen; NoteLate skips
  // shorter delays.
  absl::Duration late_min_ = absl::InfiniteDuration();
  LeaderTerm term_heard_;      // the highest of workers, if above ours
  uint64_t compilations_ = 0;  // total requested
  // The end of the adoption window.
  absl::Time first_epochs_from_ = absl::InfinitePast();
  bool begun_ = false;
  bool shutting_down_ = false;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COORDINATOR_H_
