#include "server/core/roster.h"

namespace lockstep::core {

Worker* Roster::Find(const WorkerName& name) {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

const Worker* Roster::Find(const WorkerName& name) const {
  const auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker& Roster::Begin(const WorkerName& name, Generation generation,
                      const protocol::ProcessInfo& process, absl::Time now) {
  Worker& worker = workers_[name];
  if (worker.generation.value != 0) {
    SetArrived(&worker, false);
    Count(worker, -1);
  }
  worker = {.name = name,
            .generation = generation,
            .process = process,
            .since = now,
            .heard = now};
  Count(worker, +1);
  return worker;
}

void Roster::Move(Worker* worker, WorkerState state) {
  Count(*worker, -1);
  worker->state = state;
  Count(*worker, +1);
  if (!worker->holds_rank()) SetArrived(worker, false);
}

void Roster::SetArrived(Worker* worker, bool arrived) {
  Count(*worker, -1);
  worker->arrived = arrived;
  if (arrived) {
    arrived_.insert(worker->name);
  } else {
    arrived_.erase(worker->name);
  }
  Count(*worker, +1);
}

void Roster::Count(const Worker& worker, int sign) {
  if (worker.holds_rank()) ranks_held_ += sign;
  if (worker.arrived && worker.state == WorkerState::kSuspect) {
    suspects_arrived_ += sign;
  }
}

}  // namespace lockstep::core
