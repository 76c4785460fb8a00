// The step gate decides on a device whether a step commits, without a wait for
// the host: every rank's record of the step must be complete, of this step, and
// from a rank that has not failed.
//
//   stop (host) ─────┐ set: an invalid record
//   failed (device) ─┤
//                    ▼
//   [all transfers of s] ─▶ WriteStepRecord ─▶ all-gather ─▶ GateStep
//       norm (device) ──────▶│                                │
//       inputs (pinned) ────▶┘     journal entry (pinned) ◀───┤ first
//                                  scalars (device) ◀─────────┤ then
//                                  step + 1, failed ◀─────────┤
//                                  next loss scale  ◀─────────┘
//
// After an abort NCCL's kernels return, the stream continues, and peers may
// receive garbage that arrives as if it were data. So a sum of constants proves
// nothing: a stale or half-arrived one can have the right value. A record is
// proof. Its id is a hash of epoch, revision, step and the number of the launch
// (its sequence), so an old record is another launch's, also if that one was
// void; its checksum covers every word and the rank, so a record that is torn,
// or from another rank, is invalid. docs/decisions/0027 has the rules, and
// tests/agreement/gpu_step.py their model.
//
// WriteStepRecord runs after all transfers of the step, on all lanes, and
// writes an invalid record if the host's `stop` or the device's `failed` is
// set. The host sets `stop` before it aborts a communicator. Therefore a rank
// that contributes a valid record to step s + 1 has passed step s, and if any
// rank passes s, the reduced gradients of s are complete on every rank.
//
// GateStep is the only decider. It completes the journal entry before it writes
// scalars that allow an update; the host reports its position from the journal
// alone. A gate that finds an invalid record sets `failed`, for ever: no later
// step of this control block passes.
//
// A step without data is void: if fewer than `more_data_min` ranks have more
// data behind a committed step, later steps pass no update and do not advance,
// although all their collectives match. Their terms may differ: a rank that
// knows of the end launches them without.
//
// With a loss scale on the device (loss_scale.h) WriteStepRecord takes the
// inverse scale from there, and GateStep sets the scale of the next step once
// it has committed this one. The whole state and its rule are terms of the
// update: ranks that differ in them do not commit, so they never diverge. The
// next state follows from what the records say, not from memory that may have
// changed since. Nothing reads the state while the gate runs: readers of this
// step are before its record in stream order, those of the next one behind the
// gate.
//
// With more than kGateTile ranks a third kernel is before GateStep:
// VerifyTiles, with a block for each tile of ranks (gate_tiles.h).
//
// Graphs that the program launches itself are replays: step_replays.h.
//
// Work:    one block of threads; the device versions wait for nothing.
// Bytes:   128 per rank read, 128 per rank written to pinned host memory.
// Memory:  `stop`, inputs and journal in pinned host memory; control, norm,
//          loss scale, records and scalars in device memory. The caller
//          initialises all.
// Threads: the kernels of one control block run in one stream's order.
// Run:     build/release/bin/kernels_test --gtest_filter='StepGate*'
// Bench:   build/gpu-bundle/run step_gate_bench

#ifndef LOCKSTEP_KERNELS_STEP_GATE_H_
#define LOCKSTEP_KERNELS_STEP_GATE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "kernels/finite_check.h"
#include "kernels/host_device.h"
#include "kernels/loss_scale.h"
#include "kernels/step_record.h"
#include "lockstep/command.h"
#include "lockstep/verdict_scalars.h"

