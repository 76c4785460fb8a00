// Who is here: every worker a job has met, and which stream speaks for it.
//
//   joining ──▶ ready           its data plane is connected
//      └────┬─────┘
//        suspect                its stream broke; back when it resumes
//           │
//        lost, left             its seat is free
//
// Joining, ready and suspect workers are *seated*: together never more than the
// mesh has ranks. A worker that waits for the next epoch has *arrived*.
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
#include "plan/words/ids.h"
#include "plan/words/job_view.h"
#include "plan/words/protocol.h"
#include "server/core/event.h"

namespace lockstep::core {

// The newest life of a worker. Changed through the roster only, where it
// concerns state, session or arrival.
struct Worker {
  WorkerName name;
  Generation generation;
  WorkerState state = WorkerState::kJoining;
  SessionId session;  // 0: no stream
  protocol::ProcessInfo process;
  absl::Time since;  // it was welcomed
  absl::Time heard;
  bool arrived = false;
  std::string broke;  // suspect: why its stream ended
  // Suspect since the coordinator began, by which nothing is known of it: its
  // name is not free before its lease has ended.
  bool awaited = false;
  std::string exited;  // not empty: proof that the process is dead
  std::optional<protocol::Launch> launch;  // as its newest Hello said

  bool seated() const { return state <= WorkerState::kSuspect; }
  protocol::Member member() const { return {name, generation, process}; }
};

class Roster {
 public:
  // nullptr if it never met a worker of that name.
  Worker* Find(const WorkerName& name);
  const Worker* Find(const WorkerName& name) const;

  // A new life takes the name: joining, not arrived, without a stream.
  Worker& Begin(const WorkerName& name, Generation generation,
                const protocol::ProcessInfo& process, absl::Time now);

  // To any state; who is not seated any more has not arrived either.
  void Move(Worker* worker, WorkerState state);

  // It waits for the next epoch, or does not any more.
  void SetArrived(Worker* worker, bool arrived);

  int seated() const { return seated_; }

  // The names of those that wait for the next epoch, in name order, and whether
  // each of them has a stream.
  const std::set<WorkerName>& arrived() const { return arrived_; }
  bool all_arrived_are_here() const { return suspects_arrived_ == 0; }

  // Every worker, in name order.
  std::map<WorkerName, Worker>& workers() { return workers_; }
  const std::map<WorkerName, Worker>& workers() const { return workers_; }

 private:
  void Count(const Worker& worker, int sign);

  std::map<WorkerName, Worker> workers_;
  std::set<WorkerName> arrived_;
  int seated_ = 0;
  int suspects_arrived_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_ROSTER_H_
