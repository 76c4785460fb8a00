// The parts of a sum by the tree of sum_tree.h, for kernels that sum ranges: a
// warp sums a run, a block the runs of a range, a thread the ranges.
// Internal to kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_CUH_
#define LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_CUH_

#include "kernels/device/dispatch.cuh"
#include "kernels/device/lists.cuh"
#include "kernels/element.h"
#include "kernels/finite_check.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels::device {

static_assert(kSumLanes == kWarp, "a run is a warp's work");

inline constexpr unsigned kAll = 0xffffffff;  // mask: all threads of a warp
inline constexpr size_t kWarps = kThreads / kWarp;
// The elements that a warp stages at a time: 2 KiB. They are read with 16 bytes
// per thread, and summed in the order of the tree, which differs.
template <class T>
inline constexpr size_t kStage = 2048 / sizeof(T);
// The vectors of a stage that each thread reads.
template <class T>
inline constexpr size_t kStageVectors = kStage<T> / Vector<T>::kLength / kWarp;
// Leaves of a later level that each thread has in flight.
inline constexpr size_t kLeaves = 16;

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
inline __device__ double FoldWarp(double lane) {
#pragma unroll
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    lane += __shfl_down_sync(kAll, lane, half);
  }
  return lane;
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

// The value of a warp's run of `count` leaves, in its thread 0.
inline __device__ double FoldRun(const double* leaves, size_t count,
                                 size_t run) {
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

// The number of blocks that sum `runs` runs.
inline unsigned BlocksOfRuns(size_t runs) {
  const size_t blocks = (runs + kWarps - 1) / kWarps;
  Check(blocks <= kBlocksMax, "more runs than a grid has blocks for");
  return static_cast<unsigned>(blocks);
}

// Adds the ranges' sums to total->sum_of_squares, in order, once the partial
// sums of their runs are written.
template <size_t kCapacity>
Launched LaunchFolds(const RangeWorks<kCapacity>& works, double* partials,
                     FiniteCheck* total, Stream stream) {
  bool several = false;  // some range has more than one run
  for (unsigned w = 0; w < works.size; ++w) {
    several |= works.items[w].count > kSumRun;
  }
  if (several) {
    const Launched launched = LaunchKernel(FoldRanges<kCapacity>, works.size,
                                           kThreads, stream, works, partials);
    if (launched != kLaunched) return launched;
  }
  return LaunchKernel(AddRanges<kCapacity>, 1, kThreads, stream, works,
                      partials, total);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_FINITE_CHECK_CUH_
