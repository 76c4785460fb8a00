// ScaleAndCheck on the device, with the same bits as kernels/scale_and_check.h
// for any grid. Up to 1,024 ranges and parts between them take three launches:
//
//   warp  ── a run of 4096 elements × factor ─▶ data
//             └─ of a range: also its sum ────▶ partial    thread l: lane l of
//   block ── a range's partials, by level ────▶ its sum    sum_tree.h
//   thread ─ the ranges' sums, in order ──────▶ *total
//
// Threads: one warp per run, 8 per block, the ranges' runs first; the second
//          and the third launch as in finite_check.h.
// Bytes:   per element: reads it once, writes it once; per run of a range of
//          4096: writes and reads 8.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// `checked` is in host memory and copied during the call. launch.h has the
// rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_SCALE_AND_CHECK_H_
#define LOCKSTEP_KERNELS_DEVICE_SCALE_AND_CHECK_H_

#include <span>

#include "kernels/device/launch.h"
#include "kernels/scale_and_check.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// `scratch`: FiniteCheckScratchBytes(checked) bytes of device memory. *total is
// in device memory too.
Launched ScaleAndCheck(void* data, DType dtype, double factor,
                       const ElementRange& scaled,
                       std::span<const ElementRange> checked, void* scratch,
                       FiniteCheck* total, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_SCALE_AND_CHECK_H_
