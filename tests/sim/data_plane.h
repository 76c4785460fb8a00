// The simulated data plane: groups of ranks whose operations complete when all
// members have contributed.
//
//   rank 0  Post(group, 3, offer) ──┐            ┌─▶ done(all offers)
//   rank 1  Post(group, 3, offer) ──┼─ complete ─┼─▶ done, some time later
//   rank 2  Post(group, 3, offer) ──┘            └─x it has died meanwhile
//
// A group is named by the handles of its members, as the coordinator hands them
// out, so processes that were given different handles never meet. What a rank
// has posted stays, also when it dies: a collective may complete at some ranks
// and not at others. After a link between two members broke, nothing posted
// later in a group of both completes.

#ifndef LOCKSTEP_TESTS_SIM_DATA_PLANE_H_
#define LOCKSTEP_TESTS_SIM_DATA_PLANE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/gradient/step_summary.h"
#include "tests/sim/training_history.h"

namespace lockstep::sim {

// One rank's part in a collective.
struct Offer {
  uint64_t process = 0;  // that posted it
  gradient::StepId step_id;
  std::string plan_digest;
  std::string operation;  // must be equal on all members
  Contributions gradients;
  std::optional<gradient::SummaryVectors> summary;
  // For a newcomer that asks for the state.
  std::shared_ptr<const Model> model;
  bool holds_state = false;
};

class DataPlane {
 public:
  using Offers = std::vector<Offer>;  // by member
  using Done = std::function<void(const Offers&)>;
  // Schedules `run` in the process.
  using Schedule = std::function<void(std::function<void()> run)>;

  // Member number `member` of `size` posts its operation number `sequence`.
  // `done` is scheduled by `schedule` once all have.
  void Post(const std::string& group, int size, int member, uint64_t sequence,
            Offer offer, Schedule schedule, Done done);

  // The connections between two processes, in all groups that they have
  // connected, fail.
  void Break(uint64_t process, uint64_t other);

  // What has been posted; for the partial sums that an abort leaves.
  std::vector<const Offer*> Posted(const std::string& group,
                                   uint64_t sequence) const;

  uint64_t completed() const { return completed_; }

 private:
  struct Waiter {
    Schedule schedule;
    Done done;
  };
  struct Operation {
    std::vector<std::optional<Offer>> offers;
    std::vector<Waiter> waiters;
  };

  std::map<std::pair<std::string, uint64_t>, Operation> operations_;
  std::set<std::string> broken_;  // groups
  uint64_t completed_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_DATA_PLANE_H_
