#include <vector>

#include "kernels/device/dispatch.cuh"
#include "kernels/device/finite_check.h"
#include "kernels/device/lists.cuh"
#include "kernels/element.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels::device {
namespace {

static_assert(kSumLanes == kWarp, "a run is a warp's work");

constexpr unsigned kAll = 0xffffffff;  // mask: all threads of a warp
constexpr size_t kWarps = kThreads / kWarp;
// The elements that a warp stages at a time: 2 KiB. They are read with 16 bytes
// per thread, and summed in the order of the tree, which differs.
template <class T>
constexpr size_t kStage = 2048 / sizeof(T);
// The vectors of a stage that each thread reads.
template <class T>
constexpr size_t kStageVectors = kStage<T> / Vector<T>::kLength / kWarp;
// Leaves of a later level that each thread has in flight.
constexpr size_t kLeaves = 16;

// A range and its first run in the launch. Run r of the range has its partial
// sum at scratch[first_run + r].
struct RangeWork {
  size_t offset;
  size_t count;
  size_t first_run;
};

template <size_t kCapacity>
using RangeWorks = List<RangeWork, kCapacity>;

// The range of `run`: the last that begins at or before it. An empty range
// begins where the next one does.
template <size_t kCapacity>
__device__ const RangeWork& WorkOf(const RangeWorks<kCapacity>& works,
                                   size_t run) {
  unsigned low = 0;
  unsigned high = works.size;
  while (high - low > 1) {
    const unsigned middle = low + (high - low) / 2;
    if (works.items[middle].first_run <= run) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return works.items[low];
}

// The run's value, in thread 0 of the warp: SumLanes by shuffles.
__device__ double FoldWarp(double lane) {
#pragma unroll
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    lane += __shfl_down_sync(kAll, lane, half);
  }
  return lane;
}

// Copies run[0, n), n <= kStage, to the warp's stage in shared memory.
template <class T>
__device__ void Stage(const T* run, size_t n, T* stage) {
  for (size_t i = threadIdx.x % kWarp; i < n; i += kWarp) stage[i] = run[i];
  __syncwarp();
}

// The elements of a lane, in order. They are judged before they are widened to
// f64, whose instructions are the fewest that a device issues.
template <class T>
struct LaneSum {
  __device__ explicit LaneSum(double scale) : inverse_scale(scale) {}
  __device__ void Add(T element) {
    const auto value = ConvertTo<Compute<T>>(element);
    const bool finite = IsFinite(value);
    bad += finite ? 0 : 1;
    const double scaled =
        static_cast<double>(finite ? value : Compute<T>{0}) * inverse_scale;
    sum += scaled * scaled;
  }

  const double inverse_scale;
  double sum = 0;
  unsigned bad = 0;
};

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

// The value of a warp's run of `count` leaves, in its thread 0.
__device__ double FoldRun(const double* leaves, size_t count, size_t run) {
  const size_t begin = run * kSumRun;
  const size_t end = count - begin < kSumRun ? count : begin + kSumRun;
  const unsigned thread = threadIdx.x % kWarp;
  double lane = 0;
  size_t at = begin;
  for (; at + kLeaves * kWarp <= end; at += kLeaves * kWarp) {
    double loaded[kLeaves];
#pragma unroll
    for (size_t i = 0; i < kLeaves; ++i) {
      loaded[i] = leaves[at + i * kWarp + thread];
    }
#pragma unroll
    for (size_t i = 0; i < kLeaves; ++i) lane += loaded[i];
  }
  for (size_t i = at + thread; i < end; i += kWarp) lane += leaves[i];
  return FoldWarp(lane);
}

// One block reduces one range, level by level in place. Run r's value is
// written to leaves[r], which belongs to a run that has been read by then.
template <size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    FoldRanges(const __grid_constant__ RangeWorks<kCapacity> works,
               double* partials) {
  const RangeWork& work = works.items[blockIdx.x];
  double* leaves = partials + work.first_run;
  const size_t warp = threadIdx.x / kWarp;
  for (size_t count = RunsOf(work.count); count > 1; count = RunsOf(count)) {
    const size_t runs = RunsOf(count);
    for (size_t base = 0; base < runs; base += kWarps) {
      const size_t run = base + warp;
      const double value = run < runs ? FoldRun(leaves, count, run) : 0;
      __syncthreads();
      if (run < runs && threadIdx.x % kWarp == 0) leaves[run] = value;
      __syncthreads();
    }
  }
}

// All threads load the ranges' values; one adds them, in order. The sum is not
// negative, so adding 0 for an empty range changes no bit.
template <size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    AddRanges(const __grid_constant__ RangeWorks<kCapacity> works,
              const double* partials, FiniteCheck* total) {
  __shared__ double values[kCapacity];
  for (unsigned w = threadIdx.x; w < works.size; w += kThreads) {
    const RangeWork& work = works.items[w];
    values[w] = work.count > 0 ? partials[work.first_run] : 0.0;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = total->sum_of_squares;
#pragma unroll 8
  for (unsigned w = 0; w < works.size; ++w) sum += values[w];
  total->sum_of_squares = sum;
}

template <class T, size_t kCapacity>
Launched Launch(RangeWorks<kCapacity> works, const T* data,
                double inverse_scale, double* partials, FiniteCheck* total,
                Stream stream) {
  size_t runs = 0;
  bool several = false;  // some range has more than one run
  for (unsigned w = 0; w < works.size; ++w) {
    RangeWork& work = works.items[w];
    work.first_run = runs;
    runs += RunsOf(work.count);
    several |= work.count > kSumRun;
  }
  if (runs == 0) return kLaunched;
  const size_t blocks = (runs + kWarps - 1) / kWarps;
  Check(blocks <= kBlocksMax, "more runs than a grid has blocks for");
  static_assert(sizeof(unsigned long long) == sizeof(total->non_finite));
  Launched launched =
      LaunchKernel(CheckRuns<T, kCapacity>, static_cast<unsigned>(blocks),
                   kThreads, stream, works, data, runs, inverse_scale, partials,
                   reinterpret_cast<unsigned long long*>(&total->non_finite));
  if (launched == kLaunched && several) {
    launched = LaunchKernel(FoldRanges<kCapacity>, works.size, kThreads, stream,
                            works, partials);
  }
  if (launched != kLaunched) return launched;
  return LaunchKernel(AddRanges<kCapacity>, 1, kThreads, stream, works,
                      partials, total);
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
