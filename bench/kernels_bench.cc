// Bytes per second of the host kernels, compared to memcpy. "Bytes" are those
// read plus those written. 8 Ki elements fit into the cache, 16 Mi do not.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cast_scale.h"
#include "kernels/checked_reduce.h"
#include "kernels/finite_check.h"
#include "kernels/pack.h"
#include "kernels/permute_blocks.h"
#include "kernels/reduce.h"
#include "kernels/reduce_pairs.h"
#include "kernels/scale_and_check.h"
#include "kernels/strided_box.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kInCache = 8 << 10;
constexpr int64_t kInMemory = 16 << 20;

void Moved(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

// Floats of value 1, integers of value 0.
std::vector<std::byte> Row(DType dtype, size_t count) {
  std::vector<std::byte> row(count * SizeOf(dtype));
  std::vector<double> ones(count, 1.0);
  if (IsFloat(dtype)) {
    CastScale(ones.data(), DType::kF64, 1.0, row.data(), dtype, count);
  }
  return row;
}

void BM_Memcpy(benchmark::State& state) {
  const size_t bytes = state.range(0) * 4;
  std::vector<std::byte> src(bytes, std::byte{1}), dst(bytes);
  for (auto _ : state) {
    std::memcpy(dst.data(), src.data(), bytes);
    benchmark::ClobberMemory();
  }
  Moved(state, 2 * bytes);
}
BENCHMARK(BM_Memcpy)->Arg(kInCache)->Arg(kInMemory);

void BM_CastScale(benchmark::State& state, DType from, DType to) {
  const size_t count = state.range(0);
  const std::vector<std::byte> src = Row(from, count);
  std::vector<std::byte> dst = Row(to, count);
  for (auto _ : state) {
    CastScale(src.data(), from, 0.5, dst.data(), to, count);
    benchmark::ClobberMemory();
  }
  Moved(state, src.size() + dst.size());
}
#define CAST(name, from, to)                                    \
  BENCHMARK_CAPTURE(BM_CastScale, name, DType::from, DType::to) \
      ->Arg(kInCache)                                           \
      ->Arg(kInMemory)
CAST(f32_f32, kF32, kF32);
CAST(f64_f64, kF64, kF64);
CAST(f16_f32, kF16, kF32);
CAST(f32_f16, kF32, kF16);
CAST(f16_f16, kF16, kF16);
CAST(bf16_f32, kBF16, kF32);
CAST(f32_bf16, kF32, kBF16);
CAST(bf16_bf16, kBF16, kBF16);
CAST(f64_f32, kF64, kF32);
CAST(f64_f16, kF64, kF16);

// 64 MiB of blocks; "of_memcpy" is the speed of memcpy of as many bytes, which
// alternates with it, divided into its own. `rows`: 0 for as many as columns.
void BM_PermuteBlocks(benchmark::State& state, size_t rows) {
  const size_t block = state.range(0);
  const size_t blocks = (kInMemory * sizeof(float)) / block;
  if (rows == 0) rows = static_cast<size_t>(std::sqrt(blocks));
  const size_t columns = blocks / rows;
  const size_t bytes = rows * columns * block;
  std::vector<std::byte> in(bytes, std::byte{1}), out(bytes);
  std::chrono::duration<double> copying{0}, permuting{0};
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(out.data(), in.data(), bytes);
    benchmark::ClobberMemory();
    const auto middle = std::chrono::steady_clock::now();
    PermuteBlocks(in.data(), out.data(), rows, columns, block);
    benchmark::ClobberMemory();
    const auto end = std::chrono::steady_clock::now();
    copying += middle - begin;
    permuting += end - middle;
    state.SetIterationTime(std::chrono::duration<double>(end - middle).count());
  }
  Moved(state, 2 * bytes);
  state.counters["of_memcpy"] = copying / permuting;
}
#define PERMUTE(name, rows)                       \
  BENCHMARK_CAPTURE(BM_PermuteBlocks, name, rows) \
      ->Arg(4)                                    \
      ->Arg(64)                                   \
      ->Arg(4096)                                 \
      ->UseManualTime()
