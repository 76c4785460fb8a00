#include "base/cpu_affinity.h"

#include <vector>

namespace lockstep {

std::optional<cpu_set_t> AllowedCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return std::nullopt;
  return cores;
}

bool RunOn(const cpu_set_t& cores) {
  return sched_setaffinity(0, sizeof cores, &cores) == 0;
}

cpu_set_t ShareOfCores(const cpu_set_t& cores, int index, int processes) {
  std::vector<int> all;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) all.push_back(core);
  }
  cpu_set_t share;
  CPU_ZERO(&share);
  const auto count = static_cast<int>(all.size());
  if (count < processes) {
    if (count > 0) CPU_SET(all[index % count], &share);
    return share;
  }
  for (int i = index * count / processes; i < (index + 1) * count / processes;
       ++i) {
    CPU_SET(all[i], &share);
  }
  return share;
}

}  // namespace lockstep
