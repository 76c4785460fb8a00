// What the recovery from the end of an epoch may be, from what its coordinator
// has heard: an oracle beside the real one.
//
//   - It is decided when every member has reported, has left or is lost.
//   - No step is done again that a member which is here has passed, or one that
//     left after the last step.
//   - No epoch begins before it is decided, if a member has reported.
//
// The oracle does not know when the coordinator gives a member up. It only
// speaks of members that live, and were never silent for long.

#ifndef LOCKSTEP_TESTS_SIM_RECOVERY_ORACLE_H_
#define LOCKSTEP_TESTS_SIM_RECOVERY_ORACLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "protocol/protocol.h"
#include "protocol/record.h"
#include "server/core/durable_state.h"

namespace lockstep::sim {

class RecoveryOracle {
 public:
  // A message on the stream whose last Hello this is.
  void Heard(absl::Time now, const protocol::Hello& hello,
             const protocol::ToCoordinator& message);

  // Call it before `job` changes. Returns what is wrong, if anything is.
  // `lives`: whether the process with this number lives.
  std::optional<std::string> Check(
      absl::Time now, const record::Body& body, const core::DurableJob& job,
      const std::function<bool(uint64_t process)>& lives);

 private:
  struct Process {
    absl::Time heard = absl::InfinitePast();
    bool was_silent = false;  // in this epoch
    std::optional<protocol::EpochReport> report;
    bool left = false;
  };

  std::optional<std::string> CheckDecision(
      absl::Time now, const protocol::RecoveryDecision& decision,
      const core::DurableJob& job,
      const std::function<bool(uint64_t process)>& lives) const;

  EpochId epoch_;
  std::map<int64_t, Process> processes_;   // by number
  std::map<std::string, int64_t> newest_;  // process of each worker
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_RECOVERY_ORACLE_H_
