// The verdict as numbers that work on a stream can read: the gate before the
// update.
//
//   stream   [backward] [FinishAsync] [your update, gated] [next forward]
//                           └─ scalars written ─▶ read
//
// FinishAsync returns before the host has seen the verdict. Work enqueued after
// it runs whether or not the step commits, and a stream continues after an
// abort. *Completed does not mean succeeded.* Work on that stream that changes
// training state must therefore check the scalars first:
//
//   __global__ void Sgd(const VerdictScalars* verdict, float* w,
//                       const float* g, float rate, size_t n) {
//     if (!MayUpdate(*verdict)) return;          // first, in every thread
//     const float scale = rate * static_cast<float>(verdict->clip);
//     ... w[i] -= scale * g[i];
//   }
//   const VerdictScalars* verdict = pending->scalars();   // on the host
//   Sgd<<<..., stream>>>(verdict, ...);                   // the pointer
//
// Pass the pointer, never the values: they are not written yet at the launch. A
// kernel that cannot check (a library's) works on a copy of the state, which a
// kernel of the program copies back if the step passed.
//
// This header includes neither CUDA nor other headers of this library.

#ifndef LOCKSTEP_VERDICT_SCALARS_H_
#define LOCKSTEP_VERDICT_SCALARS_H_

#ifdef __CUDACC__
#define LOCKSTEP_ON_DEVICE_TOO __host__ __device__
#else
#define LOCKSTEP_ON_DEVICE_TOO
#endif

namespace lockstep {

// Written by FinishAsync; valid once the stream has passed it.
struct VerdictScalars {
  double commit = 0;  // 1: committed. Any other value: do not update
  double finite = 0;  // 1 or 0
  double clip = 1;    // UpdateFactor(FinishAsync's max_norm)
  double samples = 0;
};

// True if the update may be applied: the step is committed, and no gradient is
// infinite or NaN.
LOCKSTEP_ON_DEVICE_TOO inline bool MayUpdate(const VerdictScalars& verdict) {
  return verdict.commit == 1 && verdict.finite == 1;
}

}  // namespace lockstep

#endif  // LOCKSTEP_VERDICT_SCALARS_H_
