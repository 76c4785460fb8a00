// AddFiniteCheck on the device, with the same bits as kernels/finite_check.h
// for any grid. Up to 1,024 ranges take three launches.
//
//   warp  ── a run of 4096 elements of a range ──▶ partial   thread l: lane l
//   block ── a range's partials, level by level ─▶ its sum   of sum_tree.h
//   thread ─ the ranges' sums, in order ─────────▶ *total
//
// Threads: one warp per run, 8 per block; the second launch has one block per
//          range, the third one thread.
// Bytes:   per element: reads it once; per run of 4096: writes and reads 8.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// `ranges` is in host memory and copied during the call. launch.h has the rules
// of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_
#define LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_

#include <span>

#include "kernels/device/launch.h"
#include "kernels/finite_check.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// `scratch`: FiniteCheckScratchBytes(ranges) bytes of device memory. *total is
// in device memory too.
Launched AddFiniteCheck(const void* data, DType dtype,
                        std::span<const ElementRange> ranges,
                        double inverse_scale, void* scratch, FiniteCheck* total,
                        Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_