PERMUTE(square, 0);
PERMUTE(8_rows, 8);

// Boxes of halos. "of_memcpy" is the time of a memcpy of the bytes of the box,
// which alternates with it, divided by its own.
template <class Run>
void OfMemcpy(benchmark::State& state, size_t bytes, size_t passes, Run run) {
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  std::chrono::duration<double> copying{0}, running{0};
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
    const auto middle = std::chrono::steady_clock::now();
    run();
    benchmark::ClobberMemory();
    const auto end = std::chrono::steady_clock::now();
    copying += middle - begin;
    running += end - middle;
    state.SetIterationTime(std::chrono::duration<double>(end - middle).count());
  }
  Moved(state, passes * bytes);
  state.counters["of_memcpy"] = copying / running;
}

enum class BoxRun { kCopy, kFill, kSum, kAdd };

// `count` elements of f32 that the box reads and writes.
void RunBox(benchmark::State& state, const StridedBox& box, size_t count,
            BoxRun kind) {
  const size_t size = count * sizeof(float);
  const auto memory = [](const int64_t* counts, const int64_t* strides,
                         int dims) {
    int64_t last = 0;
    for (int d = 0; d < dims; ++d) last += (counts[d] - 1) * strides[d];
    return std::vector<float>(static_cast<size_t>(last) + 1, 1.0f);
  };
  const auto in = memory(box.counts, box.in_strides, box.dims);
  auto out = memory(box.counts, box.out_strides, box.dims);
  const void* const from[] = {in.data()};
  void* const to[] = {out.data()};
  BoxFill fill = {.dims = box.dims};
  std::copy_n(box.counts, kBoxDimsMax, fill.counts);
  std::copy_n(box.out_strides, kBoxDimsMax, fill.out_strides);
  fill.value[1] = std::byte{1};
  const size_t passes = kind == BoxRun::kFill  ? 1
                        : kind == BoxRun::kAdd ? 3
                                               : 2;
  OfMemcpy(state, size, passes, [&] {
    switch (kind) {
      case BoxRun::kCopy: return CopyBoxes({&box, 1}, from, to);
      case BoxRun::kFill: return FillBoxes({&fill, 1}, to);
      case BoxRun::kSum: return SumBoxes({&box, 1}, from, to, false);
      case BoxRun::kAdd: return SumBoxes({&box, 1}, from, to, true);
    }
  });
}

// Whole rows of a field: one run.
void BM_BoxRows(benchmark::State& state, BoxRun kind) {
  const int64_t count = state.range(0) / 4;
  RunBox(state,
         {.dims = 1, .counts = {count}, .in_strides = {1}, .out_strides = {1}},
         static_cast<size_t>(count), kind);
}
#define BOX_ROWS(name, kind)                        \
  BENCHMARK_CAPTURE(BM_BoxRows, name, BoxRun::kind) \
      ->RangeMultiplier(16)                         \
      ->Range(int64_t{64} << 10, int64_t{64} << 20) \
      ->UseManualTime()
BOX_ROWS(copy, kCopy);
BOX_ROWS(fill, kFill);
BOX_ROWS(add, kAdd);

// Columns of a field of 1024 x 1024, `width` wide, to or from a dense message.
void BM_BoxColumns(benchmark::State& state, BoxRun kind, bool packs) {
  constexpr int64_t kSide = 1024;
  const int64_t width = state.range(0);
  const StridedBox box = {.dims = 2,
                          .counts = {kSide, width},
                          .in_strides = {packs ? kSide : width, 1},
                          .out_strides = {packs ? width : kSide, 1}};
  RunBox(state, box, static_cast<size_t>(kSide * width), kind);
}
#define BOX_COLUMNS(name, kind, packs)                        \
  BENCHMARK_CAPTURE(BM_BoxColumns, name, BoxRun::kind, packs) \
      ->Arg(1)                                                \
      ->Arg(2)                                                \
      ->Arg(3)                                                \
      ->Arg(16)                                               \
      ->UseManualTime()
