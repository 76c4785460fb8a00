// The loss scale in device memory: dynamic loss scaling for f16 gradients
// without a part of the host (GradientSync::ScaleLossOnDevice).
//
//   stream  [forward, loss * scale, backward][FinishAsync][update][loss * scale
//                   ▲ reads                       │                    ▲ reads
//   device          scale of step k               └─▶ scale of step k + 1
//
// The gate that decides step k divides by its scale: VerdictScalars::clip and
// the global norm have the factor 1 / scale. Then it sets the scale of step
// k + 1, with the same result on all ranks:
//
//   step k                             scale                   without overflow
//   committed, an element not finite   backoff_factor times    0
//   committed, finite                  the same, or            one more, or
//     after growth_interval of them    growth_factor times     0
//   not committed, or void             the same                the same
//
// A step with elements that are not finite counts, but MayUpdate is false: no
// rank updates. The scale is at least scale_min and at most scale_max.
//
//   __global__ void Loss(const LossScale* scale, float* gradient, ...) {
//     ... gradient[i] = scale->scale * (softmax[i] - target[i]);
//   }
//   const LossScale* scale = *sync->DeviceLossScale();     // on the host, once
//   Loss<<<..., stream>>>(scale, ...);                     // in every step
//
// Pass the pointer, never the value. It is the same for eager and captured
// steps.
//
// Order: every read of a step's scale must be
//  - behind FinishAsync of the step before: on its stream, on one that waits
//    for it, or enqueued after that verdict was waited for. The stream is held
//    there until the gate has decided, also with steps in flight, so the gate
//    that sets the scale is done;
//  - before FinishAsync of the step, on its stream, or on one that it waits
//    for. The gate that sets the next scale runs behind all transfers of the
//    step and behind that point of the stream, so it overwrites no scale that
//    is still read.
// Therefore a backward pass reads one scale from its begin to its end, and this
// rank's record of the step, which is written between these two points, has the
// very scale that the pass has read.
//
// This header includes neither CUDA nor other headers of this library.

#ifndef LOCKSTEP_LOSS_SCALE_H_
#define LOCKSTEP_LOSS_SCALE_H_

#include <cstdint>

namespace lockstep {

// All that the next steps need of the former ones: save it in checkpoints.
struct LossScale {
  float scale = 65536;
  // Finite steps in a row since the scale changed.
  uint32_t steps_without_overflow = 0;

  // Written out for compilers of kernels before C++20.
  friend constexpr bool operator==(const LossScale& a, const LossScale& b) {
    return a.scale == b.scale &&
           a.steps_without_overflow == b.steps_without_overflow;
  }
};
static_assert(sizeof(LossScale) == 8);

}  // namespace lockstep

#endif  // LOCKSTEP_LOSS_SCALE_H_
