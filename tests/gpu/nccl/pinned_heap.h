// A heap that the GPU reaches: the suite of the interface keeps its buffers in
// vectors, and NCCL takes pinned memory of the host as it takes a device's.
//
// Replaces operator new of the program. Until Open there is no GPU, and memory
// is malloc's.

#ifndef LOCKSTEP_TESTS_GPU_NCCL_PINNED_HEAP_H_
#define LOCKSTEP_TESTS_GPU_NCCL_PINNED_HEAP_H_

namespace lockstep::gpu {

// Ends the process if the memory cannot be had.
void OpenPinnedHeap();

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_NCCL_PINNED_HEAP_H_
