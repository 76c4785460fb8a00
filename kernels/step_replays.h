// A *replay* is a launch of a graph that the program captured and launches
// itself (lockstep/replayed_steps.h). No host seals an input for it, or waits
// for the one before. So what its record says is fixed with the graph
// (`usual`), but for what the host posts at any time (ReplayBoard), and for
// launches with an input. The gate decides what the host would have seen to:
//
//   pause              replays behind the step that all ranks hold it in are
//                      void, while all hold that one
//   save               until all ranks have acted on that step's verdict
//   stop, drain, grow  for ever
//   journal full       of any rank: void on all
//
// A void replay writes no entry, and of the gates that fail only the first. The
// host sets `stop`, then reads `records`; the device writes `records`, then
// reads `stop`: so a host that has seen as many gates as records knows that
// nothing commits any more.
//
// Memory:  the board and inputs in pinned host memory; the caller initialises
//          all. The step gate's are in step_gate.h.
// Threads: the host's functions run beside the device; of each, one at a time.
// Run:     build/release/bin/kernels_test --gtest_filter='StepGate*'

#ifndef LOCKSTEP_KERNELS_STEP_REPLAYS_H_
#define LOCKSTEP_KERNELS_STEP_REPLAYS_H_

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/step_gate.h"
#include "kernels/step_record.h"

namespace lockstep::kernels {

// What host and device tell each other about replays: in pinned memory, zeroed.
struct ReplayBoard {
  // --- Written by the host ---
  uint64_t read = 0;  // entries of the journal that it has read
  // Which of `said` counts. The other one is written first.
  uint64_t slot = 0;
  // Commands, `acted` and `saves`: sealed by PostReplays.
  StepRecord said[2];
  // --- Written by the device ---
  uint64_t begun = 0;    // replays that have begun
  uint64_t records = 0;  // those whose record is being written, or is
  uint64_t gates = 0;    // those that are decided
};

// --- Arithmetic that host and device share -----------------------------------

// An input of a replay: but for the clipping, which is fixed with the graph.
LOCKSTEP_HD void TakeReplayInput(const GateContext& context,
                                 const StepRecord& input, StepRecord* record) {
  *record = input;
  record->max_norm = context.usual.max_norm;
  record->flags |= context.usual.flags & StepRecord::kHasMaxNorm;
}

// How often a record of a replay reads what the host has posted, at most: it
// is torn only if the host has posted twice meanwhile.
inline constexpr int kTriesToRead = 8;

// The record of a replay: what is said once, as the host has said it last.
// `said` and `read` are from the board.
LOCKSTEP_HD void TakeSaid(const GateContext& context,
                          const StepControl& control, const StepRecord& said,
                          uint64_t read, StepRecord* record) {
  record->flags |= said.flags | StepRecord::kReplay;
  record->command_word = said.command_word;
  record->acted = said.acted;
  record->saves = said.saves;
  // One entry is left to a gate that fails.
  if (control.entries - read >= static_cast<uint64_t>(context.depth) - 1) {
    record->flags |= StepRecord::kJournalFull;
  }
}

// --- The host, beside the device ---------------------------------------------

// Copies `input` to its place, word by word.
void PutStepInput(const StepRecord& input, StepRecord* to);
// What all replays say from now on: `said` has flags of commands, their number,
// `acted` and `saves`.
void PostReplays(const GateContext& context, StepRecord said);
// What the journal had until entry `read` may be overwritten.
void NoteRead(ReplayBoard* board, uint64_t read);
struct ReplayCounts {
  uint64_t begun, records, gates;
};
// Never more gates than records, nor more records than begun. After a stop word
// was set: a replay that is not among `records` commits nothing.
ReplayCounts CountReplays(const ReplayBoard& board);

// --- The twins of the device's kernels ---------------------------------------

// At the begin of a replay, before its first transfer.
void BeginReplay(const GateContext& context);

// What this rank says of the replay, for WriteStepRecord; false if the host has
// posted nothing, or posts too often to be read.
bool TakeReplayRecord(const GateContext& context, const StepControl& control,
                      StepRecord* record);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_STEP_REPLAYS_H_
