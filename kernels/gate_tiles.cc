#include "kernels/gate_tiles.h"

#include <cstring>

namespace lockstep::kernels {

namespace {

// Verifies a tile's records, and copies them to the journal.
RecordCounts CountTile(const GateContext& context, const StepRecord* records,
                       int tile) {
  const StepControl& control = *context.control;
  const StepEntry* const entry = EntryOf(context, control.entries);
  const uint64_t id = StepRecordId(context, control);
  const GateTile ranks = TileAt(tile, context.world);
  RecordCounts counts = CountsOfNone(context.world);
  for (int rank = ranks.begin; rank < ranks.end; ++rank) {
    const StepRecord& record = records[rank];
    AddTo(&counts, CountsOf(record, records[0], rank, id, context.world));
    if (!MayWriteEntry(control)) continue;
    std::memcpy(const_cast<StepRecord*>(entry->records()) + rank, &record,
                sizeof record);
  }
  return counts;
}

}  // namespace

void VerifyTiles(const GateContext& context, const StepRecord* records) {
  const uint64_t id = StepRecordId(context, *context.control);
  for (int tile = 0; tile < TilesOf(context.world); ++tile) {
    context.tiles[tile] =
        SummaryOf(CountTile(context, records, tile), tile, id);
  }
}

RecordCounts CountRecords(const GateContext& context,
                          const StepRecord* records) {
  if (!HasTiles(context.world)) return CountTile(context, records, 0);
  const uint64_t id = StepRecordId(context, *context.control);
  RecordCounts all = CountsOfNone(context.world);
  if (!IsValid(records[0], 0, id)) all.invalid_rank = 0;
  for (int tile = 0; tile < TilesOf(context.world); ++tile) {
    const TileSummary& summary = context.tiles[tile];
    RecordCounts counts = summary.counts;
    if (!IsValid(summary, tile, id)) {
      counts = CountTile(context, records, tile);
      counts.invalid_rank =
          static_cast<uint64_t>(TileAt(tile, context.world).begin);
    }
    AddTo(&all, counts);
  }
  return all;
}

}  // namespace lockstep::kernels
