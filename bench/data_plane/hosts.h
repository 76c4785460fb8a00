// Several hosts, simulated on this one: shared memory on each host and Gloo
// between hosts, compared to Gloo between all ranks.
//
// Bytes between hosts go through this machine's loopback, as do all bytes of
// flat Gloo. So both have the same cost per byte, and the figure shows how many
// fewer bytes are sent.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_HOSTS_H_
#define LOCKSTEP_BENCH_DATA_PLANE_HOSTS_H_

#include "bench/data_plane/report.h"

namespace lockstep::bench {

inline constexpr int kHosts = 2;
inline constexpr int kRanksOnHosts = 4;

// Adds times and figures: medians over `rounds`. Each round measures all sides.
void MeasureHosts(int rounds, Report& report);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_HOSTS_H_
