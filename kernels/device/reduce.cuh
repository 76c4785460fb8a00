// The kernel of reduce.cu and reduce_any.cu, for elements of any type. Internal
// to kernels/device/*.cu; reduce.h has its picture.

#ifndef LOCKSTEP_KERNELS_DEVICE_REDUCE_CUH_
#define LOCKSTEP_KERNELS_DEVICE_REDUCE_CUH_

#include <type_traits>

#include "kernels/any_element.h"
#include "kernels/device/dispatch.cuh"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// All threads of a launch take the same branch.
template <class W>
__device__ W Combine(ReduceOp op, W a, W b) {
  if constexpr (!kIsComplex<W>) {
    if (op == ReduceOp::kMin) return Smaller(a, b);
    if (op == ReduceOp::kMax) return Larger(a, b);
  }
  return op == ReduceOp::kProd ? Product(a, b) : Sum(a, b);
}

// Reduces kLength elements from `at` on. If kLength > 1, each
// row must be aligned to 16 bytes at `at`.
template <class T, size_t kLength>
__device__ void ReduceAt(const T* inputs, int rows, T* out, size_t count,
                         size_t at, ReduceOp op, Share<T> share) {
  struct alignas(kLength > 1 ? 16 : alignof(T)) Group {
    T element[kLength];
  };
  Wide<T> reduced[kLength];
  Group group = *reinterpret_cast<const Group*>(inputs + at);
#pragma unroll
  for (size_t e = 0; e < kLength; ++e) reduced[e] = ToWide(group.element[e]);
  for (int row = 1; row < rows; ++row) {
    group = *reinterpret_cast<const Group*>(inputs + row * count + at);
#pragma unroll
    for (size_t e = 0; e < kLength; ++e) {
      reduced[e] = Combine(op, reduced[e], ToWide(group.element[e]));
    }
  }
#pragma unroll
  for (size_t e = 0; e < kLength; ++e) {
    if (op == ReduceOp::kMean) reduced[e] = Product(reduced[e], share);
    group.element[e] = FromWide<T>(reduced[e]);
  }
  *reinterpret_cast<Group*>(out + at) = group;
}

// Grid-stride over groups; block 0 also does the elements after the last group.
template <class T, size_t kLength>
__global__ void __launch_bounds__(kThreads)
    Reduce(const T* inputs, int rows, T* out, size_t count, ReduceOp op,
           Share<T> share) {
  const size_t groups = count / kLength;
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < groups;
       i += stride) {
    ReduceAt<T, kLength>(inputs, rows, out, count, i * kLength, op, share);
  }
  if (blockIdx.x > 0) return;
  for (size_t i = groups * kLength + threadIdx.x; i < count; i += kThreads) {
    ReduceAt<T, 1>(inputs, rows, out, count, i, op, share);
  }
}

template <class T>
Launched LaunchReduce(const T* inputs, int rows, T* out, size_t count,
                      ReduceOp op, Stream stream) {
  constexpr size_t kLength = 16 / sizeof(T);
  Share<T> share{};
  if constexpr (!std::is_integral_v<Share<T>>) {
    share = Share<T>{1} / static_cast<Share<T>>(rows);
  }
  const bool aligned = reinterpret_cast<uintptr_t>(inputs) % 16 == 0 &&
                       reinterpret_cast<uintptr_t>(out) % 16 == 0 &&
                       (count % kLength == 0 || rows == 1);
  if (aligned) {
    return LaunchKernel(Reduce<T, kLength>, BlocksFor(count / kLength),
                        kThreads, stream, inputs, rows, out, count, op, share);
  }
  return LaunchKernel(Reduce<T, 1>, BlocksFor(count), kThreads, stream, inputs,
                      rows, out, count, op, share);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_REDUCE_CUH_
