#include "kernels/step_replays.h"

#include <atomic>
#include <cstddef>

#include "kernels/shared_word.h"

namespace lockstep::kernels {

void PutStepInput(const StepRecord& input, StepRecord* to) {
  for (size_t i = 0; i < kRecordWords; ++i) {
    Shared(WordsOf(*to) + i)
        .store(WordsOf(input)[i], std::memory_order_relaxed);
  }
}

void PostReplays(const GateContext& context, StepRecord said) {
  ReplayBoard& board = *context.replays;
  SealStepInput(context, kUsual, &said);
  const uint64_t next = board.slot + 1;
  PutStepInput(said, &board.said[next % 2]);
  Shared(&board.slot).store(next, std::memory_order_release);
}

void NoteRead(ReplayBoard* board, uint64_t read) {
  Shared(&board->read).store(read, std::memory_order_release);
}

ReplayCounts CountReplays(const ReplayBoard& board) {
  ReplayCounts counts{};
  counts.gates = Shared(&board.gates).load(std::memory_order_seq_cst);
  counts.records = Shared(&board.records).load(std::memory_order_seq_cst);
  counts.begun = Shared(&board.begun).load(std::memory_order_seq_cst);
  return counts;
}

// --- The twins ---------------------------------------------------------------

void BeginReplay(const GateContext& context) {
  Shared(&context.replays->begun)
      .store(context.control->replays + 1, std::memory_order_release);
}

namespace {

StepRecord Get(const StepRecord& at) {
  StepRecord record;
  auto* const words = reinterpret_cast<RecordWord*>(&record);
  for (size_t i = 0; i < kRecordWords; ++i) {
    words[i] = Shared(WordsOf(at) + i).load(std::memory_order_relaxed);
  }
  return record;
}

// What the host has posted, unless it posts more while this reads.
bool FindSaid(const GateContext& context, StepRecord* said) {
  const ReplayBoard& board = *context.replays;
  for (int i = 0; i < kTriesToRead; ++i) {
    const uint64_t slot = Shared(&board.slot).load(std::memory_order_acquire);
    *said = Get(board.said[slot % 2]);
    if (IsValid(*said, context.rank, StepInputId(context, kUsual))) return true;
  }
  return false;
}

}  // namespace

bool TakeReplayRecord(const GateContext& context, const StepControl& control,
                      StepRecord* record) {
  const auto depth = static_cast<uint64_t>(context.depth);
  const StepRecord input = Get(context.replay_inputs[control.replays % depth]);
  const uint64_t id = StepInputId(context, OfReplay(control.replays));
  *record = context.usual;
  if (IsValid(input, context.rank, id)) {
    TakeReplayInput(context, input, record);
  }
  StepRecord said;
  if (!FindSaid(context, &said)) return false;
  TakeSaid(context, control, said,
           Shared(&context.replays->read).load(std::memory_order_acquire),
           record);
  return true;
}

}  // namespace lockstep::kernels