namespace lockstep::kernels {

// The state of an epoch on one device; zero-initialised but for `step`.
struct StepControl {
  uint64_t step = 0;         // in progress
  uint64_t sequence = 0;     // gates that have run
  uint64_t failed = 0;       // 1: no later step passes
  uint64_t out_of_data = 0;  // 1: later steps are void
  uint64_t entries = 0;      // in the journal
  uint64_t replays = 0;      // gates of replays that have run
  uint64_t paused_by = 0;    // replays: the command's number; 0: none
  uint64_t act_on = 0;       // replays: entries to be acted on first
  // Not 0: replays have begun. As GateContext::more_data_min, for all launches,
  // and commands that end the epoch make later ones void.
  uint64_t ends_below = 0;
};

enum class StepOutcome : uint64_t {
  kFailed = 0,
  kCommitted = 1,
  kVoid = 2,  // neither an update nor a failure
};

// The journal entry of one gate, followed in memory by its `world` records as
// they were gathered, and by this rank's as it was written.
struct StepEntry {
  uint64_t step = 0;
  StepOutcome outcome = StepOutcome::kFailed;
  // The lowest rank whose record is invalid; the world's size: none.
  uint64_t invalid_rank = 0;
  // The lowest rank whose terms differ from rank 0's; the world's size: none.
  uint64_t differing_rank = 0;
  double norm_squared = 0;
  double samples = 0;
  uint64_t non_finite = 0;
  uint64_t with_more_data = 0;
  // 1: this rank's own record, as written, was valid. What was gathered does
  // not tell: an aborted gather may leave anything in its place.
  uint64_t contributed = 0;
  uint64_t records_hash = 0;  // of all records, as bytes
  uint64_t commands = ~0ull;  // flags of the commands that all ranks hold
  uint64_t said = 0;          // all flags that any rank has
  uint64_t acted = ~0ull;     // the least of all ranks
  uint64_t gate = 0;          // gates that had run before
  uint64_t is_replay = 0;     // 1: of a launch by the program
  uint64_t replay = 0;        // replays that had run before
  uint64_t checksum = 0;      // of the fields above and the entry's number
  // 1 + the number of the entry. A reader that sees it may not see the rest
  // yet: the checksum and the records' hash tell.
  uint64_t sequence = 0;

  LOCKSTEP_HD const StepRecord* records() const {
    return reinterpret_cast<const StepRecord*>(this + 1);
  }
};
static_assert(sizeof(StepEntry) % 16 == 0);

LOCKSTEP_HD size_t StepEntryBytes(int world) {
  return sizeof(StepEntry) +
         (static_cast<size_t>(world) + 1) * sizeof(StepRecord);
}

struct ReplayBoard;  // step_replays.h
struct TileSummary;  // gate_tiles.h

// What the kernels need of an epoch's revision; captured with a graph.
struct GateContext {
  uint64_t epoch = 0;
  uint64_t revision = 0;
  int rank = 0;
  int world = 1;
  // Entries of the rings of inputs and of the journal; more than the steps in
  // flight and one.
  int depth = 4;
  StepControl* control = nullptr;
  // Not 0: the host ends the epoch.
  const volatile uint32_t* stop = nullptr;
  // [depth] in pinned memory, by entry; sealed by SealStepInput before the
  // launch is enqueued.
  const StepRecord* inputs = nullptr;
  // [depth] entries of StepEntryBytes(world) in pinned memory, by their number.
  void* journal = nullptr;
  // Fewer ranks with more data: the next step is void. 1: uneven join; the
  // world: uneven stop; 0: never.
  int more_data_min = 0;
  // On the device, for inputs with kScalesLoss; null: there is none.
  LossScale* loss_scale = nullptr;
  LossScaleRule loss_scale_rule;
  // [TilesOf(world)] on the device; null: no gate HasTiles (gate_tiles.h).
  TileSummary* tiles = nullptr;

  // --- A replay: a launch of a graph by the program ---

  ReplayBoard* replays = nullptr;  // null: the library launches
  // [depth] in pinned memory, by replay; sealed by SealStepInput.
  const StepRecord* replay_inputs = nullptr;
  // What each replay says that has no input; sealed by SealStepInput.
  StepRecord usual;
  // In device memory: whether the copies of reduced gradients may be written,
  // as scalars of CommitCopy. A gate that fails clears `commit`. Null: none.
  VerdictScalars* keeps = nullptr;
};

// --- Arithmetic that host and device share -----------------------------------

LOCKSTEP_HD uint64_t StepInputId(const GateContext& context,
                                 uint64_t sequence) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t h = MixBits(context.epoch + kGolden);
  h = MixBits(h ^ (context.revision + 2 * kGolden));
  return MixBits(h ^ (sequence + 3 * kGolden));
}

