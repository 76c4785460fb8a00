// The step gate verifies the records of many ranks in tiles of kGateTile, and
// each level is verified by the next.
//
//   records    [0 .. 255][256 .. 511] ... [.. world)     device
//                  │          │               │          VerifyTiles: a block
//                  ▼          ▼               ▼          for each tile
//   journal    [records] [records]   ...  [records]      pinned
//   summaries  [tile 0]  [tile 1]    ...  [tile n]       device
//                  └──────────┴───────┬───────┘          GateStep: one block
//                                     ▼
//                            entry, then scalars
//
// With up to kGateTile ranks there is one tile, whose records GateStep verifies
// itself, without a summary.
//
// A summary is proof as a record is (step_gate.h): its id is that of the
// launch, and its checksum covers every word and the tile's index. A summary
// that is stale, torn, missing or of another tile proves that this device's
// memory is damaged, or that VerifyTiles did not run. Then the tile's first
// rank counts as invalid, so the step fails, and GateStep itself copies the
// tile's records, so that the journal is complete. It also verifies rank 0's
// record, whose terms it uses.
//
// Sums of floats are added in one order: from zero in rank order inside a tile,
// then the tiles' sums from zero in their order. The device, its twin and the
// host that reads the journal (client/gradient/step_gate.h) add in this order,
// so their sums have the same bits.
//
// Memory: summaries in device memory; the caller need not initialise them.
// Threads: as step_gate.h.
// Run:     build/release/bin/kernels_test --gtest_filter='GateTiles*'
// Bench:   build/gpu-bundle/run step_gate_bench

#ifndef LOCKSTEP_KERNELS_GATE_TILES_H_
#define LOCKSTEP_KERNELS_GATE_TILES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/step_gate.h"

