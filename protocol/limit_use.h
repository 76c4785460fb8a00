// One limit of a coordinator, and how it was used since the coordinator began:
// a line of `lockstepctl limits`.
//
// Counts wherever the limit is enforced; not thread-safe.

#ifndef LOCKSTEP_PROTOCOL_LIMIT_USE_H_
#define LOCKSTEP_PROTOCOL_LIMIT_USE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct LimitUse {
  std::string name;  // "jobs"
  int64_t value = 0;
  // Now. Absent: the limit is for single messages, or a rate.
  std::optional<int64_t> used;
  int64_t highest = 0;  // that was within the limit
  int64_t refused = 0;  // how often something was refused for it
  bool operator==(const LimitUse&) const = default;

  // Whether `amount` is within the limit. Counts a refusal if it is not.
  bool Admits(int64_t amount) {
    if (amount <= value) {
      highest = std::max(highest, amount);
      return true;
    }
    ++refused;
    return false;
  }
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_LIMIT_USE_H_
