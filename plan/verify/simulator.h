// Plays all ranks of a plan against each other and finds who waits in a circle.
//
// Rendezvous: a transfer ends only when all that take part in it have begun it.
//
//   rank 0   [send to 1] [recv from 1]       both begin with a send, and
//   rank 1   [send to 0] [recv from 0]       neither send ever ends
//
// A queue begins its next transfer when the one before has ended and all that
// it comes after have. Neighbours of one group begin and end together. A rank's
// tasks are a queue too, beside the others; a task ends by itself. No transfer
// can be lost or overtaken here, so the outcome does not depend on the speed of
// any rank: one play is a proof.

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

// What queues up behind what. kEachRank is what a device does that can hold one
// operation at a time; a plan that passes it passes the others as well, so
// kEachLane only tells which plans cannot run anywhere. kInLaunchOrder is what
// happens else: lanes run by themselves, but a rank launches in its launch
// order, and what waits for a task holds up what is launched behind it.
enum class Queues { kEachLane, kInLaunchOrder, kEachRank };

enum class WaitKind {
  kBehind,   // something earlier in the same queue
  kAfter,    // what it depends on
  kPartner,  // the other side, which has not begun
};

struct Wait {
  PlanNode waiter;
  WaitKind kind;
  PlanNode awaited;
};

// The play ends with nothing left over: nullopt. Else a circle: each `awaited`
// is, or is of one group with, the next `waiter`, and the last is the first's.
//
// The plan must have passed all other checks.
std::optional<std::vector<Wait>> FindDeadlock(const Plan& plan,
                                              const Traffic& traffic,
                                              Queues queues);

// How long things take, in any unit, not negative. A transfer takes its time
// from the moment when all that take part have begun it.
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

// When everything happens, each as early as it can and without getting in each
// other's way; nullopt if the plan deadlocks. As FindDeadlock otherwise.
std::optional<std::vector<RankSpans>> PlayInTime(const Plan& plan,
                                                 const Traffic& traffic,
                                                 Queues queues,
                                                 const Durations& durations);

// The circle, for people. The first 16 waits of it.
std::string Describe(const Plan& plan, const std::vector<Wait>& circle);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_SIMULATOR_H_
