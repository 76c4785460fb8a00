#include "kernels/device/cast_feedback.h"
#include "kernels/device/dispatch.cuh"

namespace lockstep::kernels::device {
namespace {

// Adjacent threads take adjacent elements: each access of a warp is contiguous.
// The three arrays of the wide type dominate; the narrow stores of the half
// cost little.
template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    FeedbackElements(const From* src, const From* residual, To* dst, From* next,
                     size_t count) {
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += stride) {
    const From sum = src[i] + residual[i];
    const To rounded = ConvertTo<To>(sum);
    dst[i] = rounded;
    next[i] = sum - ConvertTo<From>(rounded);
  }
}

}  // namespace

Launched CastFeedback(const void* src, const void* residual, DType src_dtype,
                      void* dst, DType dst_dtype, void* next, size_t count,
                      Stream stream) {
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithWide(src_dtype, [&](auto from) {
    WithHalf(dst_dtype, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      launched = LaunchKernel(
          FeedbackElements<From, To>, BlocksFor(count), kThreads, stream,
          static_cast<const From*>(src), static_cast<const From*>(residual),
          static_cast<To*>(dst), static_cast<From*>(next), count);
    });
  });
  return launched;
}

}  // namespace lockstep::kernels::device
