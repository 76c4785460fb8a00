#include "kernels/device/cast_scale.h"
#include "kernels/device/dispatch.cuh"
#include "kernels/element.h"

namespace lockstep::kernels::device {
namespace {

// The elements that fill 16 bytes of the larger type.
template <class From, class To>
struct ElementVector {
  static constexpr size_t kLength =
      16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To));
  struct alignas(sizeof(From) * kLength) Source {
    From element[kLength];
  };
  struct alignas(sizeof(To) * kLength) Target {
    To element[kLength];
  };
};

// Grid-stride over groups; block 0 also does the elements after the last group.
template <class From, class To, class Factor>
__global__ void __launch_bounds__(kThreads)
    CastScaleGroups(const From* src, Factor factor, To* dst, size_t groups,
                    size_t count) {
  using G = ElementVector<From, To>;
  const auto* in = reinterpret_cast<const typename G::Source*>(src);
  auto* out = reinterpret_cast<typename G::Target*>(dst);
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < groups;
       i += stride) {
    const typename G::Source from = in[i];
    typename G::Target to;
#pragma unroll
    for (size_t e = 0; e < G::kLength; ++e) {
      to.element[e] = Scaled<To>(from.element[e], factor);
    }
    out[i] = to;
  }
  if (blockIdx.x > 0) return;
  for (size_t i = groups * G::kLength + threadIdx.x; i < count; i += kThreads) {
    dst[i] = Scaled<To>(src[i], factor);
  }
}

// For src or dst that is aligned only to its element.
template <class From, class To, class Factor>
__global__ void __launch_bounds__(kThreads)
    CastScaleElements(const From* src, Factor factor, To* dst, size_t count) {
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += stride) {
    dst[i] = Scaled<To>(src[i], factor);
  }
}

template <class From, class To>
Launched Launch(const From* src, double factor, To* dst, size_t count,
                Stream stream) {
  using C = std::common_type_t<Compute<From>, Compute<To>>;
  using G = ElementVector<From, To>;
  const bool aligned =
      reinterpret_cast<uintptr_t>(src) % alignof(typename G::Source) == 0 &&
      reinterpret_cast<uintptr_t>(dst) % alignof(typename G::Target) == 0;
  const C rounded = static_cast<C>(factor);
  if (aligned) {
    const size_t groups = count / G::kLength;
    return LaunchKernel(CastScaleGroups<From, To, C>, BlocksFor(groups),
                        kThreads, stream, src, rounded, dst, groups, count);
  }
  return LaunchKernel(CastScaleElements<From, To, C>, BlocksFor(count),
                      kThreads, stream, src, rounded, dst, count);
}

}  // namespace

Launched CastScale(const void* src, DType src_dtype, double factor, void* dst,
                   DType dst_dtype, size_t count, Stream stream) {
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithFloat(src_dtype, [&](auto from) {
    WithFloat(dst_dtype, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      launched = Launch(static_cast<const From*>(src), factor,
                        static_cast<To*>(dst), count, stream);
    });
  });
  return launched;
}

}  // namespace lockstep::kernels::device
