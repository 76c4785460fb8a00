// The smallest all-reduces, and those of more ranks than cores.
//
// What bounds eight ranks on two cores: small, that each must be given a core
// twice (once to come, once to find that all have read), so one of 8 bytes,
// which needs it once, is shown beside; large, that the buffers of eight are
// four times those of two, so that they leave the caches earlier.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_CROWD_H_
#define LOCKSTEP_BENCH_DATA_PLANE_CROWD_H_

#include "bench/data_plane/report.h"

namespace lockstep::bench {

inline constexpr int kCrowd = 8;  // ranks

// Adds times and figures: medians of `rounds`, each of which measures all in
// turn.
void MeasureCrowd(int rounds, Report& report);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_CROWD_H_
