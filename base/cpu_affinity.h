// The cores on which a thread may run (sched_setaffinity).
//
// Threads: each call is about the calling thread.

#ifndef LOCKSTEP_BASE_CPU_AFFINITY_H_
#define LOCKSTEP_BASE_CPU_AFFINITY_H_

#include <sched.h>

#include <optional>

namespace lockstep {

// The cores that the calling thread may use; nothing if the system does not
// say.
std::optional<cpu_set_t> AllowedCores();

// Lets the calling thread, and what it starts from now on, run on `cores` only.
// False if the system refuses.
bool RunOn(const cpu_set_t& cores);

// The share of process `index` of `processes` in `cores`: parts of consecutive
// cores whose sizes differ by one at most. With more processes than cores, one
// core, which the processes use in turn.
cpu_set_t ShareOfCores(const cpu_set_t& cores, int index, int processes);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CPU_AFFINITY_H_
