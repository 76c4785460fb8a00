#include "kernels/device/dispatch.cuh"
#include "kernels/device/step_gate.h"
#include "kernels/step_replays.h"

namespace lockstep::kernels::device {
namespace {

// Words of a record are copied in 16-byte accesses.
constexpr unsigned kVectors = sizeof(StepRecord) / sizeof(ulonglong2);
static_assert(kRecordWords <= kWarp / 2);

// Words of pinned memory are read once, all at the same time, and not from a
// cache: the host may write them until just before. By the lanes from `lane`.
__device__ void GetRecord(const StepRecord& at, unsigned lane, StepRecord* to) {
  const unsigned word = threadIdx.x - lane;
  if (word >= kRecordWords) return;
  reinterpret_cast<uint64_t*>(to)[word] =
      reinterpret_cast<const volatile uint64_t*>(&at)[word];
}

__device__ uint64_t Get(const uint64_t& word) {
  return *const_cast<const volatile uint64_t*>(&word);
}

__device__ void Put(uint64_t value, uint64_t* word) {
  *const_cast<volatile uint64_t*>(word) = value;
  __threadfence_system();
}

__global__ void __launch_bounds__(kWarp) Begin(const GateContext context) {
  if (threadIdx.x == 0)
    Put(context.control->replays + 1, &context.replays->begun);
}

// What this rank says of the launch, in shared memory; false: the host has not
// sealed it.
__device__ bool TakeInput(const GateContext& context,
                          const StepControl& control, StepRecord* input,
                          StepRecord* said) {
  const auto depth = static_cast<uint64_t>(context.depth);
  if (context.replays == nullptr) {
    GetRecord(context.inputs[control.entries % depth], 0, input);
    __syncwarp();
    return IsValid(*input, context.rank, StepInputId(context, control.entries));
  }
  const ReplayBoard& board = *context.replays;
  GetRecord(context.replay_inputs[control.replays % depth], 0, input);
  bool found = false;
  for (int i = 0; i < kTriesToRead && !found; ++i) {
    const uint64_t slot = Get(board.slot);
    __syncwarp();
    GetRecord(board.said[slot % 2], kRecordWords, said);
    __syncwarp();
    found = IsValid(*said, context.rank, StepInputId(context, kUsual));
  }
  const bool has_input = IsValid(
      *input, context.rank, StepInputId(context, OfReplay(control.replays)));
  __syncwarp();
  if (threadIdx.x == 0) {
    StepRecord record = context.usual;
    if (has_input) TakeReplayInput(context, *input, &record);
    TakeSaid(context, control, *said, Get(board.read), &record);
    *input = record;
  }
  return found;
}

__global__ void __launch_bounds__(kWarp)
    Write(const GateContext context, FiniteCheck* norm, StepRecord* record) {
  __shared__ StepRecord input;
  __shared__ StepRecord said;
  const StepControl control = *context.control;
  uint32_t stop = 0;
  if (threadIdx.x == 0) {
    // Before the stop word is read.
    if (context.replays != nullptr) {
      Put(control.replays + 1, &context.replays->records);
    }
    stop = *context.stop;
  }
  const bool sealed = TakeInput(context, control, &input, &said);
  if (threadIdx.x != 0) return;
  const bool ended = stop != 0 || control.failed != 0;
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
  other.commands = __shfl_down_sync(kAll, counts.commands, lanes);
  other.said = __shfl_down_sync(kAll, counts.said, lanes);
  other.acted = __shfl_down_sync(kAll, counts.acted, lanes);
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
    if (MayWriteEntry(*context.control)) {
      CopyRecord(record, const_cast<StepRecord*>(entry->records()) + rank);
    }
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
__device__ void Conclude(const GateContext& context, const StepRecord& own,
                         const StepRecord& first, StepEntry made,
                         VerdictScalars* scalars) {
  StepControl control = *context.control;
  StepEntry* const entry = EntryOf(context, control.entries);
  made.step = control.step;
  const auto world = static_cast<unsigned>(context.world);
  made.records_hash += HashInJournal(own, world);
  made.gate = control.sequence;
  made.is_replay = context.replays != nullptr ? 1 : 0;
  made.replay = control.replays;
  made.outcome = OutcomeOf(context, made, control, first);
  made.checksum = ChecksumOf(made, control.entries);
  const bool writes_entry = WritesEntry(context, made, control);
  if (writes_entry) {
    made.sequence = control.entries + 1;
    CopyRecord(own, const_cast<StepRecord*>(entry->records()) + world);
    *entry = made;
    __threadfence_system();
  }
  *scalars = ScalarsOf(made, first);
  if (made.outcome == StepOutcome::kFailed && context.keeps != nullptr) {
    context.keeps->commit = 0;
  }
  Advance(context, made, first, writes_entry, &control);
  *context.control = control;
  if (context.replays == nullptr) return;
  __threadfence_system();
  Put(control.replays, &context.replays->gates);
}

__global__ void __launch_bounds__(kThreads)
    Tiles(const GateContext context, const StepRecord* records) {
  __shared__ TileMemory memory;
  const StepControl control = *context.control;
  const uint64_t id = StepRecordId(context, control);
  const StepRecord first = records[0];
  const auto tile = static_cast<int>(blockIdx.x);
  const RecordCounts counts =
      CountTile(context, id, records, first, EntryOf(context, control.entries),
                tile, memory);
  if (threadIdx.x == 0) context.tiles[tile] = SummaryOf(counts, tile, id);
}

__global__ void __launch_bounds__(kThreads)
    Gate(const GateContext context, const StepRecord* own,
         const StepRecord* records, VerdictScalars* scalars) {
  __shared__ TileMemory memory;
  __shared__ SummaryMemory turn;
  const StepControl control = *context.control;
  const StepEntry* const entry = EntryOf(context, control.entries);
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
  Conclude(context, written, first, made, scalars);
}

}  // namespace

Launched BeginReplay(const GateContext& context, Stream stream) {
  return LaunchKernel(Begin, 1, kWarp, stream, context);
}

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
