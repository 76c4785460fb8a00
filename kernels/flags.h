// Flags: one element per parameter in its bucket, 1 if this rank contributed a
// gradient and 0 if not. They travel with the gradients, so that after the
// reduction any bit that is set says that some rank did.
//
//   flags  [1 0 1 1]   of the bucket's float type
//
// Threads: any, at the same time on different flags.
// Errors:  a dtype that is no float ends the process.

#ifndef LOCKSTEP_KERNELS_FLAGS_H_
#define LOCKSTEP_KERNELS_FLAGS_H_

#include <cstdint>
#include <span>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// flags[i] = on[i] == 0 ? 0 : 1, aligned to their element.
void WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_FLAGS_H_
