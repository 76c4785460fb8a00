// GatherRows and AddRows on the device, with the same bits as
// kernels/indexed_rows.h. The indices are in device memory, and read when the
// kernel runs.
//
//   GatherRows   the lanes of a row (lanes.cuh) read its index and copy its
//                words
//   AddRows      a thread has an element of `out` and adds to it what belongs
//                there, in the order of the indices: the same sum for any grid
//
// Threads: 256 per block, grid-stride, at most 8192 blocks.
// Bytes:   GatherRows per byte: reads 1, writes 1. AddRows per element of
//          `out`: reads all indices, 1 element and those that are added; writes
//          1 element.
// Run:     build/gpu-bundle/run device_kernels_test
//
// `*fault` is in device memory; zero it first. launch.h has the rules of every
// launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_INDEXED_ROWS_H_
#define LOCKSTEP_KERNELS_DEVICE_INDEXED_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/device/launch.h"
#include "kernels/indexed_rows.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched GatherRows(const void* in, size_t rows, const int32_t* indices,
                    size_t count, void* out, size_t row_bytes,
                    IndexFault* fault, Stream stream);

Launched AddRows(const void* in, const int32_t* indices, size_t count,
                 void* out, size_t rows, size_t row_elements, DType dtype,
                 IndexFault* fault, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_INDEXED_ROWS_H_
