#include "kernels/device/dispatch.cuh"
#include "kernels/device/step_gate.h"

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
  GetRecord(context.inputs[control.replays % depth], 0, input);
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

// What does not depend on an order, of some of the records.
struct RecordCounts {
  uint64_t invalid_rank, differing_rank;
  uint64_t non_finite = 0, with_more_data = 0, records_hash = 0;
  uint64_t commands = ~0ull, said = 0, acted = ~0ull;

  __device__ explicit RecordCounts(uint64_t world)
      : invalid_rank(world), differing_rank(world) {}
  __device__ void Add(const RecordCounts& other) {
    invalid_rank = min(invalid_rank, other.invalid_rank);
    differing_rank = min(differing_rank, other.differing_rank);
    non_finite += other.non_finite;
    with_more_data += other.with_more_data;
    records_hash += other.records_hash;
    commands &= other.commands;
    said |= other.said;
    acted = min(acted, other.acted);
  }
  __device__ RecordCounts Below(unsigned lanes) const {
    RecordCounts other(0);
    other.invalid_rank = __shfl_down_sync(kAll, invalid_rank, lanes);
    other.differing_rank = __shfl_down_sync(kAll, differing_rank, lanes);
    other.non_finite = __shfl_down_sync(kAll, non_finite, lanes);
    other.with_more_data = __shfl_down_sync(kAll, with_more_data, lanes);
    other.records_hash = __shfl_down_sync(kAll, records_hash, lanes);
    other.commands = __shfl_down_sync(kAll, commands, lanes);
    other.said = __shfl_down_sync(kAll, said, lanes);
    other.acted = __shfl_down_sync(kAll, acted, lanes);
    return other;
  }
};

// The floats of a turn, for the two threads that add them in rank order.
struct Floats {
  double norm_squared[kThreads];
  double samples[kThreads];
};

__device__ void CopyRecord(const StepRecord& from, StepRecord* to) {
  const auto* const f = reinterpret_cast<const ulonglong2*>(&from);
  auto* const t = reinterpret_cast<ulonglong2*>(to);
  LOCKSTEP_UNROLL
  for (unsigned i = 0; i < kVectors; ++i) t[i] = f[i];
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
  made.records_hash += HashWords(WordsOf(own), kRecordWords, world);
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
    Gate(const GateContext context, const StepRecord* own,
         const StepRecord* records, VerdictScalars* scalars) {
  __shared__ Floats floats;
  __shared__ double samples;
  __shared__ alignas(
      8) unsigned char warp_counts[kWarps * sizeof(RecordCounts)];
  const auto world = static_cast<unsigned>(context.world);
  const StepControl control = *context.control;
  StepEntry* const entry = EntryOf(context, control.entries);
  const uint64_t id = StepRecordId(context, control);
  const StepRecord first = records[0];
  RecordCounts counts(world);
  double added = 0;  // thread 0: norms; the first of the second warp: samples
  for (unsigned begin = 0; begin < world; begin += kThreads) {
    const unsigned rank = begin + threadIdx.x;
    if (rank < world) {
      const StepRecord record = records[rank];
      CopyRecord(record, const_cast<StepRecord*>(entry->records()) + rank);
      RecordCounts one(world);
      if (!IsValid(record, static_cast<int>(rank), id)) one.invalid_rank = rank;
      if (!SameTerms(record, first)) one.differing_rank = rank;
      one.non_finite = record.non_finite;
      one.with_more_data = (record.flags & StepRecord::kMoreData) != 0 ? 1 : 0;
      one.records_hash = HashWords(WordsOf(record), kRecordWords, rank);
      one.commands = CommandsOf(record, first);
      one.said = record.flags;
      one.acted = record.acted;
      counts.Add(one);
      floats.norm_squared[threadIdx.x] = record.norm_squared;
      floats.samples[threadIdx.x] = record.samples;
    }
    __syncthreads();
    if (threadIdx.x == 0 || threadIdx.x == kWarp) {
      const double* const values =
          threadIdx.x == 0 ? floats.norm_squared : floats.samples;
      const unsigned count = min(kThreads, world - begin);
#pragma unroll 8
      for (unsigned i = 0; i < count; ++i) added += values[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == kWarp) samples = added;
  for (unsigned lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    counts.Add(counts.Below(lanes));
  }
  auto* const of_warps = reinterpret_cast<RecordCounts*>(warp_counts);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = counts;
  // The records are visible to the host before any scalar is.
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned warp = 1; warp < kWarps; ++warp) counts.Add(of_warps[warp]);
  StepEntry made;
  const StepRecord written = *own;
  made.contributed = IsValid(written, context.rank, id) ? 1 : 0;
  made.invalid_rank = counts.invalid_rank;
  made.differing_rank = counts.differing_rank;
  made.norm_squared = added;
  made.samples = samples;
  made.non_finite = counts.non_finite;
  made.with_more_data = counts.with_more_data;
  made.records_hash = counts.records_hash;
  made.commands = counts.commands;
  made.said = counts.said;
  made.acted = counts.acted;
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

Launched GateStep(const GateContext& context, const StepRecord* own,
                  const StepRecord* records, VerdictScalars* scalars,
                  Stream stream) {
  return LaunchKernel(Gate, 1, kThreads, stream, context, own, records,
                      scalars);
}

}  // namespace lockstep::kernels::device
