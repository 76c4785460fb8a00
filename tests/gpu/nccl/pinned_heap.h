// A heap that the GPU can access: the conformance suite has its buffers in
// vectors, and NCCL accepts pinned host memory like device memory.
//
// It replaces the program's operator new. Until Open there is no GPU, and
// memory is from malloc.

#ifndef LOCKSTEP_TESTS_GPU_NCCL_PINNED_HEAP_H_
#define LOCKSTEP_TESTS_GPU_NCCL_PINNED_HEAP_H_

namespace lockstep::gpu {

// Exits the process if the memory cannot be allocated.
void OpenPinnedHeap();

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_NCCL_PINNED_HEAP_H_
