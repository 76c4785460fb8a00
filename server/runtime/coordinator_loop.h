// Runs the coordinator: one loop thread with its clock and journal, and threads
// that compile plans.
//
//   gRPC's threads ──post──▶ loop: Step ─┬▶ effects ──▶ DurabilityGate
//                                        │                ──▶ streams,
//                                        │                    answers, log
//                                        └▶ records ──▶ journal ──▶ (durable)
//                                                       ▲
//                                copy of the state ─────┘ Compact, at times
//
// Threads: all public methods may be called from any thread and do not block;
//          Stop from any but the loop thread. Arguments (streams, callbacks,
//          watchers) are called and released on the loop thread. The calls of
//          one stream must be sequential.
// Errors:  a journal failure is final: no effect that promises something is
//          sent any more, and `on_journal_failure` is called once. A full disk
//          is none: effects wait until there is room, decisions of passes go on
//          (durability_gate.h), operators are told that their requests are not
//          durable, and the views of all jobs have a warning.

#ifndef LOCKSTEP_SERVER_RUNTIME_COORDINATOR_LOOP_H_
#define LOCKSTEP_SERVER_RUNTIME_COORDINATOR_LOOP_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/telemetry.h"
#include "plan/ir.h"
#include "protocol/job_view.h"
#include "protocol/limit_use.h"
#include "protocol/protocol.h"
#include "server/core/coordinator.h"
#include "server/core/event.h"
#include "server/core/measurements.h"
#include "server/journal/journal.h"
#include "server/observe/event_log.h"
#include "server/runtime/compaction.h"
#include "server/runtime/compile_threads.h"
#include "server/runtime/durability_gate.h"
#include "server/runtime/hello_waits.h"
#include "server/runtime/record_counters.h"
#include "server/runtime/replay.h"
#include "server/runtime/watches.h"

namespace lockstep::runtime {

// A worker's stream, as the loop uses it. Called on the loop thread only.
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  // False if too many messages wait until the worker reads them.
  virtual bool Send(const protocol::ToWorker& message) = 0;
  // Ends the stream after the messages sent before. Closed follows.
  virtual void Close(const absl::Status& status) = 0;
  // Ends the stream without waiting for sent messages.
  virtual void Abandon() = 0;
  // The last received message was applied: the next one may be read.
  virtual void Applied() = 0;
};

class CoordinatorLoop {
 public:
  // How long a closed stream may take to deliver its last messages.
  static constexpr absl::Duration kClosePatience = absl::Seconds(2);

  // All must outlive the loop; it owns `coordinator` and `journal` from now on,
  // after the replay (replay.h).
  struct Wiring {
    core::Coordinator* coordinator;
    std::unique_ptr<journal::Journal> journal;
    JournalCodec codec;
    core::PlanCodec plans;
    Clock* clock;
    observe::EventLog* events;
    MetricSink* metrics;
    std::function<void(absl::Status)> on_journal_failure;
    // The journal's Trouble (journal.h), for the log. May be empty.
    std::function<void(absl::Status)> on_journal_trouble = nullptr;
    HelloLimits hello = {};
  };
  explicit CoordinatorLoop(Wiring wiring);
  ~CoordinatorLoop();

  // --- Streams --------------------------------------------------------------
  // While draining, a new stream is closed at once; and later if it does not
  // say Hello in time (hello_waits.h).
  core::SessionId Open(std::shared_ptr<SessionStream> stream);
  // Applied() follows.
  void Receive(core::SessionId session, protocol::ToCoordinator message);
  // The last call for a session, once, whichever side ended the stream.
  void Closed(core::SessionId session, std::string why);

  // --- Operator requests ----------------------------------------------------
  // Each callback is called once, with Unavailable if the daemon shuts down
  // before there is an answer, and with ResourceExhausted if the journal's disk
  // is full: the request is then carried out once there is room.
  template <typename T>
  using Reply = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  using Done = absl::AnyInvocable<void(absl::Status)>;

  void CreateJob(JobSpec spec, core::Requester by, Done done);
  void CommandJob(JobName job, core::Requester by, JobCommand command,
                  std::string reason, Done done);
  void StopJob(JobName job, core::Requester by, std::string reason, Done done);
  void DeleteJob(JobName job, core::Requester by, bool keep, Done done);
  void ReportEvidence(JobName job, std::string token,
                      protocol::Evidence evidence, Done done);
  // The jobs that `token` opens.
  void ListJobs(std::string token, Reply<std::vector<JobSummary>> reply);
  void DescribeJob(JobName job, std::string token, Reply<JobView> reply);
  void FindPlan(JobName job, std::string token, std::string digest,
                Reply<std::shared_ptr<const plan::Plan>> reply);
  // The limits of the coordinator and of streams.
  void ListLimits(Reply<std::vector<LimitUse>> reply);
  // For metrics. The reply is never an error, and is dropped after Stop.
  void Measure(Reply<core::Measurements> reply);
  // Returns the id for Unwatch, which releases the watcher and may be called
  // after its End.
  uint64_t Watch(JobName job, std::string token,
                 std::shared_ptr<Watcher> watcher);
  void Unwatch(uint64_t watch);

  // --- Shutdown -------------------------------------------------------------
  // Tells the coordinator, closes every stream and ends every watch with
  // Unavailable. No job ends.
  void Drain();
  // Ends the thread.
  void Stop();

 private:
  void Apply(const core::Event& event);
  void Persist(std::vector<record::Record> records);
  void JournalSaid(uint64_t record_number, absl::Time appended,
                   const absl::Status& status);
  void NoteTrouble(const absl::Status& trouble);
  void CompactIfDue();
  absl::StatusOr<JobView> ViewOf(const JobName& job, absl::Time now) const;
  void DeliverReleased();
  void AnswerWithoutRoom();
  void Deliver(const core::Send& effect);
  void Deliver(const core::CloseSession& effect);
  void Deliver(const core::Persist& effect);
  void Deliver(const core::AdminReply& effect);
  void Deliver(const core::Compile& effect);
  void Deliver(const core::Note& effect);
  void Close(core::SessionId session, const absl::Status& status);
  void AbandonOverdue();
  void CloseSilent();
  void ArmTimers();

  template <typename MakeEvent>
  void Ask(Done done, MakeEvent make_event);
  void DrainOnLoop();

  Wiring wiring_;
  std::atomic<uint64_t> next_session_{1};
  std::atomic<uint64_t> next_watch_{1};
  Gauge* const sessions_open_;
  Counter* const received_;
  Counter* const sent_;
  Histogram* const event_seconds_;
  Histogram* const commit_seconds_;
  Gauge* const journal_waits_;
  RecordCounters record_counters_;

  // Used on the loop thread only.
  DurabilityGate gate_;
  Watches watches_;
  HelloWaits hellos_;
  std::map<core::SessionId, std::shared_ptr<SessionStream>> sessions_;
  // Closed sessions that have not ended yet, with their deadline.
  std::deque<std::pair<absl::Time, core::SessionId>> closing_;
  std::map<core::RequestId, Done> waiting_;
  uint64_t next_request_ = 1;
  bool draining_ = false;
  bool journal_failed_ = false;
  std::string journal_trouble_;  // why records wait; empty: they do not
  CompactionRule compaction_;

  Loop loop_;
  Loop::Timer wake_;
  Loop::Timer show_;
  Loop::Timer abandon_;
  Loop::Timer silent_;
  CompileThreads compile_threads_;  // posts to the loop
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_COORDINATOR_LOOP_H_