// The id of this rank's record in the launch that runs.
LOCKSTEP_HD uint64_t StepRecordId(const GateContext& context,
                                  const StepControl& control) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  const uint64_t h = StepInputId(context, control.sequence);
  return MixBits(h ^ (control.step + 4 * kGolden));
}

// Whether the launch that runs uses the device's loss scale.
LOCKSTEP_HD bool ScalesLoss(const GateContext& context,
                            const StepRecord& record) {
  return context.loss_scale != nullptr &&
         (record.flags & StepRecord::kScalesLoss) != 0;
}

LOCKSTEP_HD void TakeLossScale(const GateContext& context, StepRecord* record) {
  if (!ScalesLoss(context, *record)) return;
  const LossScale used = *context.loss_scale;
  record->inverse_scale = InverseOf(used);
  record->loss_scale = PackLossScale(used);
}

// Behind a committed step, of which `record` is any rank's.
LOCKSTEP_HD void AdvanceLossScale(const GateContext& context,
                                  const StepRecord& record,
                                  uint64_t non_finite) {
  if (!ScalesLoss(context, record)) return;
  *context.loss_scale = NextLossScale(context.loss_scale_rule,
                                      LossScaleOf(record), non_finite == 0);
}

LOCKSTEP_HD uint64_t ChecksumOf(const StepEntry& entry, uint64_t sequence) {
  return HashWords(reinterpret_cast<const RecordWord*>(&entry),
                   offsetof(StepEntry, checksum) / sizeof(uint64_t), sequence);
}

// `number`: of the entry.
LOCKSTEP_HD StepEntry* EntryOf(const GateContext& context, uint64_t number) {
  return reinterpret_cast<StepEntry*>(
      static_cast<unsigned char*>(context.journal) +
      number % static_cast<uint64_t>(context.depth) *
          StepEntryBytes(context.world));
}

// Whether a replay changes nothing, on all ranks: all have the same records.
LOCKSTEP_HD bool IsHeld(const GateContext& context, const StepEntry& entry,
                        const StepControl& control, const StepRecord& first) {
  if (context.replays == nullptr) return false;
  const bool paused = control.paused_by != 0 &&
                      (entry.commands & FlagOf(Command::kPause)) != 0 &&
                      first.command_word == control.paused_by;
  return paused || entry.acted < control.act_on ||
         (entry.said & StepRecord::kJournalFull) != 0;
}

// What the gate decides, once the entry's counts are known.
LOCKSTEP_HD StepOutcome OutcomeOf(const GateContext& context,
                                  const StepEntry& entry,
                                  const StepControl& control,
                                  const StepRecord& first) {
  const auto world = static_cast<uint64_t>(context.world);
  if (entry.invalid_rank != world || control.failed != 0) {
    return StepOutcome::kFailed;
  }
  // Their terms may differ.
  if (control.out_of_data != 0) return StepOutcome::kVoid;
  if (entry.differing_rank != world) return StepOutcome::kFailed;
  return IsHeld(context, entry, control, first) ? StepOutcome::kVoid
                                                : StepOutcome::kCommitted;
}

// Only the first gate that fails writes an entry: replays may follow each other
// without the host, and would overwrite what it has not read.
LOCKSTEP_HD bool MayWriteEntry(const StepControl& control) {
  return control.failed == 0;
}

// A void replay writes none, for the same reason; only copies of its records,
// to the place of the next entry, which is free.
LOCKSTEP_HD bool WritesEntry(const GateContext& context, const StepEntry& entry,
                             const StepControl& control) {
  const bool is_void = entry.outcome == StepOutcome::kVoid;
  return MayWriteEntry(control) && !(context.replays != nullptr && is_void);
}