namespace lockstep::kernels {

// Ranks of a tile: a block of the device has a thread for each.
inline constexpr int kGateTile = 256;

// The ranks [begin, end) of a tile.
struct GateTile {
  int begin;
  int end;
};

LOCKSTEP_HD int TilesOf(int world) {
  return world / kGateTile + (world % kGateTile != 0 ? 1 : 0);
}

// Whether VerifyTiles comes before GateStep.
LOCKSTEP_HD bool HasTiles(int world) { return world > kGateTile; }

LOCKSTEP_HD GateTile TileAt(int tile, int world) {
  const int begin = tile * kGateTile;
  return {begin, world - begin < kGateTile ? world : begin + kGateTile};
}

// Adds `value_of(rank)` of all ranks in the order of the gate's sums, by
// `add(&sum, value)`. Sum{} is zero.
template <class Sum, class ValueOf, class Add>
Sum SumInTiles(int world, ValueOf value_of, Add add) {
  Sum all{};
  for (int tile = 0; tile < TilesOf(world); ++tile) {
    const GateTile ranks = TileAt(tile, world);
    Sum sum{};
    for (int rank = ranks.begin; rank < ranks.end; ++rank) {
      add(&sum, value_of(rank));
    }
    add(&all, sum);
  }
  return all;
}

// What the gate takes from the records of one rank, of a tile, or of all.
// Without initialisers, so that it can be in a block's shared memory.
struct RecordCounts {
  uint64_t invalid_rank;    // the lowest; the world's size: none
  uint64_t differing_rank;  // likewise: its terms are not rank 0's
  uint64_t non_finite;
  uint64_t with_more_data;
  uint64_t records_hash;
  uint64_t commands;  // flags of those that all hold (CommandsOf)
  uint64_t said;      // all flags that any has
  uint64_t acted;     // the least
  double norm_squared;
  double samples;
};

struct TileSummary {
  uint64_t id;  // StepRecordId
  RecordCounts counts;
  uint64_t checksum;  // ChecksumOf
};
// No padding: the checksum covers every byte.
static_assert(sizeof(TileSummary) == 12 * sizeof(uint64_t));

// --- Arithmetic that host and device share -----------------------------------

LOCKSTEP_HD RecordCounts CountsOfNone(int world) {
  const auto none = static_cast<uint64_t>(world);
  return {none, none, 0, 0, 0, ~uint64_t{0}, 0, ~uint64_t{0}, 0, 0};
}

// `first`: rank 0's record. `id`: that of the launch.
LOCKSTEP_HD RecordCounts CountsOf(const StepRecord& record,
                                  const StepRecord& first, int rank,
                                  uint64_t id, int world) {
  RecordCounts counts = CountsOfNone(world);
  const auto number = static_cast<uint64_t>(rank);
  if (!IsValid(record, rank, id)) counts.invalid_rank = number;
  if (!SameTerms(record, first)) counts.differing_rank = number;
  counts.non_finite = record.non_finite;
  counts.with_more_data = (record.flags & StepRecord::kMoreData) != 0 ? 1 : 0;
  counts.records_hash = HashInJournal(record, number);
  counts.commands = CommandsOf(record, first);
  counts.said = record.flags;
  counts.acted = record.acted;
  counts.norm_squared = record.norm_squared;
  counts.samples = record.samples;
  return counts;
}

// The fields whose order does not matter.
LOCKSTEP_HD void AddIntegersTo(RecordCounts* sum, const RecordCounts& counts) {
  if (counts.invalid_rank < sum->invalid_rank) {
    sum->invalid_rank = counts.invalid_rank;
  }
  if (counts.differing_rank < sum->differing_rank) {
    sum->differing_rank = counts.differing_rank;
  }
  sum->non_finite += counts.non_finite;
  sum->with_more_data += counts.with_more_data;
  sum->records_hash += counts.records_hash;
  sum->commands &= counts.commands;
  sum->said |= counts.said;
  if (counts.acted < sum->acted) sum->acted = counts.acted;
}

LOCKSTEP_HD void AddTo(RecordCounts* sum, const RecordCounts& counts) {
  AddIntegersTo(sum, counts);
  sum->norm_squared += counts.norm_squared;
  sum->samples += counts.samples;
}

LOCKSTEP_HD uint64_t ChecksumOf(const TileSummary& summary, int tile) {
  return HashWords(reinterpret_cast<const RecordWord*>(&summary),
                   offsetof(TileSummary, checksum) / sizeof(uint64_t),
                   static_cast<uint64_t>(tile));
}

LOCKSTEP_HD TileSummary SummaryOf(const RecordCounts& counts, int tile,
                                  uint64_t id) {
  TileSummary summary{id, counts, 0};
  summary.checksum = ChecksumOf(summary, tile);
  return summary;
}

LOCKSTEP_HD bool IsValid(const TileSummary& summary, int tile, uint64_t id) {
  return summary.id == id && summary.checksum == ChecksumOf(summary, tile);
}

LOCKSTEP_HD void SetCounts(const RecordCounts& counts, StepEntry* entry) {
  entry->invalid_rank = counts.invalid_rank;
  entry->differing_rank = counts.differing_rank;
  entry->norm_squared = counts.norm_squared;
  entry->samples = counts.samples;
  entry->non_finite = counts.non_finite;
  entry->with_more_data = counts.with_more_data;
  entry->records_hash = counts.records_hash;
  entry->commands = counts.commands;
  entry->said = counts.said;
  entry->acted = counts.acted;
}

// --- The twins of the device's kernels ---------------------------------------

// Verifies the records that GateStep will decide by, tile by tile, copies them
// to the journal's entry, and writes `context.tiles`. Only GateSteps with
// HasTiles read these.
void VerifyTiles(const GateContext& context, const StepRecord* records);

// The part of GateStep that reads records: verifies and copies them, or
// verifies their tiles' summaries.
RecordCounts CountRecords(const GateContext& context,
                          const StepRecord* records);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_GATE_TILES_H_
