#include "kernels/step_gate.h"

#include <atomic>
#include <cstring>
#include <iterator>

#include "kernels/gate_tiles.h"

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

void SealStepInput(const GateContext& context, uint64_t sequence,
                   StepRecord* record) {
  if (context.loss_scale != nullptr) {
    record->flags |= StepRecord::kScalesLoss;
    record->loss_scale_rule = HashOf(context.loss_scale_rule);
  }
  record->id = StepInputId(context, sequence);
  record->checksum = ChecksumOf(*record, context.rank);
}

const StepEntry* FindStepEntry(const GateContext& context, uint64_t sequence) {
  StepEntry* const entry = EntryOf(context, sequence);
  const std::atomic_ref<uint64_t> written(entry->sequence);
  if (written.load(std::memory_order_acquire) != sequence + 1) return nullptr;
  if (entry->checksum != ChecksumOf(*entry, sequence)) return nullptr;
  uint64_t hash = 0;
  for (int rank = 0; rank < context.world; ++rank) {
    hash += HashWords(WordsOf(entry->records()[rank]), kRecordWords,
                      static_cast<uint64_t>(rank));
  }
  return hash == entry->records_hash ? entry : nullptr;
}

void WriteStepRecord(const GateContext& context, FiniteCheck* norm,
                     StepRecord* record) {
  const StepControl& control = *context.control;
  const std::atomic_ref<uint32_t> stop(*const_cast<uint32_t*>(context.stop));
  const bool ended =
      stop.load(std::memory_order_acquire) != 0 || control.failed != 0;
  const StepRecord input =
      context.inputs[control.sequence % static_cast<uint64_t>(context.depth)];
  const bool sealed =
      IsValid(input, context.rank, StepInputId(context, control.sequence));
  *record = input;
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
  StepEntry& entry = *EntryOf(context, control.sequence);
  const uint64_t id = StepRecordId(context, control);
  const auto world = static_cast<uint64_t>(context.world);
  StepEntry made{.step = control.step};
  SetCounts(CountRecords(context, records), &made);
  made.contributed = IsValid(*own, context.rank, id) ? 1 : 0;
  made.outcome = OutcomeOf(made, control, world);
  made.checksum = ChecksumOf(made, control.sequence);
  control.sequence += 1;
  std::memcpy(static_cast<void*>(&entry), &made, sizeof made);
  const std::atomic_ref<uint64_t> written(entry.sequence);
  written.store(control.sequence, std::memory_order_release);
  *scalars = ScalarsOf(made, records[0]);
  if (made.outcome == StepOutcome::kFailed) control.failed = 1;
  if (made.outcome != StepOutcome::kCommitted) return;
  AdvanceLossScale(context, records[0], made.non_finite);
  control.step += 1;
  if (made.with_more_data < static_cast<uint64_t>(context.more_data_min)) {
    control.out_of_data = 1;
  }
}

}  // namespace lockstep::kernels
