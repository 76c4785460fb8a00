// The roster: every worker a job has seen, and the stream bound to it.
//
//   joining ──▶ ready           its data plane is connected
//      └────┬─────┘
//        suspect                its stream broke; it may resume
//           │
//        lost, left             its rank is free
//
// Joining, ready and suspect workers *hold a rank*: each counts against the
// number of ranks in the mesh. A worker that waits for the next epoch has
// *arrived*.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_ROSTER_H_
#define LOCKSTEP_SERVER_CORE_ROSTER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/ids.h"
#include "protocol/job_view.h"
#include "protocol/types.h"
#include "server/core/event.h"

namespace lockstep::core {

// The state of a worker after `steps` steps of the job, by which the recovery
// from an epoch of `world` members goes on.
struct DecidedState {
  uint64_t steps = 0;
  int world = 0;
  int cell = 0;  // CellOf its rank
};

// The newest incarnation of a worker. State, session and arrived are changed
// through the roster only.
struct Worker {
  WorkerName name;
  Generation generation;
  WorkerState state = WorkerState::kJoining;
  SessionId session;  // 0: no stream
  protocol::ProcessInfo process;
  absl::Time since;  // when it was welcomed
  absl::Time heard;
  bool arrived = false;
  // It said something after its Welcome, so it has its secret.
  bool has_secret = false;
  std::string broke;  // suspect: why its stream ended
  absl::Time broke_at = absl::InfinitePast();
  // It trains though its lease or resume window has passed; noted once.
  bool trains_unheard = false;
  // Suspect since the coordinator restarted, which knows nothing else of it:
  // its name is not free before its lease expires.
  bool awaited = false;
  std::string exited;         // not empty: proof that the process is dead
  std::string watch_address;  // as in Hello
  // As it reported by Busy; a time in the past if it is not busy.
  absl::Time busy_until = absl::InfinitePast();
  // When another worker found nothing listening at that address.
  absl::Time socket_closed = absl::InfinitePast();
  std::optional<protocol::Launch> launch;  // from its newest Hello
  // It came with the state that a recovery decided on. While it waits, it keeps
  // that state until the others have passed a step: see HeldCell of Job.
  std::optional<DecidedState> held;

  bool holds_rank() const { return state <= WorkerState::kSuspect; }
  protocol::Member member() const {
    return {name, generation, process, watch_address};
  }
};

class Roster {
 public:
  // nullptr: no worker of that name has joined.
  Worker* Find(const WorkerName& name);
  const Worker* Find(const WorkerName& name) const;

  // A new incarnation takes the name: joining, not arrived, without a stream.
  Worker& Begin(const WorkerName& name, Generation generation,
                const protocol::ProcessInfo& process, absl::Time now);

  // Sets the state. A worker that no longer holds a rank has not arrived
  // either.
  void Move(Worker* worker, WorkerState state);

  // The worker starts or stops waiting for the next epoch.
  void SetArrived(Worker* worker, bool arrived);

  int ranks_held() const { return ranks_held_; }

  // The names of the workers that wait for the next epoch, in name order, and
  // whether each of them has a stream.
  const std::set<WorkerName>& arrived() const { return arrived_; }
  bool all_arrived_are_here() const { return suspects_arrived_ == 0; }

  // Every worker, in name order.
  std::map<WorkerName, Worker>& workers() { return workers_; }
  const std::map<WorkerName, Worker>& workers() const { return workers_; }

 private:
  void Count(const Worker& worker, int sign);

  std::map<WorkerName, Worker> workers_;
  std::set<WorkerName> arrived_;
  int ranks_held_ = 0;
  int suspects_arrived_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ROSTER_H_
