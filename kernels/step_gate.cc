#include "kernels/step_gate.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "kernels/gate_tiles.h"
#include "kernels/shared_word.h"
#include "kernels/step_replays.h"

namespace lockstep::kernels {

namespace {

// Never 0.
uint64_t HashOf(const LossScaleRule& rule) {
  uint64_t words[5] = {0, 0, rule.growth_interval, 0, 0};
  std::memcpy(&words[0], &rule.growth_factor, sizeof rule.growth_factor);
  std::memcpy(&words[1], &rule.backoff_factor, sizeof rule.backoff_factor);
  std::memcpy(&words[3], &rule.scale_min, sizeof rule.scale_min);
  std::memcpy(&words[4], &rule.scale_max, sizeof rule.scale_max);
  return HashWords(words, std::size(words), 0) | 1;
}

}  // namespace

void SealStepInput(const GateContext& context, uint64_t number,
                   StepRecord* record) {
  if (context.loss_scale != nullptr) {
    record->flags |= StepRecord::kScalesLoss;
    record->loss_scale_rule = HashOf(context.loss_scale_rule);
  }
  record->id = StepInputId(context, number);
  record->checksum = ChecksumOf(*record, context.rank);
}

const StepEntry* FindStepEntry(const GateContext& context, uint64_t number) {
  StepEntry* const entry = EntryOf(context, number);
  const std::atomic_ref<uint64_t> written(entry->sequence);
  if (written.load(std::memory_order_acquire) != number + 1) return nullptr;
  if (entry->checksum != ChecksumOf(*entry, number)) return nullptr;
  uint64_t hash = 0;
  for (int rank = 0; rank <= context.world; ++rank) {
    hash += HashInJournal(entry->records()[rank], static_cast<uint64_t>(rank));
  }
  return hash == entry->records_hash ? entry : nullptr;
}

// --- The twins ---------------------------------------------------------------

namespace {

// What this rank says of the launch; false: the host has not sealed it.
bool TakeInput(const GateContext& context, const StepControl& control,
               StepRecord* record) {
  if (context.replays != nullptr) {
    return TakeReplayRecord(context, control, record);
  }
  const auto depth = static_cast<uint64_t>(context.depth);
  *record = context.inputs[control.entries % depth];
  return IsValid(*record, context.rank, StepInputId(context, control.entries));
}

}  // namespace

void WriteStepRecord(const GateContext& context, FiniteCheck* norm,
                     StepRecord* record) {
  const StepControl& control = *context.control;
  if (context.replays != nullptr) {
    Shared(&context.replays->records)
        .store(control.replays + 1, std::memory_order_seq_cst);
  }
  const std::atomic_ref<uint32_t> stop(*const_cast<uint32_t*>(context.stop));
  const bool ended =
      stop.load(std::memory_order_seq_cst) != 0 || control.failed != 0;
  const bool sealed = TakeInput(context, control, record);
  TakeLossScale(context, record);
  record->id = StepRecordId(context, control);
  record->norm_squared = norm->sum_of_squares;
  record->non_finite = norm->non_finite;
  *norm = {};
  record->checksum = ChecksumOf(*record, context.rank);
  if (ended || !sealed) Invalidate(record);
}

void GateStep(const GateContext& context, const StepRecord* own,
              const StepRecord* records, VerdictScalars* scalars) {
  StepControl& control = *context.control;
  StepEntry& entry = *EntryOf(context, control.entries);
  const uint64_t id = StepRecordId(context, control);
  const auto world = static_cast<uint64_t>(context.world);
  StepEntry made{.step = control.step,
                 .gate = control.sequence,
                 .is_replay = context.replays != nullptr ? 1u : 0u,
                 .replay = control.replays};
  SetCounts(CountRecords(context, records), &made);
  made.records_hash +=
      HashInJournal(*own, static_cast<uint64_t>(context.world));
  made.contributed = IsValid(*own, context.rank, id) ? 1 : 0;
  made.outcome = OutcomeOf(context, made, control, records[0]);
  made.checksum = ChecksumOf(made, control.entries);
  const bool writes_entry = WritesEntry(context, made, control);
  if (writes_entry) {
    std::memcpy(const_cast<StepRecord*>(entry.records()) + world, own,
                sizeof *own);
    std::memcpy(static_cast<void*>(&entry), &made,
                offsetof(StepEntry, sequence));
    Shared(&entry.sequence)
        .store(control.entries + 1, std::memory_order_release);
  }
  *scalars = ScalarsOf(made, records[0]);
  if (made.outcome == StepOutcome::kFailed && context.keeps != nullptr) {
    context.keeps->commit = 0;
  }
  Advance(context, made, records[0], writes_entry, &control);
  if (context.replays == nullptr) return;
  Shared(&context.replays->gates)
      .store(control.replays, std::memory_order_seq_cst);
}

}  // namespace lockstep::kernels
