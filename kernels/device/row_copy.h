// CopyRows and ZeroRows on the device, with the same bytes as
// kernels/row_copy.h; one launch for up to 1,024 ranges.
//
//   blocks 0 .. k-1     range 0, in turns of 64 KiB
//   blocks k .. 2k-1    range 1
//   ...                 k: the turns of the longest range, if the grid has room
//
// Threads: 256 per block; adjacent threads take adjacent words, the widest to
//          which the addresses and row_bytes are aligned; 16 bytes at a time
//          where both sides have the same alignment.
// Bytes:   per byte: reads 1, writes 1; ZeroRows reads none.
// Run:     build/gpu-bundle/run device_kernels_test
//
// `ranges` is in host memory and copied during the call. launch.h has the rules
// of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_ROW_COPY_H_
#define LOCKSTEP_KERNELS_DEVICE_ROW_COPY_H_

#include <cstddef>
#include <span>

#include "kernels/device/launch.h"
#include "kernels/row_copy.h"

namespace lockstep::kernels::device {

Launched CopyRows(std::span<const RowRange> ranges, const void* in, void* out,
                  size_t row_bytes, Stream stream);

Launched ZeroRows(std::span<const RowRange> ranges, void* out, size_t row_bytes,
                  Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_ROW_COPY_H_
