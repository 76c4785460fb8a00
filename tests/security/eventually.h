// Waits for what another process or thread does in its own time.

#ifndef LOCKSTEP_TESTS_SECURITY_EVENTUALLY_H_
#define LOCKSTEP_TESTS_SECURITY_EVENTUALLY_H_

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace lockstep::security {

// True once `holds` returns true; false if it does not within a minute.
inline bool Eventually(const std::function<bool()>& holds) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!holds()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(100));
  }
  return true;
}

}  // namespace lockstep::security

#endif  // LOCKSTEP_TESTS_SECURITY_EVENTUALLY_H_
