// Plays all ranks of a plan against each other and finds who waits in a circle.
//
// Rendezvous: a transfer ends only when all that take part in it have begun it.
//
//   rank 0   [send to 1] [recv from 1]       both begin with a send, and
//   rank 1   [send to 0] [recv from 0]       neither send ever ends
//
// A queue begins its next transfer when the one before has ended and all that
// it comes after have. Neighbours of one group begin and end together. No
// transfer can be lost or overtaken here, so the outcome does not depend on the
// speed of any rank: one play is a proof.

#ifndef LOCKSTEP_PLAN_VERIFY_PLAYER_H_
#define LOCKSTEP_PLAN_VERIFY_PLAYER_H_

#include <optional>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "plan/verify/traffic.h"

namespace lockstep::plan {

// What queues up behind what. The second is what a device does that can hold
// one operation at a time; a plan that passes it passes the first as well, so
// the first only tells which plans cannot run anywhere.
enum class Queues { kEachLane, kEachRank };

enum class WaitKind {
  kBehind,   // an earlier transfer of the same queue
  kAfter,    // a transfer that it depends on
  kPartner,  // the other side, which has not begun
};

struct Wait {
  Place waiter;
  WaitKind kind;
  Place awaited;
};

// The play ends with nothing left over: nullopt. Else a circle: each `awaited`
// is, or is of one group with, the next `waiter`, and the last is the first's.
//
// The plan must have passed all other checks.
std::optional<std::vector<Wait>> FindDeadlock(const Plan& plan,
                                              const Traffic& traffic,
                                              Queues queues);

// The circle, for people. The first 16 waits of it.
std::string Describe(const Plan& plan, const std::vector<Wait>& circle);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_PLAYER_H_
