#include "kernels/device/dispatch.cuh"
#include "kernels/device/reduce.h"
#include "kernels/element.h"

namespace lockstep::kernels::device {
namespace {

// Converts to Compute<T>; an integer is computed in its own type.
template <class T>
__device__ Compute<T> Widened(T value) {
  if constexpr (kIsHalf<T>) {
    return ToF32(value);
  } else {
    return value;
  }
}

template <class T>
__device__ T Narrowed(Compute<T> value) {
  if constexpr (kIsHalf<T>) {
    return ConvertTo<T>(value);
  } else {
    return value;
  }
}

// All threads of a launch take the same branch.
template <class C>
__device__ C Reduce(ReduceOp op, C a, C b) {
  switch (op) {
    case ReduceOp::kMin: return Smaller(a, b);
    case ReduceOp::kMax: return Larger(a, b);
    case ReduceOp::kProd: return Product(a, b);
    default: return Sum(a, b);
  }
}

// Reduces kLength elements from `at` on. If kLength > 1, each
// row must be aligned to 16 bytes at `at`.
template <class T, size_t kLength>
__device__ void ReduceAt(const T* inputs, int rows, T* out, size_t count,
                         size_t at, ReduceOp op, Compute<T> share) {
  struct alignas(sizeof(T) * kLength) Group {
    T element[kLength];
  };
  Compute<T> reduced[kLength];
  Group group = *reinterpret_cast<const Group*>(inputs + at);
#pragma unroll
  for (size_t e = 0; e < kLength; ++e) reduced[e] = Widened(group.element[e]);
  for (int row = 1; row < rows; ++row) {
    group = *reinterpret_cast<const Group*>(inputs + row * count + at);
#pragma unroll
    for (size_t e = 0; e < kLength; ++e) {
      reduced[e] = Reduce(op, reduced[e], Widened(group.element[e]));
    }
  }
#pragma unroll
  for (size_t e = 0; e < kLength; ++e) {
    if (op == ReduceOp::kMean) reduced[e] = Product(reduced[e], share);
    group.element[e] = Narrowed<T>(reduced[e]);
  }
  *reinterpret_cast<Group*>(out + at) = group;
}

// Grid-stride over groups; block 0 also does the elements after the last group.
template <class T, size_t kLength>
__global__ void __launch_bounds__(kThreads)
    Reduce(const T* inputs, int rows, T* out, size_t count, ReduceOp op,
           Compute<T> share) {
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
Launched Launch(const T* inputs, int rows, T* out, size_t count, ReduceOp op,
                Stream stream) {
  constexpr size_t kLength = 16 / sizeof(T);
  Compute<T> share{};
  if constexpr (!std::is_integral_v<T>) {
    share = Compute<T>{1} / static_cast<Compute<T>>(rows);
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

}  // namespace

Launched ReduceRows(const void* inputs, int rows, void* out, size_t count,
                    DType dtype, ReduceOp op, Stream stream) {
  Check(rows > 0, "a reduction of no ranks has no value");
  Check(op != ReduceOp::kMean || IsFloat(dtype), "integers have no mean");
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = Launch(static_cast<const T*>(inputs), rows, static_cast<T*>(out),
                      count, op, stream);
  });
  return launched;
}

}  // namespace lockstep::kernels::device