BOX_COLUMNS(pack, kCopy, true);
BOX_COLUMNS(unpack, kCopy, false);
BOX_COLUMNS(fill, kFill, false);
BOX_COLUMNS(add, kAdd, false);

// The inside of a field that is padded by one cell on each side.
void BM_BoxPad(benchmark::State& state) {
  const int64_t side = state.range(0);
  RunBox(state,
         {.dims = 2,
          .counts = {side, side},
          .in_strides = {side, 1},
          .out_strides = {side + 2, 1}},
         static_cast<size_t>(side * side), BoxRun::kCopy);
}
BENCHMARK(BM_BoxPad)->Arg(100)->Arg(1024)->Arg(4096)->UseManualTime();

// Three rows into one: the gradient of a replicated edge.
void BM_BoxSum(benchmark::State& state) {
  const int64_t count = state.range(0);
  RunBox(state,
         {.dims = 2,
          .counts = {3, count},
          .in_strides = {count, 1},
          .out_strides = {0, 1}},
         static_cast<size_t>(3 * count), BoxRun::kSum);
}
BENCHMARK(BM_BoxSum)->Arg(kInCache)->Arg(kInMemory / 4)->UseManualTime();

// As many slots as in a bucket of small layers: 1,000 elements each.
void BM_Pack(benchmark::State& state, DType dtype, bool added) {
  const size_t count = state.range(0);
  std::vector<std::byte> tensors = Row(dtype, count);
  std::vector<std::byte> bucket = Row(dtype, count);
  std::vector<TensorSlot> slots;
  for (size_t at = 0; at < count; at += 1000) {
    slots.push_back({.tensor = tensors.data() + at * SizeOf(dtype),
                     .offset = at,
                     .count = std::min<size_t>(1000, count - at)});
  }
  for (auto _ : state) {
    if (added) {
      PackAdded(slots, dtype, 0.25, bucket.data());
    } else {
      Pack(slots, dtype, bucket.data());
    }
    benchmark::ClobberMemory();
  }
  Moved(state, (added ? 3 : 2) * bucket.size());
}
#define PACK(name, dtype, added)                        \
  BENCHMARK_CAPTURE(BM_Pack, name, DType::dtype, added) \
      ->Arg(kInCache)                                   \
      ->Arg(kInMemory)
PACK(copy_f32, kF32, false);
PACK(added_f32, kF32, true);
PACK(added_f16, kF16, true);
PACK(added_bf16, kBF16, true);

// The reduction of one of two ranks in the arena: its slice, and the slice's
// norm.
void BM_ToBoth(benchmark::State& state, ReduceOp op, bool checked) {
  const size_t count = state.range(0);
  std::vector<std::vector<std::byte>> rows(2, Row(DType::kF32, count));
  const void* const in[] = {rows[0].data(), rows[1].data()};
  void* const out[] = {rows[0].data(), rows[1].data()};
  for (auto _ : state) {
    if (checked) {
      CheckedReduce reduce(DType::kF32, op);
      reduce.Reduce(in, out, count);
      benchmark::DoNotOptimize(reduce.Total());
    } else {
      ReduceRanksToAll(in, out, count, DType::kF32, op);
    }
    benchmark::ClobberMemory();
  }
  Moved(state, 4 * rows[0].size());
}
#define TO_BOTH(name, op, checked)                          \
  BENCHMARK_CAPTURE(BM_ToBoth, name, ReduceOp::op, checked) \
      ->Arg(kInCache)                                       \
      ->Arg(kInMemory)
TO_BOTH(max, kMax, false);
TO_BOTH(mean, kMean, false);
TO_BOTH(mean_checked, kMean, true);

