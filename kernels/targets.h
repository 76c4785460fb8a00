// The generations of CPU that the rows are compiled for. Include before
// hwy/foreach_target.h, which compiles the including file once for each.
//
// On x86: any CPU (SSE2), AVX2 and AVX-512; the generations between them are
// not faster here. LOCKSTEP_EACH_ALONE tells the compiler that the iterations
// of a loop are independent, even if source and destination are the same row.

#ifndef LOCKSTEP_KERNELS_TARGETS_H_
#define LOCKSTEP_KERNELS_TARGETS_H_

#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#endif

#if defined(__clang__)
#define LOCKSTEP_EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_EACH_ALONE _Pragma("GCC ivdep")
#endif

#endif  // LOCKSTEP_KERNELS_TARGETS_H_
