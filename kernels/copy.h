// A copy whose speed does not depend on alignment.
//
// For more than a few KiB the C library uses one instruction (rep movsb), which
// is the fastest copy: it does not fetch the destination. But on AMD Zen 3 and
// 4 it takes up to ten times as long if the destination lies a little behind
// the source modulo the page size. Callers' buffers have any alignment, and
// staging buffers begin at a page. So those are copied by vectors.
//
// Work:    the calling thread, in order; by vectors: four at a time.
// Bytes:   per byte: reads 1, writes 1; by vectors Copy also fetches the
//          destination.
// Threads: any, concurrently on different destinations.
// Run:     build/release/bin/kernels_test --gtest_filter='*CopyTest*'

#ifndef LOCKSTEP_KERNELS_COPY_H_
#define LOCKSTEP_KERNELS_COPY_H_

#include <cstddef>

namespace lockstep::kernels {

// Copies `bytes` bytes; the ranges do not overlap.
void Copy(void* dst, const void* src, size_t bytes);

// Copy with non-temporal stores, for data that is not read again before the
// caches evict it. It does not read the destination, which saves a third of the
// traffic. The stores are visible when it returns.
void CopyPastCaches(void* dst, const void* src, size_t bytes);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_COPY_H_
