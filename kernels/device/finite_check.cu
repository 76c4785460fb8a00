#include <vector>

#include "kernels/device/finite_check.cuh"
#include "kernels/device/finite_check.h"

namespace lockstep::kernels::device {
namespace {

// Copies run[0, n), n <= kStage, to the warp's stage in shared memory.
template <class T>
__device__ void Stage(const T* run, size_t n, T* stage) {
  for (size_t i = threadIdx.x % kWarp; i < n; i += kWarp) stage[i] = run[i];
  __syncwarp();
}

// Adds whole stages of aligned elements, and returns their number. A stage is
// loaded while the one before is added.
template <class T>
__device__ size_t AddStages(const T* elements, size_t stages, T* stage,
                            LaneSum<T>* lane) {
  using V = Vector<T>;
  constexpr size_t kVectors = kStageVectors<T>;
  if (stages == 0) return 0;
  const unsigned thread = threadIdx.x % kWarp;
  const V* from = reinterpret_cast<const V*>(elements) + thread;
  V* const to = reinterpret_cast<V*>(stage) + thread;
  V loaded[kVectors];
#pragma unroll
  for (size_t v = 0; v < kVectors; ++v) loaded[v] = from[v * kWarp];
  for (size_t s = 0; s < stages; ++s) {
#pragma unroll
    for (size_t v = 0; v < kVectors; ++v) to[v * kWarp] = loaded[v];
    __syncwarp();
    from += kVectors * kWarp;
    if (s + 1 < stages) {
#pragma unroll
      for (size_t v = 0; v < kVectors; ++v) loaded[v] = from[v * kWarp];
    }
#pragma unroll 8
    for (unsigned i = 0; i < kStage<T>; i += kWarp)
      lane->Add(stage[i + thread]);
    __syncwarp();
  }
  return stages * kStage<T>;
}

// One warp sums one run.
template <class T, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    CheckRuns(const __grid_constant__ RangeWorks<kCapacity> works,
              const T* data, size_t runs, double inverse_scale,
              double* partials, unsigned long long* non_finite) {
  __shared__ alignas(16) T stages[kWarps][kStage<T>];
  const size_t run = size_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (run >= runs) return;  // the whole warp
  const RangeWork& work = WorkOf(works, run);
  const size_t begin = (run - work.first_run) * kSumRun;
  const size_t left = work.count - begin;
  const size_t n = left < kSumRun ? left : kSumRun;
  const T* elements = data + work.offset + begin;
  const unsigned thread = threadIdx.x % kWarp;
  T* stage = stages[threadIdx.x / kWarp];

  LaneSum<T> lane(inverse_scale);
  size_t at = 0;
  if (reinterpret_cast<uintptr_t>(elements) % sizeof(Vector<T>) == 0) {
    at = AddStages(elements, n / kStage<T>, stage, &lane);
  }
  for (; at < n; at += kStage<T>) {
    const size_t staged = n - at < kStage<T> ? n - at : kStage<T>;
    Stage(elements + at, staged, stage);
    for (size_t i = thread; i < staged; i += kWarp) lane.Add(stage[i]);
    __syncwarp();
  }
  const double sum = FoldWarp(lane.sum);
  unsigned bad = lane.bad;
  bad = __reduce_add_sync(kAll, bad);
  if (thread != 0) return;
  partials[run] = sum;
  if (bad > 0) atomicAdd(non_finite, bad);
}

template <class T, size_t kCapacity>
Launched Launch(RangeWorks<kCapacity> works, const T* data,
                double inverse_scale, double* partials, FiniteCheck* total,
                Stream stream) {
  size_t runs = 0;
  for (unsigned w = 0; w < works.size; ++w) {
    RangeWork& work = works.items[w];
    work.first_run = runs;
    runs += RunsOf(work.count);
  }
  if (runs == 0) return kLaunched;
  static_assert(sizeof(unsigned long long) == sizeof(total->non_finite));
  const Launched launched =
      LaunchKernel(CheckRuns<T, kCapacity>, BlocksOfRuns(runs), kThreads,
                   stream, works, data, runs, inverse_scale, partials,
                   reinterpret_cast<unsigned long long*>(&total->non_finite));
  if (launched != kLaunched) return launched;
  return LaunchFolds(works, partials, total, stream);
}

}  // namespace

Launched AddFiniteCheck(const void* data, DType dtype,
                        std::span<const ElementRange> ranges,
                        double inverse_scale, void* scratch, FiniteCheck* total,
                        Stream stream) {
  std::vector<RangeWork> works;
  for (const ElementRange& range : ranges) {
    works.push_back({range.offset, range.count, 0});
  }
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched =
        ForLists(std::span<const RangeWork>(works), [&](const auto& list) {
          return Launch(list, static_cast<const T*>(data), inverse_scale,
                        static_cast<double*>(scratch), total, stream);
        });
  });
  return launched;
}

}  // namespace lockstep::kernels::device
