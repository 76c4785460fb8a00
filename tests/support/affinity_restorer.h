// Restores the cores of the calling thread at the end of its scope, for tests
// that bind it.

#ifndef LOCKSTEP_TESTS_SUPPORT_AFFINITY_RESTORER_H_
#define LOCKSTEP_TESTS_SUPPORT_AFFINITY_RESTORER_H_

#include <optional>

#include "base/cpu_affinity.h"

namespace lockstep {

class AffinityRestorer {
 public:
  AffinityRestorer() : cores_(AllowedCores()) {}
  ~AffinityRestorer() {
    if (cores_) RunOn(*cores_);
  }
  AffinityRestorer(const AffinityRestorer&) = delete;
  AffinityRestorer& operator=(const AffinityRestorer&) = delete;

  const std::optional<cpu_set_t>& cores() const { return cores_; }

 private:
  const std::optional<cpu_set_t> cores_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_AFFINITY_RESTORER_H_
