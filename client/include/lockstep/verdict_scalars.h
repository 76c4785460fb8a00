// The verdict as numbers that a stream's work can read: the gate before the
// update.
//
//   stream   [backward] [FinishAsync] [your update, gated] [forward of the
//   next]
//                           └─ scalars written ─▶ read
//
// FinishAsync returns before the host has seen the verdict, so what is enqueued
// behind it runs whatever the verdict says; and after an abort a stream runs on
// as if nothing had been. *Completed is not succeeded.* So whatever is enqueued
// there and changes the training's state must ask first:
//
//   __global__ void Sgd(const VerdictScalars* verdict, float* w,
//                       const float* g, float rate, size_t n) {
//     if (!MayUpdate(*verdict)) return;          // every thread, first of all
//     const float scale = rate * static_cast<float>(verdict->clip);
//     ... w[i] -= scale * g[i];
//   }
//   const VerdictScalars* verdict = pending->scalars();   // not to be copied
//   Sgd<<<..., stream>>>(verdict, ...);                   // on the host
//
// The pointer is passed, never the values: they are not there yet. What cannot
// ask (a library's kernel) works on a copy of the state, which
// KernelApi::CommitCopy (kernels/verdict_gate.h) brings over if it may.
//
// This header needs neither CUDA nor anything else of this library, so that
// device code includes it cheaply.

#ifndef LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_VERDICT_SCALARS_H_
#define LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_VERDICT_SCALARS_H_

#ifdef __CUDACC__
#define LOCKSTEP_ON_DEVICE_TOO __host__ __device__
#else
#define LOCKSTEP_ON_DEVICE_TOO
#endif

namespace lockstep {

// What FinishAsync leaves; valid once the stream has passed it.
struct VerdictScalars {
  double commit = 0;  // 1: committed. Anything else: do not update
  double finite = 0;  // 1 or 0
  double clip = 1;    // UpdateFactor(FinishAsync's max_norm)
  double samples = 0;
};

// Whether the state may change with this step: it is committed, and no gradient
// is infinite or NaN.
LOCKSTEP_ON_DEVICE_TOO inline bool MayUpdate(const VerdictScalars& verdict) {
  return verdict.commit == 1 && verdict.finite == 1;
}

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_VERDICT_SCALARS_H_
