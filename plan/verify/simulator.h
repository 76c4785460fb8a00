// Simulates all ranks of a plan together and finds cycles of waits (deadlocks).
//
// Rendezvous: a transfer ends only after all its participants have begun it.
//
//   rank 0   [send to 1] [recv from 1]       both begin with a send, and
//   rank 1   [send to 0] [recv from 0]       neither send ever ends
//
// A queue begins its next transfer when the previous one and all its
// dependencies have ended. Adjacent transfers of one group begin and end
// together. A rank's tasks are a separate queue; a task needs no partner. No
// transfer is lost or overtaken, so the outcome does not depend on the speed of
// any rank: one simulation is a proof.

#ifndef LOCKSTEP_PLAN_VERIFY_SIMULATOR_H_
#define LOCKSTEP_PLAN_VERIFY_SIMULATOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {

// Which operations share a queue. kEachRank: all transfers of a rank, as on a
// device that runs one operation at a time; a plan that passes it passes the
// others too. kEachLane: lanes are independent; a plan that fails it cannot run
// anywhere. kInLaunchOrder, the usual case: lanes run independently, but a rank
// launches in its launch order, so a transfer that waits for a task delays the
// later launches.
enum class QueueSharing { kEachLane, kInLaunchOrder, kEachRank };

enum class WaitKind {
  kBehind,   // an earlier entry of the same queue
  kAfter,    // a dependency
  kPartner,  // the other side, which has not begun
};

struct Wait {
  PlanNode waiter;
  WaitKind kind;
  PlanNode awaited;
};

// nullopt if the simulation completes. Else a cycle: each `awaited` is the next
// `waiter`, or in one group with it; the last is that of the first.
//
// The plan must have passed all other checks.
std::optional<std::vector<Wait>> FindDeadlock(const Plan& plan,
                                              const Traffic& traffic,
                                              QueueSharing queues);

// Durations in any unit, not negative. A transfer starts when all its
// participants have begun it.
struct Durations {
  std::function<int64_t(const Task&)> task;
  std::function<int64_t(const Transfer&)> transfer;
};

struct Span {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Span&) const = default;
};

struct RankSpans {
  std::vector<std::vector<Span>> lanes;  // of each transfer
  std::vector<Span> tasks;
};

// The times of all tasks and transfers, each as early as possible and without
// contention; nullopt if the plan deadlocks. Otherwise as FindDeadlock.
std::optional<std::vector<RankSpans>> PlayInTime(const Plan& plan,
                                                 const Traffic& traffic,
                                                 QueueSharing queues,
                                                 const Durations& durations);

// The cycle as text: its first 16 waits.
std::string Describe(const Plan& plan, const std::vector<Wait>& circle);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_SIMULATOR_H_
