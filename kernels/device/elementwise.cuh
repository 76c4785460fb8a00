// A launch that computes each element of an output from the elements with the
// same index of its inputs, shared by kernels that differ in the operation
// only. Internal to kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_ELEMENTWISE_CUH_
#define LOCKSTEP_KERNELS_DEVICE_ELEMENTWISE_CUH_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/device/dispatch.cuh"

namespace lockstep::kernels::device {

// Elements of adjacent indices, in one access; a single one is aligned as its
// type, which a complex number's size is not.
template <class T, size_t kLength>
struct alignas(kLength > 1 ? sizeof(T) * kLength : alignof(T)) Group {
  T element[kLength];
};

template <class Op, size_t kLength, class To, class... From>
__device__ void ApplyTo(const Op& op, Group<To, kLength>* out,
                        const Group<From, kLength>... in) {
  Group<To, kLength> to;
#pragma unroll
  for (size_t e = 0; e < kLength; ++e) to.element[e] = op(in.element[e]...);
  *out = to;
}

template <size_t kLength, class Op, class To, class... From>
__device__ void ApplyAt(size_t at, const Op& op, To* out, const From*... in) {
  ApplyTo(op, reinterpret_cast<Group<To, kLength>*>(out + at),
          *reinterpret_cast<const Group<From, kLength>*>(in + at)...);
}

// Grid-stride over groups; block 0 also does the elements after the last group.
template <size_t kLength, class Op, class To, class... From>
__global__ void __launch_bounds__(kThreads)
    OnElements(Op op, size_t count, To* out, const From*... in) {
  const size_t groups = count / kLength;
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < groups;
       i += stride) {
    ApplyAt<kLength>(i * kLength, op, out, in...);
  }
  if (blockIdx.x > 0) return;
  for (size_t i = groups * kLength + threadIdx.x; i < count; i += kThreads) {
    ApplyAt<1>(i, op, out, in...);
  }
}

template <size_t kLength, class T>
bool AlignedToGroup(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Group<T, kLength>) == 0;
}

// out[i] = op(in[i]...). A group fills 16 bytes of the largest type; an output
// or input that is not aligned to its group is accessed element by element.
template <class Op, class To, class... From>
Launched LaunchOnElements(Op op, size_t count, Stream stream, To* out,
                          const From*... in) {
  constexpr size_t kLength = 16 / std::max({sizeof(To), sizeof(From)...});
  if (count == 0) return kLaunched;
  if (AlignedToGroup<kLength>(out) && (AlignedToGroup<kLength>(in) && ...)) {
    return LaunchKernel(OnElements<kLength, Op, To, From...>,
                        BlocksFor(count / kLength), kThreads, stream, op, count,
                        out, in...);
  }
  return LaunchKernel(OnElements<1, Op, To, From...>, BlocksFor(count),
                      kThreads, stream, op, count, out, in...);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_ELEMENTWISE_CUH_
