#include <bit>

#include "base/check.h"
#include "kernels/device/dispatch.cuh"
#include "kernels/device/reduce_pairs.h"
#include "kernels/element.h"
#include "kernels/reduce_pairs.h"

namespace lockstep::kernels::device {
namespace {

// One thread per element; a warp's loads of a row are contiguous. The number of
// rows is a template argument, so the tree is in registers.
template <int kRows, class T>
__device__ __forceinline__ T SumOfPairs(const T* inputs, size_t count) {
  if constexpr (kRows == 1) {
    return *inputs;
  } else {
    return SumOfPairs<kRows / 2>(inputs, count) +
           SumOfPairs<kRows / 2>(inputs + kRows / 2 * count, count);
  }
}

// Adds trees of kRows rows like the digits of a binary counter.
template <int kRows, class T, class Out, class Factor>
__global__ void __launch_bounds__(kThreads)
    ReduceElements(const T* inputs, int trees, Factor factor, Out* out,
                   size_t count) {
  constexpr int kLevels = 11;
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += stride) {
    T levels[kLevels];
    T sum{};
    for (int tree = 0; tree < trees; ++tree) {
      sum = SumOfPairs<kRows>(inputs + tree * kRows * count + i, count);
      int level = 0;
      for (; (tree >> level & 1) != 0; ++level) sum = levels[level] + sum;
      levels[level] = sum;
    }
    out[i] = Scaled<Out>(sum, factor);
  }
}

template <class T, class Out>
Launched Launch(const T* inputs, int rows, double factor, Out* out,
                size_t count, Stream stream) {
  using C = std::common_type_t<T, Compute<Out>>;
  const unsigned blocks = BlocksFor(count);
  const C rounded = static_cast<C>(factor);
  const auto launch = [&](auto* kernel, int trees) {
    return LaunchKernel(kernel, blocks, kThreads, stream, inputs, trees,
                        rounded, out, count);
  };
  switch (rows) {
    case 1: return launch(ReduceElements<1, T, Out, C>, 1);
    case 2: return launch(ReduceElements<2, T, Out, C>, 1);
    case 4: return launch(ReduceElements<4, T, Out, C>, 1);
    default: return launch(ReduceElements<8, T, Out, C>, rows / 8);
  }
}

}  // namespace

Launched ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                     void* out, DType out_dtype, size_t count, Stream stream) {
  Check(rows > 0 && std::has_single_bit(static_cast<unsigned>(rows)) &&
            rows <= kPairedRowsMax,
        "ReducePairs takes 1, 2, 4, ... 1024 rows");
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithWide(dtype, [&](auto wide) {
    WithFloat(out_dtype, [&](auto narrow) {
      using T = typename decltype(wide)::type;
      using Out = typename decltype(narrow)::type;
      launched = Launch(static_cast<const T*>(inputs), rows, factor,
                        static_cast<Out*>(out), count, stream);
    });
  });
  return launched;
}

}  // namespace lockstep::kernels::device
