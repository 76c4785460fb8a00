// kernels/finite_check.h on the device: the same bits, whatever the grid, for
// up to 1,024 ranges in three launches.
//
//   warp  ── a run of 4096 elements of a range ──▶ partial   sum_tree.h's lanes
//   block ── a range's partials, level by level ─▶ its sum   are the warp's
//   thread ─ the ranges' sums, in order ─────────▶ *total    threads
//
// The list of ranges is the host's and is copied in the call. launch.h says
// what holds for every function here.

#ifndef LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_
#define LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_

#include <span>

#include "kernels/device/launch.h"
#include "kernels/finite_check.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// `scratch`: FiniteCheckScratchBytes(ranges) in the device's memory, where
// *total lies too.
Launched AddFiniteCheck(const void* data, DType dtype,
                        std::span<const ElementRange> ranges,
                        double inverse_scale, void* scratch, FiniteCheck* total,
                        Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_
