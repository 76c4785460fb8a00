#include <vector>

#include "kernels/device/finite_check.cuh"
#include "kernels/device/scale_and_check.h"

namespace lockstep::kernels::device {
namespace {

// Scales whole stages of aligned elements, and returns their number. A stage is
// loaded while the one before is added. `stage`: null if nothing is added.
template <class T>
__device__ size_t ScaleStages(T* elements, size_t stages, Compute<T> factor,
                              T* stage, LaneSum<T>* lane) {
  using V = Vector<T>;
  constexpr size_t kVectors = kStageVectors<T>;
  if (stages == 0) return 0;
  const unsigned thread = threadIdx.x % kWarp;
  V* at = reinterpret_cast<V*>(elements) + thread;
  V* const staged = reinterpret_cast<V*>(stage) + thread;
  V loaded[kVectors];
#pragma unroll
  for (size_t v = 0; v < kVectors; ++v) loaded[v] = at[v * kWarp];
  for (size_t s = 0; s < stages; ++s) {
#pragma unroll
    for (size_t v = 0; v < kVectors; ++v) {
#pragma unroll
      for (size_t e = 0; e < V::kLength; ++e) {
        loaded[v].element[e] = Scaled<T>(loaded[v].element[e], factor);
      }
      at[v * kWarp] = loaded[v];
      if (stage != nullptr) staged[v * kWarp] = loaded[v];
    }
    at += kVectors * kWarp;
    if (s + 1 < stages) {
#pragma unroll
      for (size_t v = 0; v < kVectors; ++v) loaded[v] = at[v * kWarp];
    }
    if (stage == nullptr) continue;
    __syncwarp();
#pragma unroll 8
    for (unsigned i = 0; i < kStage<T>; i += kWarp)
      lane->Add(stage[i + thread]);
    __syncwarp();
  }
  return stages * kStage<T>;
}

// Runs [first, end) of the works' runs: one warp scales one run. The runs below
// `checked` are also summed, as by CheckRuns.
template <class T, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    ScaleRuns(const __grid_constant__ RangeWorks<kCapacity> works, T* data,
              Compute<T> factor, size_t first, size_t end, size_t checked,
              double* partials, unsigned long long* non_finite) {
  __shared__ alignas(16) T stages[kWarps][kStage<T>];
  const size_t run = first + size_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (run >= end) return;  // the whole warp
  const RangeWork& work = WorkOf(works, run);
  const size_t begin = (run - work.first_run) * kSumRun;
  const size_t left = work.count - begin;
  const size_t n = left < kSumRun ? left : kSumRun;
  T* elements = data + work.offset + begin;
  const unsigned thread = threadIdx.x % kWarp;
  const bool sums = run < checked;

  LaneSum<T> lane(/*inverse_scale=*/1.0);
  size_t at = 0;
  if (reinterpret_cast<uintptr_t>(elements) % sizeof(Vector<T>) == 0) {
    at = ScaleStages(elements, n / kStage<T>, factor,
                     sums ? stages[threadIdx.x / kWarp] : nullptr, &lane);
  }
  // `at` is a multiple of the lanes, so thread l has the elements of lane l.
  for (size_t i = at + thread; i < n; i += kWarp) {
    const T scaled = Scaled<T>(elements[i], factor);
    elements[i] = scaled;
    if (sums) lane.Add(scaled);
  }
  if (!sums) return;
  const double sum = FoldWarp(lane.sum);
  const unsigned bad = __reduce_add_sync(kAll, lane.bad);
  if (thread != 0) return;
  partials[run] = sum;
  if (bad > 0) atomicAdd(non_finite, bad);
}

// The ranges, then the parts between them; their runs are numbered in order.
struct Works {
  std::vector<RangeWork> all;
  size_t ranges = 0;
  size_t checked = 0;  // runs of the ranges
  size_t runs = 0;

  Works(const ElementRange& scaled, std::span<const ElementRange> checks) {
    std::vector<ElementRange> gaps;
    ForScaledParts(
        scaled, checks, [&](const ElementRange& gap) { gaps.push_back(gap); },
        [&](const ElementRange& range) { Add(range); });
    ranges = all.size();
    checked = runs;
    for (const ElementRange& gap : gaps) Add(gap);
  }

  std::span<const RangeWork> OfRanges() const {
    return std::span<const RangeWork>(all).first(ranges);
  }

 private:
  // An empty range adds nothing.
  void Add(const ElementRange& part) {
    if (part.count == 0) return;
    all.push_back({part.offset, part.count, runs});
    runs += RunsOf(part.count);
  }
};

template <class T>
Launched Launch(const Works& works, T* data, double factor, double* partials,
                FiniteCheck* total, Stream stream) {
  static_assert(sizeof(unsigned long long) == sizeof(total->non_finite));
  auto* const non_finite =
      reinterpret_cast<unsigned long long*>(&total->non_finite);
  const auto rounded = static_cast<Compute<T>>(factor);
  const Launched launched =
      ForLists(std::span<const RangeWork>(works.all), [&](const auto& list) {
        const RangeWork& last = list.items[list.size - 1];
        const size_t first = list.items[0].first_run;
        const size_t end = last.first_run + RunsOf(last.count);
        return LaunchKernel(ScaleRuns<T, kItemsMaxOf<decltype(list)>>,
                            BlocksOfRuns(end - first), kThreads, stream, list,
                            data, rounded, first, end, works.checked, partials,
                            non_finite);
      });
  if (launched != kLaunched) return launched;
  return ForLists(works.OfRanges(), [&](const auto& list) {
    return LaunchFolds(list, partials, total, stream);
  });
}

}  // namespace

Launched ScaleAndCheck(void* data, DType dtype, double factor,
                       const ElementRange& scaled,
                       std::span<const ElementRange> checked, void* scratch,
                       FiniteCheck* total, Stream stream) {
  const Works works(scaled, checked);
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = Launch(works, static_cast<T*>(data), factor,
                      static_cast<double*>(scratch), total, stream);
  });
  return launched;
}

}  // namespace lockstep::kernels::device
