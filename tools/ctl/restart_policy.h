// Which workers of a launcher start again, when, and how often.
//
//   worker-2 dies      |x                                  incident 1
//   worker-0 exits     |  x   its epoch has ended             "
//                      |◀── grace ──▶|
//   worker-2 dies      |         x|                        incident 2: again
//                                 |◀─ pause ─▶| start
//
// A failure ends the epoch of all workers. Those that do not recover from it
// (Session::Recover) exit in turn: failures of other workers within `grace` of
// an incident's first failure belong to the incident. A worker that fails again
// begins a new incident, and so does a failure after `grace`.
//
// An incident is one restart. The first one, and one after a minute without
// any, starts its workers at once; consecutive ones wait 0.1 s, 0.2 s, 0.4 s,
// ... up to 30 s after their first failure.
//
// Threads: none. Pure: the time is an argument.

#ifndef LOCKSTEP_TOOLS_CTL_RESTART_POLICY_H_
#define LOCKSTEP_TOOLS_CTL_RESTART_POLICY_H_

#include <optional>
#include <set>
#include <string>

#include "absl/time/time.h"

namespace lockstep::ctl {

struct Restart {
  int number = 0;        // of the incident, from 1
  absl::Duration pause;  // before the worker starts again
  bool operator==(const Restart&) const = default;
};

class RestartPolicy {
 public:
  RestartPolicy(int restarts_max, absl::Duration grace)
      : restarts_max_(restarts_max), grace_(grace) {}

  // The worker has failed. nullopt: the restarts are used up.
  std::optional<Restart> OnFailure(const std::string& worker, absl::Time now);

  // The worker has ended well, before an incident or in it, and the job needs
  // it again. nullopt: no incident is in progress, or the worker was started
  // again in it.
  std::optional<Restart> OnNeeded(const std::string& worker, absl::Time now);

  // The number of incidents so far.
  int used() const { return used_; }

 private:
  bool InIncident(absl::Time now) const;
  void BeginIncident(absl::Time now);
  Restart Join(const std::string& worker, absl::Time now);

  const int restarts_max_;
  const absl::Duration grace_;
  int used_ = 0;
  // The newest incident.
  absl::Time first_failure_ = absl::InfinitePast();
  absl::Time start_at_ = absl::InfinitePast();
  absl::Duration pause_;
  std::set<std::string> workers_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_RESTART_POLICY_H_
