// CopyBoxes, FillBoxes and SumBoxes on the device, with the bits of
// kernels/strided_box.h: one launch for a list of boxes, which may have
// different types. The list is in the launch's parameters: up to 112 boxes in a
// launch, and a kernel of its own for up to 8. A box of more than 1 GiB counts
// once per GiB.
//
//   runs from 512 bytes   a warp copies 2 KiB of a run in accesses of 16 bytes,
//   (rows)                whatever the alignment of both sides
//   shorter runs          a thread copies a word of 1 to 16 bytes, the widest
//   (columns)             to which everything is aligned; adjacent threads have
//                         adjacent words of `out`, so the words of a 32-byte
//                         sector are accessed at once, but for the first and
//                         last sector of a warp
//   sums                  a thread sums an element, or the elements of 16 bytes
//                         if everything is aligned to them
//
// Threads: 256 per block; a block for each 16 KiB of rows, 1024 words, or 1024
//          elements or vectors of a sum. kernels/box_tiles.h divides the boxes,
//          kernels/box_threads.h is the work of a thread.
// Bytes:   copy: per byte, reads 1 and writes 1; fill: writes 1; sum: per
//          element of `in`, reads 1, per element of `out`, writes 1 and with
//          `add` reads 1. A column reads or writes whole sectors.
// Errors:  as on the host; a sum of 2^31 or more elements into one: the process
//          aborts.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// launch.h has the rules of every launch. `boxes`, `in` and `out` are memory of
// the host, read in the call; the pointers in `in` and `out` are the device's.

#ifndef LOCKSTEP_KERNELS_DEVICE_STRIDED_BOX_H_
#define LOCKSTEP_KERNELS_DEVICE_STRIDED_BOX_H_

#include <span>

#include "kernels/device/launch.h"
#include "kernels/strided_box.h"

namespace lockstep::kernels::device {

Launched CopyBoxes(std::span<const StridedBox> boxes,
                   std::span<const void* const> in, std::span<void* const> out,
                   Stream stream);

Launched FillBoxes(std::span<const BoxFill> boxes, std::span<void* const> out,
                   Stream stream);

Launched SumBoxes(std::span<const StridedBox> boxes,
                  std::span<const void* const> in, std::span<void* const> out,
                  bool add, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_STRIDED_BOX_H_
