// The simulated process of the coordinator: the real coordinator, durability
// gate, records' bytes and frames, on a simulated disk.
//
//   Receive ─▶ Coordinator::Step ─▶ DurabilityGate ─▶ streams
//                                      │    ▲
//                            SimJournal┘    └ durable
//
// After every event it checks that a replay of the records gives the live
// state; at its start, that what the disk has (a snapshot, frames) gives the
// state that was live after the same record; of every message, that what it
// promises is durable, and that it is for a process with the newest generation
// and its secret; of every death that is proven, that the process is dead; of
// every recovery, that it follows from what was heard.

#ifndef LOCKSTEP_TESTS_SIM_SIM_DAEMON_H_
#define LOCKSTEP_TESTS_SIM_SIM_DAEMON_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/core/coordinator.h"
#include "server/runtime/durability_gate.h"
#include "tests/sim/recovery_oracle.h"
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
    // The process of a worker, by its number in the world, lives.
    std::function<bool(uint64_t process)> lives;
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
  void CheckReplayed();
  void CheckDead(const record::EpochFinished& finished);
  bool IsAccusedOfALink(uint64_t stream, const protocol::Cause& cause) const;
  void CheckPromised(uint64_t stream, const protocol::ToWorker& message) const;
  void CheckWelcome(uint64_t stream, const core::DurableJob& job,
                    Generation welcomed) const;

  const Surroundings& world_;
  const Options options_;
  core::Coordinator core_;
  core::Coordinator follower_;  // replays every record
  core::DurableState safe_;     // of the durable records
  runtime::DurabilityGate gate_;
  SimDisk& disk_;
  SimJournal journal_;
  RecoveryOracle oracle_;
  std::map<uint64_t, protocol::Hello> hellos_;  // the last of each stream
  absl::Time wake_ = absl::InfiniteFuture();
  absl::Time stopped_until_ = absl::InfinitePast();
  int since_snapshot_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_SIM_DAEMON_H_
