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

// What does not depend on an order, of some of the records.
struct RecordCounts {
  uint64_t invalid_rank, differing_rank;
  uint64_t non_finite = 0, with_more_data = 0, records_hash = 0;

  __device__ explicit RecordCounts(uint64_t world)
      : invalid_rank(world), differing_rank(world) {}
  __device__ void Add(const RecordCounts& other) {
    invalid_rank = min(invalid_rank, other.invalid_rank);
    differing_rank = min(differing_rank, other.differing_rank);
    non_finite += other.non_finite;
    with_more_data += other.with_more_data;
    records_hash += other.records_hash;
  }
  __device__ RecordCounts Below(unsigned lanes) const {
    RecordCounts other(0);
    other.invalid_rank = __shfl_down_sync(kAll, invalid_rank, lanes);
    other.differing_rank = __shfl_down_sync(kAll, differing_rank, lanes);
    other.non_finite = __shfl_down_sync(kAll, non_finite, lanes);
    other.with_more_data = __shfl_down_sync(kAll, with_more_data, lanes);
    other.records_hash = __shfl_down_sync(kAll, records_hash, lanes);
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
    Gate(const GateContext context, const StepRecord* own,
         const StepRecord* records, VerdictScalars* scalars) {
  __shared__ Floats floats;
  __shared__ double samples;
  __shared__ alignas(
      8) unsigned char warp_counts[kWarps * sizeof(RecordCounts)];
  const auto world = static_cast<unsigned>(context.world);
  const StepControl control = *context.control;
  StepEntry* const entry = EntryOf(context, control.sequence);
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
  Conclude(context, first, made, scalars);
}

}  // namespace

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