// Behind a gate, whose entry and scalars are visible.
LOCKSTEP_HD void Advance(const GateContext& context, const StepEntry& entry,
                         const StepRecord& first, bool wrote_entry,
                         StepControl* control) {
  const bool is_replay = context.replays != nullptr;
  control->sequence += 1;
  if (is_replay) control->replays += 1;
  if (wrote_entry) control->entries += 1;
  if (entry.outcome == StepOutcome::kFailed) control->failed = 1;
  if (entry.outcome != StepOutcome::kCommitted) return;
  AdvanceLossScale(context, first, entry.non_finite);
  control->step += 1;
  const uint64_t ends =
      FlagOf(Command::kStop) | FlagOf(Command::kDrain) | FlagOf(Command::kGrow);
  if (entry.with_more_data < static_cast<uint64_t>(context.more_data_min) ||
      entry.with_more_data < control->ends_below ||
      (control->ends_below != 0 && (entry.commands & ends) != 0)) {
    control->out_of_data = 1;
  }
  // Behind an eager step the program waits for the host, which sees to these.
  if (!is_replay) return;
  const bool pauses = (entry.commands & FlagOf(Command::kPause)) != 0;
  control->paused_by = pauses ? first.command_word : 0;
  const bool saves = (entry.commands & FlagOf(Command::kSave)) != 0;
  if (saves) control->act_on = control->entries;
}

// The scalars of an outcome. `record`: any valid record, for the terms. The
// factors are those of Verdict::UpdateFactor, with the same bits.
LOCKSTEP_HD VerdictScalars ScalarsOf(const StepEntry& entry,
                                     const StepRecord& record) {
  const bool per_sample = (record.flags & StepRecord::kPerSample) != 0;
  double scale = record.inverse_scale;
  if (per_sample) scale = entry.samples > 0 ? scale / entry.samples : 0;
  const double norm = sqrt(entry.norm_squared) * fabs(scale);
  double clip = 1;
  if ((record.flags & StepRecord::kHasMaxNorm) != 0 && norm > record.max_norm) {
    clip = record.max_norm / norm;
  }
  VerdictScalars scalars;
  scalars.commit = entry.outcome == StepOutcome::kCommitted ? 1.0 : 0.0;
  scalars.finite = entry.non_finite == 0 ? 1.0 : 0.0;
  scalars.clip = scale * clip;
  scalars.samples = entry.samples;
  return scalars;
}

// --- The host ----------------------------------------------------------------

// Completes an input: sets its id, checksum and, if the context has a loss
// scale, what asks for it. `record` has the host's other fields; norm and
// non-finite elements are the device's. `number`: of the launch's entry; or
// OfReplay; or kUsual.
inline constexpr uint64_t kUsual = ~uint64_t{0};
LOCKSTEP_HD uint64_t OfReplay(uint64_t replay) {
  return replay | uint64_t{1} << 63;
}
void SealStepInput(const GateContext& context, uint64_t number,
                   StepRecord* record);

// Entry `number`; null while it is not complete, or after it was overwritten.
// Unless the outcome is kFailed all records in it are valid. Whatever the
// device wrote before the entry is visible to the caller.
const StepEntry* FindStepEntry(const GateContext& context, uint64_t number);

// --- The twins of the device's kernels ---------------------------------------

// Writes this rank's record of the step in progress, and zeroes `norm`.
void WriteStepRecord(const GateContext& context, FiniteCheck* norm,
                     StepRecord* record);

// Decides by `records`, one of each rank in rank order, as gathered; writes the
// journal's entry, then `scalars`, and advances control and the loss scale.
// `own`: this rank's as it was written, in other memory. If HasTiles,
// VerifyTiles has the same records before it.
void GateStep(const GateContext& context, const StepRecord* own,
              const StepRecord* records, VerdictScalars* scalars);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_STEP_GATE_H_
