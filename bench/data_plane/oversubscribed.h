// The smallest all-reduces, and those of more ranks than cores.
//
// Bounds for eight ranks on two cores. Small messages: each rank must get a
// core twice (to arrive, and to see that all have read); 8 bytes need a core
// once and are shown for comparison. Large messages: the buffers of eight ranks
// are four times those of two, so they exceed the caches earlier.

#ifndef LOCKSTEP_BENCH_DATA_PLANE_OVERSUBSCRIBED_H_
#define LOCKSTEP_BENCH_DATA_PLANE_OVERSUBSCRIBED_H_

#include "bench/data_plane/report.h"

namespace lockstep::bench {

inline constexpr int kManyRanks = 8;  // ranks

// Adds times and figures: medians over `rounds`. Each round measures all sides.
void MeasureOversubscribed(int rounds, Report& report);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_DATA_PLANE_OVERSUBSCRIBED_H_
