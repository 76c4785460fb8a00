// What the parts of an epoch share: a context for one event, and the end that a
// part can ask for.
//
//   Job ──▶ Epoch ──▶ ConnectStage, PlanRevisions, Departures, ...
//    ▲        │            │
//    └────────┴────────────┘  EpochEnd, if the epoch must end
//
// A part never ends its epoch itself; it returns an EpochEnd and does nothing
// afterwards.

#ifndef LOCKSTEP_SERVER_CORE_EPOCH_CONTEXT_H_
#define LOCKSTEP_SERVER_CORE_EPOCH_CONTEXT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/job_spec.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "server/core/durable_state.h"
#include "server/core/event_context.h"
#include "server/core/job_log.h"
#include "server/core/members.h"
#include "server/core/progress_tracker.h"

namespace lockstep::core {

// Whether the job forms another epoch after this one. kIfDesired: without
// spending a restart, unless an operator wants the job to stop or drain.
enum class Again { kIfBudgetAllows, kNever, kWhenWorkersCome, kIfDesired };

// Why an epoch ends, and what follows.
struct EpochEnd {
  protocol::Cause cause;
  Again again = Again::kIfBudgetAllows;
  std::vector<int> lost;       // ranks whose workers are lost by this end
  WorkerName unfinished = {};  // as in record::EpochFinished
};

// The epoch as its parts see it while they handle one event.
struct EpochContext {
  const DurableJob& durable;
  Members& members;
  ProgressTracker& progress;
  JobLog& log;
  EventContext& event;

  absl::Time now() const { return event.now; }
  const JobSpec& spec() const { return durable.spec; }

  void Send(int rank, protocol::ToWorkerBody body) {
    event.out.Send(members.At(rank).session, durable.name(), members.epoch(),
                   std::move(body));
  }
  void SendAll(const protocol::ToWorkerBody& body) {
    for (int rank = 0; rank < members.size(); ++rank) Send(rank, body);
  }
  void Record(record::Body body) {
    event.out.Record(durable.name(), std::move(body));
  }
  CompilationId Compile(CompileInput input) {
    return event.out.Compile(durable.name(), std::move(input));
  }
  void Remember(std::string text) { log.Remember(std::move(text), event); }

  // The rank did what the epoch required of it.
  void Touch(int rank) {
    if (progress.Touch(rank, now())) RememberItGoesOn(rank);
  }
  // The rank was called stuck and has moved.
  void RememberItGoesOn(int rank) {
    Remember(absl::StrCat(members.WhoIs(rank), " goes on"));
  }

  // The ranks disagree, or one of them breaks the protocol. `rank` -1: about
  // all ranks.
  EpochEnd Mismatch(int rank, const std::string& what) const {
    protocol::Cause cause{.kind = protocol::CauseKind::kMismatch,
                          .message = what};
    if (rank >= 0) {
      cause.workers = {members.NameAt(rank)};
      cause.message = absl::StrCat(members.WhoIs(rank), " ", what);
    }
    return {std::move(cause), Again::kNever, {}};
  }
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_EPOCH_CONTEXT_H_
