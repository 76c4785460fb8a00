// Several hosts, pretended on this one: shared memory on each and Gloo between,
// beside Gloo alone between all ranks.
//
// What crosses between the hosts crosses this machine's loopback, as all of
// flat Gloo's bytes do: so both pay the same for a byte, and the figure is for
// how few are sent.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_HOSTS_H_
#define LOCKSTEP_BENCH_DATA_PLANE_HOSTS_H_

#include "bench/data_plane/report.h"

namespace lockstep::bench {

inline constexpr int kHosts = 2;
inline constexpr int kRanksOnHosts = 4;

// Adds times and figures: medians of `rounds`, each of which measures all in
// turn.
void MeasureHosts(int rounds, Report& report);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_HOSTS_H_
