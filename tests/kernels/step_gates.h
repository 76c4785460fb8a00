// Ranks that end steps by records and gates, for the tests of the twins and of
// the device's kernels: the memory of all ranks, filled at random.

#ifndef LOCKSTEP_TESTS_KERNELS_STEP_GATES_H_
#define LOCKSTEP_TESTS_KERNELS_STEP_GATES_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gate_tiles.h"
#include "kernels/step_gate.h"
#include "kernels/step_replays.h"

namespace lockstep::kernels {

// The memory of one rank, where GateContext's pointers point.
struct GateMemory {
  explicit GateMemory(int world, int depth)
      : inputs(depth),
        replay_inputs(depth),
        journal(depth * StepEntryBytes(world) / 8),
        tiles(HasTiles(world) ? TilesOf(world) : 0) {}

  GateContext ContextOf(const GateContext& shape) {
    GateContext context = shape;
    context.control = &control;
    context.stop = &stop;
    context.inputs = inputs.data();
    context.journal = journal.data();
    if (scales_loss) context.loss_scale = &loss_scale;
    if (replays) {
      context.replays = &board;
      context.replay_inputs = replay_inputs.data();
      context.keeps = &keeps;
    }
    if (!tiles.empty()) context.tiles = tiles.data();
    return context;
  }

  StepControl control;
  uint32_t stop = 0;
  std::vector<StepRecord> inputs;
  std::vector<StepRecord> replay_inputs;
  std::vector<uint64_t> journal;
  std::vector<TileSummary> tiles;
  FiniteCheck norm;
  StepRecord own;
  VerdictScalars scalars;
  bool scales_loss = false;
  LossScale loss_scale;
  bool replays = false;
  ReplayBoard board;
  VerdictScalars keeps = {.commit = 1, .finite = 1};
};

// The host's fields of a record; equal terms for equal `terms`.
inline StepRecord RandomInput(std::mt19937_64& random, uint64_t terms) {
  std::uniform_real_distribution<double> number(0, 100);
  StepRecord record;
  record.samples = number(random);
  record.flags = (random() % 32) * StepRecord::kFirstCommand;
  if (random() % 8 != 0) record.flags |= StepRecord::kMoreData;
  if (terms % 2 == 0) record.flags |= StepRecord::kPerSample;
  if (terms % 3 == 0) record.flags |= StepRecord::kHasMaxNorm;
  record.command_word = random() % 4;
  record.inverse_scale = 1.0 / static_cast<double>(1 + terms % 7);
  record.max_norm = static_cast<double>(1 + terms % 5);
  record.step_seconds = number(random);
  return record;
}

// A valid record of each rank, as they are gathered. With a loss scale in the
// context, which is in memory of the host, all have used it.
inline std::vector<StepRecord> RandomRecords(std::mt19937_64& random,
                                             const GateContext& context,
                                             const StepControl& control) {
  const uint64_t terms = random();
  std::vector<StepRecord> records;
  for (int rank = 0; rank < context.world; ++rank) {
    StepRecord record = RandomInput(random, terms);
    record.norm_squared = static_cast<double>(random() % 1'000'003) / 7;
    record.non_finite = random() % 16 == 0 ? random() % 9 : 0;
    record.id = StepRecordId(context, control);
    if (context.loss_scale != nullptr) {
      record.flags |= StepRecord::kScalesLoss;
      record.loss_scale_rule = 1;
      TakeLossScale(context, &record);
    }
    record.checksum = ChecksumOf(record, rank);
    records.push_back(record);
  }
  return records;
}

// Ways in which a record is not that of its rank and step.
enum class Fault {
  kNone,
  kStale,  // whole, of the step before
  kVoid,   // whole, of this step, from an earlier launch that was void
  kTorn,
  kSwapped,
  kGarbage,
  kZeros,
  kTerms
};
inline constexpr int kFaults = 8;

inline void Damage(std::mt19937_64& random, const GateContext& context,
                   StepControl control, Fault fault,
                   std::vector<StepRecord>* records) {
  const size_t rank = random() % records->size();
  StepRecord& record = (*records)[rank];
  uint64_t words[kRecordWords];
  std::memcpy(words, &record, sizeof record);
  switch (fault) {
    case Fault::kNone: return;
    case Fault::kStale:
    case Fault::kVoid:
      control.sequence -= 1;
      control.step -= fault == Fault::kStale ? 1 : 0;
      record.id = StepRecordId(context, control);
      record.checksum = ChecksumOf(record, static_cast<int>(rank));
      return;
    case Fault::kTorn:  // one bit anywhere
      words[random() % kRecordWords] ^= uint64_t{1} << random() % 64;
      break;
    case Fault::kSwapped:  // another rank's
      record.checksum = ChecksumOf(record, static_cast<int>(rank) + 1);
      return;
    case Fault::kGarbage:
      for (uint64_t& word : words) word = random();
      break;
    case Fault::kZeros:
      for (uint64_t& word : words) word = 0;
      break;
    case Fault::kTerms:
      record.max_norm += 1;
      record.checksum = ChecksumOf(record, static_cast<int>(rank));
      return;
  }
  std::memcpy(static_cast<void*>(&record), words, sizeof record);
}

// Ways in which a summary is not that of its tile and launch.
enum class TileFault {
  kNone,
  kStale,  // whole, of the step before
  kVoid,   // whole, of this step, from an earlier launch that was void
  kTorn,
  kSwapped,
  kGarbage,
  kZeros
};
inline constexpr int kTileFaults = 7;

// Damages the summary of a tile, of several. Returns the tile.
inline int DamageTile(std::mt19937_64& random, const GateContext& context,
                      StepControl control, TileFault fault,
                      std::vector<TileSummary>* tiles) {
  const size_t tile = random() % tiles->size();
  TileSummary& summary = (*tiles)[tile];
  constexpr size_t kWords = sizeof(TileSummary) / sizeof(uint64_t);
  uint64_t words[kWords];
  std::memcpy(words, &summary, sizeof summary);
  switch (fault) {
    case TileFault::kNone: break;
    case TileFault::kStale:
    case TileFault::kVoid:
      control.sequence -= 1;
      control.step -= fault == TileFault::kStale ? 1 : 0;
      summary = SummaryOf(summary.counts, static_cast<int>(tile),
                          StepRecordId(context, control));
      return static_cast<int>(tile);
    case TileFault::kTorn:  // one bit anywhere
      words[random() % kWords] ^= uint64_t{1} << random() % 64;
      break;
    case TileFault::kSwapped:  // another tile's
      summary = (*tiles)[(tile + 1) % tiles->size()];
      return static_cast<int>(tile);
    case TileFault::kGarbage:
      for (uint64_t& word : words) word = random();
      break;
    case TileFault::kZeros:
      for (uint64_t& word : words) word = 0;
      break;
  }
  std::memcpy(static_cast<void*>(&summary), words, sizeof summary);
  return static_cast<int>(tile);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_STEP_GATES_H_
