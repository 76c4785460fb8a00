// A copy that is as fast wherever its ends lie.
//
// The C library copies more than a few KiB by one instruction (rep movsb),
// which on AMD's Zen 3 and 4 takes up to ten times as long where the
// destination lies a little behind the source within their pages. Buffers of
// callers lie anywhere, and stages at the beginning of a page.
//
// Threads: any, on different destinations.

#ifndef LOCKSTEP_KERNELS_COPY_H_
#define LOCKSTEP_KERNELS_COPY_H_

#include <cstddef>

namespace lockstep::kernels {

// The ranges do not overlap.
void Copy(void* dst, const void* src, size_t bytes);

// The same, past the caches: for what will not be read before they have
// forgotten it. Then memory is not read before it is written, a third of the
// traffic. Done when it returns.
void CopyPastCaches(void* dst, const void* src, size_t bytes);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_COPY_H_
