#include "kernels/device/dispatch.cuh"
#include "kernels/device/step_gate.h"

namespace lockstep::kernels::device {
namespace {

// Words of a record are copied in 16-byte accesses.
constexpr unsigned kVectors = sizeof(StepRecord) / sizeof(ulonglong2);
static_assert(kRecordWords <= kWarp / 2);

__global__ void __launch_bounds__(kWarp)
    Write(const GateContext context, FiniteCheck* norm, StepRecord* record) {
  __shared__ StepRecord input;
  __shared__ uint32_t stop;
  const StepControl control = *context.control;
  const StepRecord& slot =
      context.inputs[control.sequence % static_cast<uint64_t>(context.depth)];
  // Pinned memory is read once, all words at the same time, and not from a
  // cache: the host may write it until just before.
  if (threadIdx.x < kRecordWords) {
    reinterpret_cast<uint64_t*>(&input)[threadIdx.x] =
        reinterpret_cast<const volatile uint64_t*>(&slot)[threadIdx.x];
  } else if (threadIdx.x == kRecordWords) {
    stop = *context.stop;
  }
  __syncwarp();
  if (threadIdx.x != 0) return;
  const bool ended = stop != 0 || control.failed != 0;
  const bool sealed =
      IsValid(input, context.rank, StepInputId(context, control.sequence));
  StepRecord made = input;
  TakeLossScale(context, &made);
  made.id = StepRecordId(context, control);
  made.norm_squared = norm->sum_of_squares;
  made.non_finite = norm->non_finite;
  *norm = {};
  made.checksum = ChecksumOf(made, context.rank);
  if (ended || !sealed) Invalidate(&made);
  *record = made;
}

constexpr unsigned kAll = 0xffffffff;  // mask: all threads of a warp
constexpr unsigned kWarps = kThreads / kWarp;

static_assert(kGateTile == kThreads);
constexpr int kTurn = kWarp;  // summaries that are read at the same time

// A block's shared memory.
struct TileMemory {
  // The floats of a tile, for the two threads that add them in rank order.
  double norm_squared[kThreads];
  double samples[kThreads];
  double samples_sum;
  RecordCounts of_warps[kWarps];
};
struct SummaryMemory {
  TileSummary summaries[kTurn];
  bool valid[kTurn];
};

__device__ RecordCounts IntegersBelow(const RecordCounts& counts,
                                      unsigned lanes) {
  RecordCounts other = CountsOfNone(0);
  other.invalid_rank = __shfl_down_sync(kAll, counts.invalid_rank, lanes);
  other.differing_rank = __shfl_down_sync(kAll, counts.differing_rank, lanes);
  other.non_finite = __shfl_down_sync(kAll, counts.non_finite, lanes);
  other.with_more_data = __shfl_down_sync(kAll, counts.with_more_data, lanes);
  other.records_hash = __shfl_down_sync(kAll, counts.records_hash, lanes);
  return other;
}

__device__ void CopyRecord(const StepRecord& from, StepRecord* to) {
  const auto* const f = reinterpret_cast<const ulonglong2*>(&from);
  auto* const t = reinterpret_cast<ulonglong2*>(to);
  LOCKSTEP_UNROLL
  for (unsigned i = 0; i < kVectors; ++i) t[i] = f[i];
}

// Verifies a tile's records, and copies them to the journal. All threads of the
// block call it, and the first has the result.
__device__ RecordCounts CountTile(const GateContext& context, uint64_t id,
                                  const StepRecord* records,
                                  const StepRecord& first,
                                  const StepEntry* entry, int tile,
                                  TileMemory& memory) {
  const GateTile ranks = TileAt(tile, context.world);
  const int rank = ranks.begin + static_cast<int>(threadIdx.x);
  RecordCounts counts = CountsOfNone(context.world);
  if (rank < ranks.end) {
    const StepRecord record = records[rank];
    CopyRecord(record, const_cast<StepRecord*>(entry->records()) + rank);
    counts = CountsOf(record, first, rank, id, context.world);
    memory.norm_squared[threadIdx.x] = record.norm_squared;
    memory.samples[threadIdx.x] = record.samples;
  }
  __syncthreads();
  double added = 0;  // thread 0: norms; the first of the second warp: samples
  if (threadIdx.x == 0 || threadIdx.x == kWarp) {
    const double* const values =
        threadIdx.x == 0 ? memory.norm_squared : memory.samples;
    const int count = ranks.end - ranks.begin;
#pragma unroll 8
    for (int i = 0; i < count; ++i) added += values[i];
  }
  if (threadIdx.x == kWarp) memory.samples_sum = added;
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    AddIntegersTo(&counts, IntegersBelow(counts, lanes));
  }
  if (threadIdx.x % kWarp == 0) memory.of_warps[threadIdx.x / kWarp] = counts;
  // The records are visible to the host before any scalar is.
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return counts;
  for (unsigned warp = 1; warp < kWarps; ++warp) {
    AddIntegersTo(&counts, memory.of_warps[warp]);
  }
  counts.norm_squared = added;
  counts.samples = memory.samples_sum;
  return counts;
}

// Verifies the tiles' summaries, and counts the tiles again whose summary is
// not valid. As CountTile.
__device__ RecordCounts AddTiles(const GateContext& context, uint64_t id,
                                 const StepRecord* records,
                                 const StepRecord& first,
                                 const StepEntry* entry, TileMemory& memory,
                                 SummaryMemory& turn) {
  RecordCounts all = CountsOfNone(context.world);
  if (!IsValid(first, 0, id)) all.invalid_rank = 0;
  const int tiles = TilesOf(context.world);
  for (int begin = 0; begin < tiles; begin += kTurn) {
    const int own = begin + static_cast<int>(threadIdx.x);
    if (threadIdx.x < kTurn && own < tiles) {
      const TileSummary summary = context.tiles[own];
      turn.summaries[threadIdx.x] = summary;
      turn.valid[threadIdx.x] = IsValid(summary, own, id);
    }
    __syncthreads();
    for (int i = 0; i < kTurn && begin + i < tiles; ++i) {
      RecordCounts counts = turn.summaries[i].counts;
      if (!turn.valid[i]) {  // alike in all threads
        const int tile = begin + i;
        counts = CountTile(context, id, records, first, entry, tile, memory);
        counts.invalid_rank =
            static_cast<uint64_t>(TileAt(tile, context.world).begin);
      }
      AddTo(&all, counts);
    }
    __syncthreads();
  }
  return all;
}

// The decision of one thread. The journal's entry is complete before the
// scalars are visible; inside the entry nothing is ordered, because its reader
// checks every word.
__device__ void Conclude(const GateContext& context, const StepRecord& first,
                         StepEntry made, VerdictScalars* scalars) {
  StepControl control = *context.control;
  StepEntry* const entry = EntryOf(context, control.sequence);
  const auto world = static_cast<uint64_t>(context.world);
  made.step = control.step;
  made.outcome = OutcomeOf(made, control, world);
  made.checksum = ChecksumOf(made, control.sequence);
  control.sequence += 1;
  made.sequence = control.sequence;
  *entry = made;
  __threadfence_system();
  *scalars = ScalarsOf(made, first);
  if (made.outcome == StepOutcome::kFailed) control.failed = 1;
  if (made.outcome == StepOutcome::kCommitted) {
    AdvanceLossScale(context, first, made.non_finite);
    control.step += 1;
    if (made.with_more_data < static_cast<uint64_t>(context.more_data_min)) {
      control.out_of_data = 1;
    }
  }
  *context.control = control;
}

__global__ void __launch_bounds__(kThreads)
    Tiles(const GateContext context, const StepRecord* records) {
  __shared__ TileMemory memory;
  const StepControl control = *context.control;
  const uint64_t id = StepRecordId(context, control);
  const StepRecord first = records[0];
  const auto tile = static_cast<int>(blockIdx.x);
  const RecordCounts counts =
      CountTile(context, id, records, first, EntryOf(context, control.sequence),
                tile, memory);
  if (threadIdx.x == 0) context.tiles[tile] = SummaryOf(counts, tile, id);
}

__global__ void __launch_bounds__(kThreads)
    Gate(const GateContext context, const StepRecord* own,
         const StepRecord* records, VerdictScalars* scalars) {
  __shared__ TileMemory memory;
  __shared__ SummaryMemory turn;
  const StepControl control = *context.control;
  const StepEntry* const entry = EntryOf(context, control.sequence);
  const uint64_t id = StepRecordId(context, control);
  const StepRecord first = records[0];
  const RecordCounts counts =
      HasTiles(context.world)
          ? AddTiles(context, id, records, first, entry, memory, turn)
          : CountTile(context, id, records, first, entry, 0, memory);
  if (threadIdx.x != 0) return;
  StepEntry made;
  SetCounts(counts, &made);
  const StepRecord written = *own;
  made.contributed = IsValid(written, context.rank, id) ? 1 : 0;
  Conclude(context, first, made, scalars);
}

}  // namespace

Launched WriteStepRecord(const GateContext& context, FiniteCheck* norm,
                         StepRecord* record, Stream stream) {
  return LaunchKernel(Write, 1, kWarp, stream, context, norm, record);
}

Launched VerifyTiles(const GateContext& context, const StepRecord* records,
                     Stream stream) {
  const auto tiles = static_cast<unsigned>(TilesOf(context.world));
  return LaunchKernel(Tiles, tiles, kThreads, stream, context, records);
}

Launched GateStep(const GateContext& context, const StepRecord* own,
                  const StepRecord* records, VerdictScalars* scalars,
                  Stream stream) {
  return LaunchKernel(Gate, 1, kThreads, stream, context, own, records,
                      scalars);
}

}  // namespace lockstep::kernels::device