// The same for sums in pairs.
void BM_PairsToBoth(benchmark::State& state, bool checked) {
  const size_t count = state.range(0);
  std::vector<std::vector<std::byte>> rows(2, Row(DType::kF32, count));
  const void* const in[] = {rows[0].data(), rows[1].data()};
  void* const out[] = {rows[0].data(), rows[1].data()};
  for (auto _ : state) {
    if (checked) {
      CheckedReduce reduce = CheckedReduce::InPairs(DType::kF32, 0.125);
      reduce.Reduce(in, out, count);
      benchmark::DoNotOptimize(reduce.Total());
    } else {
      ReducePairsToAll(in, out, count, DType::kF32, 0.125);
    }
    benchmark::ClobberMemory();
  }
  Moved(state, 4 * rows[0].size());
}
BENCHMARK_CAPTURE(BM_PairsToBoth, plain, false)->Arg(kInCache)->Arg(kInMemory);
BENCHMARK_CAPTURE(BM_PairsToBoth, checked, true)->Arg(kInCache)->Arg(kInMemory);

void BM_ReduceRanks(benchmark::State& state, DType dtype, ReduceOp op,
                    size_t ranks) {
  const size_t count = state.range(0);
  std::vector<std::vector<std::byte>> rows(ranks, Row(dtype, count));
  std::vector<const void*> inputs;
  for (const auto& row : rows) inputs.push_back(row.data());
  std::vector<std::byte> out = Row(dtype, count);
  for (auto _ : state) {
    ReduceRanks(inputs, out.data(), count, dtype, op);
    benchmark::ClobberMemory();
  }
  Moved(state, (ranks + 1) * out.size());
}
#define REDUCE(name, dtype, op, ranks)                                       \
  BENCHMARK_CAPTURE(BM_ReduceRanks, name, DType::dtype, ReduceOp::op, ranks) \
      ->Arg(kInCache)                                                        \
      ->Arg(kInMemory)
REDUCE(sum_f32_2, kF32, kSum, 2);
REDUCE(sum_f32_4, kF32, kSum, 4);
REDUCE(mean_f32_4, kF32, kMean, 4);
REDUCE(max_f32_4, kF32, kMax, 4);
REDUCE(sum_f64_4, kF64, kSum, 4);
REDUCE(sum_f16_4, kF16, kSum, 4);
REDUCE(sum_bf16_4, kBF16, kSum, 4);
REDUCE(sum_i32_4, kI32, kSum, 4);
REDUCE(max_i64_4, kI64, kMax, 4);

void BM_CheckFinite(benchmark::State& state, DType dtype) {
  const size_t count = state.range(0);
  const std::vector<std::byte> data = Row(dtype, count);
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckFinite(data.data(), dtype, count, 0.5));
  }
  Moved(state, data.size());
}
#define FINITE(name, dtype)                             \
  BENCHMARK_CAPTURE(BM_CheckFinite, name, DType::dtype) \
      ->Arg(kInCache)                                   \
      ->Arg(kInMemory)
FINITE(f32, kF32);
FINITE(f64, kF64);
FINITE(f16, kF16);
FINITE(bf16, kBF16);

// The mean of a sum with its norm, in place: one pass, or Scale and a check.
// The bytes are those of one pass. Factor 1, so that values stay normal.
void BM_ScaleAndCheck(benchmark::State& state, DType dtype, int passes) {
  const size_t count = state.range(0);
  std::vector<std::byte> data = Row(dtype, count);
  const ElementRange whole = {0, count};
  for (auto _ : state) {
    FiniteCheck total;
    if (passes == 1) {
      ScaleAndCheck(data.data(), dtype, 1.0, whole, {&whole, 1}, &total);
    } else {
      Scale(data.data(), dtype, 1.0, count);
      AddFiniteCheck(data.data(), dtype, {&whole, 1}, 1.0, &total);
    }
    benchmark::DoNotOptimize(total);
    benchmark::ClobberMemory();
  }
  Moved(state, 2 * data.size());
}
#define MEAN(name, dtype, passes)                                 \
  BENCHMARK_CAPTURE(BM_ScaleAndCheck, name, DType::dtype, passes) \
      ->Arg(kInCache)                                             \
      ->Arg(kInMemory)
MEAN(f32, kF32, 1);
MEAN(f32_in_two_passes, kF32, 2);
MEAN(bf16, kBF16, 1);
MEAN(bf16_in_two_passes, kBF16, 2);

}  // namespace
}  // namespace lockstep::kernels

BENCHMARK_MAIN();
