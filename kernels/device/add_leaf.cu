#include "base/check.h"
#include "kernels/add_leaf.h"
#include "kernels/add_leaf_ref.h"
#include "kernels/device/add_leaf.h"
#include "kernels/device/dispatch.cuh"

namespace lockstep::kernels::device {
namespace {

// Passed as a kernel parameter.
template <class Sum>
struct LeftSums {
  const Sum* rows[kLeftSumsMax];
  size_t count;
};

// One thread per element. `out` may be a row that it has read.
template <class Sum, class Leaf>
__global__ void __launch_bounds__(kThreads)
    AddElements(LeftSums<Sum> left, const Leaf* leaf, Compute<Leaf> weight,
                Sum* out, size_t count) {
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += stride) {
    out[i] = AddLeafRef(left.rows, left.count, leaf, weight, i);
  }
}

}  // namespace

Launched AddLeaf(std::span<const void* const> left, const void* leaf,
                 DType dtype, double weight, void* out, DType out_dtype,
                 size_t count, Stream stream) {
  Check(left.size() <= kLeftSumsMax, "a leaf completes 10 sums at most");
  Check(out_dtype == (dtype == DType::kF64 ? DType::kF64 : DType::kF32),
        "leaves are summed in f32, those of f64 in f64");
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using Leaf = typename decltype(tag)::type;
    using Sum = Compute<Leaf>;
    LeftSums<Sum> rows{.rows = {}, .count = left.size()};
    for (size_t k = 0; k < left.size(); ++k) {
      rows.rows[k] = static_cast<const Sum*>(left[k]);
    }
    launched = LaunchKernel(AddElements<Sum, Leaf>, BlocksFor(count), kThreads,
                            stream, rows, static_cast<const Leaf*>(leaf),
                            static_cast<Compute<Leaf>>(weight),
                            static_cast<Sum*>(out), count);
  });
  return launched;
}

}  // namespace lockstep::kernels::device
