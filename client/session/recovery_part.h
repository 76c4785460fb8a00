// The part of one rank in a recovery: pure decisions of Session::Recover, which
// the simulation (tests/sim) runs, too.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_SESSION_RECOVERY_PART_H_
#define LOCKSTEP_CLIENT_SESSION_RECOVERY_PART_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "protocol/evidence.h"

namespace lockstep::session {

enum class RecoveryPart : uint8_t {
  kNewcomer = 1,  // its state is not the one that training goes on with
  kReplay,        // its state is, without the step in progress
  kRollForward,   // its state is, once the step in progress is applied
  // The job begins anew, and this process has passed a step, or joined a
  // training and may have received a part of its state. So its state may not be
  // the one that a program begins with, which newcomers may be asked for.
  kStartAgain,
};

// The part of `rank`, which reported that the next step is `steps`.
inline RecoveryPart PartOf(const protocol::RecoveryDecision& decision, int rank,
                           uint64_t steps) {
  const bool holds =
      std::find(decision.holders.begin(), decision.holders.end(),
                static_cast<uint32_t>(rank)) != decision.holders.end();
  if (!holds) {
    return decision.steps == 0 && steps > 0 ? RecoveryPart::kStartAgain
                                            : RecoveryPart::kNewcomer;
  }
  return steps == decision.steps ? RecoveryPart::kReplay
                                 : RecoveryPart::kRollForward;
}

// How an epoch began for one rank (EpochFormed), and whether the rank has
// loaded the state since.
struct EpochBeginning {
  const std::vector<uint32_t>& holders;
  int rank = -1;
  uint64_t first_step = 0;
  // False: the state is cut along an elastic axis that has another size than
  // before, so no rank has what it needs.
  bool fits = true;
  bool loaded = false;
};

// Whether the rank's state is that after `step` steps. A newcomer holds the
// state once it has received it, or has trained: then it had state that the
// program took from elsewhere.
inline bool HoldsStateAt(uint64_t step, const EpochBeginning& began) {
  if (step > began.first_step || began.loaded) return true;
  if (!began.fits) return false;
  const std::vector<uint32_t>& all = began.holders;
  const bool began_with_it =
      std::find(all.begin(), all.end(), static_cast<uint32_t>(began.rank)) !=
      all.end();
  return began_with_it || (all.empty() && began.first_step == 0);
}

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_RECOVERY_PART_H_
