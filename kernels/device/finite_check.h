// kernels/finite_check.h on the device: the same bits, whatever the grid.
//
//   warp r ── run r of 4096 elements ──▶ partial[r]      sum_tree.h's lanes are
//   warp q ── partials of run q ───────▶ partial'[q]     the warp's threads
//                      ... until one is left
//
// launch.h says what holds for every function here.

#ifndef LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_
#define LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "kernels/finite_check.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// Bytes of scratch memory, aligned to 8, that a check of `count` elements
// writes.
size_t FiniteCheckScratchBytes(size_t count);

// *result, in the device's memory, is what CheckFinite returns on the host.
Launched CheckFinite(const void* data, DType dtype, size_t count,
                     double inverse_scale, void* scratch, FiniteCheck* result,
                     Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_H_
