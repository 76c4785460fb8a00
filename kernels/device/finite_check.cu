#include "kernels/device/dispatch.cuh"
#include "kernels/device/finite_check.h"
#include "kernels/element.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels::device {
namespace {

static_assert(kSumLanes == kWarp, "a run is a warp's work");

constexpr unsigned kAll = 0xffffffff;  // threads of a warp
constexpr size_t kWarps = kThreads / kWarp;
// Elements that a warp stages at a time: they are read with 16 bytes a thread,
// and summed in the order of the tree, which is another one.
constexpr size_t kStage = 512;

size_t RunsOf(size_t leaves) { return (leaves + kSumRun - 1) / kSumRun; }

unsigned BlocksFor(size_t runs) {
  const size_t blocks = (runs + kWarps - 1) / kWarps;
  Check(blocks <= kBlocksMax, "more runs than a grid has blocks for");
  return static_cast<unsigned>(blocks);
}

// The run's value, in thread 0 of the warp: FoldLanes by shuffles.
__device__ double FoldWarp(double lane) {
#pragma unroll
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    lane += __shfl_down_sync(kAll, lane, half);
  }
  return lane;
}

__device__ size_t RunOfWarp() {
  return size_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}

// Brings run[0, n), n <= kStage, into the warp's stage.
template <class T>
__device__ void Stage(const T* run, size_t n, T* stage) {
  using V = Vector<T>;
  const unsigned thread = threadIdx.x % kWarp;
  const bool aligned = reinterpret_cast<uintptr_t>(run) % sizeof(V) == 0;
  const size_t vectors = aligned ? n / V::kLength : 0;
  const V* from = reinterpret_cast<const V*>(run);
  V* to = reinterpret_cast<V*>(stage);
  for (size_t i = thread; i < vectors; i += kWarp) to[i] = from[i];
  for (size_t i = vectors * V::kLength + thread; i < n; i += kWarp) {
    stage[i] = run[i];
  }
  __syncwarp();
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    CheckRuns(const T* data, size_t count, double inverse_scale,
              double* partials, unsigned long long* non_finite) {
  __shared__ alignas(16) T stages[kWarps][kStage];
  const size_t run = RunOfWarp();
  const size_t begin = run * kSumRun;
  if (begin >= count) return;  // the whole warp
  const size_t n = count - begin < kSumRun ? count - begin : kSumRun;
  const unsigned thread = threadIdx.x % kWarp;
  T* stage = stages[threadIdx.x / kWarp];

  double lane = 0;
  unsigned bad = 0;
  for (size_t at = 0; at < n; at += kStage) {
    const size_t staged = n - at < kStage ? n - at : kStage;
    Stage(data + begin + at, staged, stage);
    for (size_t i = thread; i < staged; i += kWarp) {
      const double value = ConvertTo<double>(stage[i]);
      const bool finite = IsFinite(value);
      bad += finite ? 0 : 1;
      const double scaled = (finite ? value : 0.0) * inverse_scale;
      lane += scaled * scaled;
    }
    __syncwarp();
  }
  const double sum = FoldWarp(lane);
  bad = __reduce_add_sync(kAll, bad);
  if (thread != 0) return;
  partials[run] = sum;
  if (bad > 0) atomicAdd(non_finite, bad);
}

// The next level of the tree.
__global__ void __launch_bounds__(kThreads)
    FoldRuns(const double* leaves, size_t count, double* partials) {
  const size_t run = RunOfWarp();
  const size_t begin = run * kSumRun;
  if (begin >= count) return;
  const size_t end = count - begin < kSumRun ? count : begin + kSumRun;
  const unsigned thread = threadIdx.x % kWarp;
  double lane = 0;
  for (size_t i = begin + thread; i < end; i += kWarp) lane += leaves[i];
  const double sum = FoldWarp(lane);
  if (thread == 0) partials[run] = sum;
}

__global__ void Begin(FiniteCheck* result) { *result = {}; }

__global__ void End(const double* total, FiniteCheck* result) {
  result->sum_of_squares = *total;
}

}  // namespace

size_t FiniteCheckScratchBytes(size_t count) {
  size_t doubles = 0;
  for (size_t runs = RunsOf(count); runs > 0; runs = RunsOf(runs)) {
    doubles += runs;
    if (runs == 1) break;
  }
  return doubles * sizeof(double);
}

Launched CheckFinite(const void* data, DType dtype, size_t count,
                     double inverse_scale, void* scratch, FiniteCheck* result,
                     Stream stream) {
  static_assert(sizeof(unsigned long long) == sizeof(result->non_finite));
  Begin<<<1, 1, 0, stream>>>(result);
  if (count == 0) return LastLaunch();
  double* partials = static_cast<double*>(scratch);
  auto* non_finite = reinterpret_cast<unsigned long long*>(&result->non_finite);
  size_t runs = RunsOf(count);
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    CheckRuns<T><<<BlocksFor(runs), kThreads, 0, stream>>>(
        static_cast<const T*>(data), count, inverse_scale, partials,
        non_finite);
  });
  while (runs > 1) {
    double* next = partials + runs;
    FoldRuns<<<BlocksFor(RunsOf(runs)), kThreads, 0, stream>>>(partials, runs,
                                                               next);
    partials = next;
    runs = RunsOf(runs);
  }
  End<<<1, 1, 0, stream>>>(partials, result);
  return LastLaunch();
}

}  // namespace lockstep::kernels::device
