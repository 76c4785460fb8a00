// The simulated process of the coordinator: the real coordinator, durability
// gate, records' bytes and frames, on a simulated disk.
//
//   Receive ─▶ Coordinator::Step ─▶ DurabilityGate ─▶ streams
//                                      │    ▲
//                            SimJournal┘    └ durable
//
// After every event it checks that a replay of the records gives the live
// state, and that nothing was sent that is not durable.

#ifndef LOCKSTEP_TESTS_SIM_SIM_DAEMON_H_
#define LOCKSTEP_TESTS_SIM_SIM_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/core/coordinator.h"
#include "server/runtime/durability_gate.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_journal.h"

namespace lockstep::sim {

class SimDaemon {
 public:
  // What the daemon needs of the world; all outlive it.
  struct Surroundings {
    std::function<absl::Time()> now;  // simulated
    std::function<void(absl::Duration, std::function<void()>)> after;
    std::function<absl::Duration(absl::Duration max)> draw;
    std::function<void(uint64_t stream, protocol::ToWorker)> send;
    std::function<void(uint64_t stream, absl::Status)> close;
    std::function<void(std::string)> note;
    std::function<void(std::string)> violated;
  };
  struct Options {
    uint64_t number = 1;  // of this process: 1, 2, 3, ...
    SimClock clock;
    absl::Duration sync_max = absl::Milliseconds(10);
    int records_per_snapshot = 0;  // 0: none
  };

  SimDaemon(const Surroundings* world, SimDisk* disk, const Options& options);
  ~SimDaemon();

  void Apply(const core::Event& event);
  std::shared_ptr<const plan::Plan> FindPlan(const JobName& job,
                                             const std::string& digest) const {
    return core_.FindPlan(job, digest);
  }
  const core::DurableState& durable() const { return core_.durable(); }
  // Handles nothing before that simulated time: the process is stopped.
  void StopUntil(absl::Time thaw) { stopped_until_ = thaw; }
  absl::Time stopped_until() const { return stopped_until_; }

 private:
  // `what` runs later, in this process only.
  void After(absl::Duration delay, std::function<void()> what);
  void Start();
  void Append(const record::Record& record);
  void Deliver();
  void Wake();
  void CheckPromised(const protocol::ToWorker& message) const;

  const Surroundings& world_;
  const Options options_;
  core::Coordinator core_;
  core::Coordinator follower_;  // replays every record
  core::DurableState safe_;     // of the durable records
  runtime::DurabilityGate gate_;
  SimJournal journal_;
  absl::Time wake_ = absl::InfiniteFuture();
  absl::Time stopped_until_ = absl::InfinitePast();
  int since_snapshot_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_SIM_DAEMON_H_
