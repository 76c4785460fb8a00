// WriteFlags writes one element per parameter of a bucket: 1 if this rank
// contributed a gradient, else 0. The flags are reduced with the gradients. A
// result with any bit set means that some rank contributed.
//
//   flags  [1 0 1 1]   in the bucket's float type
//
// Work:    the calling thread, flags in order.
// Bytes:   per flag: reads 1, writes one element of the float type.
// Threads: any, concurrently on different flags.
// Errors:  a dtype that is not a float aborts the process.
// Run:     build/release/bin/kernels_test --gtest_filter='Flags*'

#ifndef LOCKSTEP_KERNELS_FLAGS_H_
#define LOCKSTEP_KERNELS_FLAGS_H_

#include <cstdint>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// flags[i] = on[i] == 0 ? 0 : 1; `flags` is aligned to its element.
void WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_FLAGS_H_
