// What one rank says of a step, for the step gate (step_gate.h), and the
// arithmetic on it that host and device share.
//
// Bytes:   128 a record, the same on all ranks: little-endian words.
// Threads: these functions have no state.
// Run:     build/release/bin/kernels_test --gtest_filter='StepGate*'

#ifndef LOCKSTEP_KERNELS_STEP_RECORD_H_
#define LOCKSTEP_KERNELS_STEP_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"
#include "kernels/loss_scale.h"
#include "lockstep/command.h"

namespace lockstep::kernels {

// What one rank says of a step: 16 words, all-gathered as bytes.
struct StepRecord {
  enum Flag : uint64_t {
    kMoreData = 1,
    kPerSample = 2,
    kHasMaxNorm = 4,
    kHoldsRevision = 8,
    kScalesLoss = 16,     // WriteStepRecord takes the scale from the device
    kJournalFull = 32,    // of a replay: this rank cannot write an entry
    kReplay = 64,         // a term: the program has launched it
    kFirstCommand = 256,  // << IndexOf(command)
  };

  uint64_t id = 0;  // StepRecordId; of an input StepInputId
  double norm_squared = 0;
  uint64_t non_finite = 0;
  double samples = 0;
  uint64_t flags = 0;
  uint64_t command_word = 0;
  // The terms of the update: the same on all ranks, or no rank may update.
  // With kScalesLoss WriteStepRecord replaces the inverse scale and sets the
  // loss scale.
  double inverse_scale = 1;
  double max_norm = 0;  // with kHasMaxNorm
  double step_seconds = 0;
  uint64_t loss_scale = 0;       // a term: PackLossScale; 0: none
  uint64_t loss_scale_rule = 0;  // a term: HashOf(rule); 0: none
  // In replays: the entries whose verdicts the program has acted on, and the
  // requests for a save that the rank has received.
  uint64_t acted = 0;
  uint64_t saves = 0;
  uint64_t unused[2] = {};  // zero
  uint64_t checksum = 0;    // ChecksumOf; last

  bool operator==(const StepRecord&) const = default;
};
static_assert(sizeof(StepRecord) == 128);
inline constexpr size_t kRecordWords = sizeof(StepRecord) / sizeof(uint64_t);

// --- Validity ----------------------------------------------------------------

// A word of a record or an entry, whose fields have other types.
typedef uint64_t __attribute__((__may_alias__)) RecordWord;

// The finaliser of splitmix64: every input bit moves every output bit.
LOCKSTEP_HD uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// `words`: words[0, count); `seed`: the rank, or the sequence.
LOCKSTEP_HD uint64_t HashWords(const RecordWord* words, size_t count,
                               uint64_t seed) {
  uint64_t h = MixBits(seed + 0x9e3779b97f4a7c15u);
  for (size_t i = 0; i < count; ++i) h = MixBits(h ^ words[i]) + i;
  return h;
}

LOCKSTEP_HD const RecordWord* WordsOf(const StepRecord& record) {
  return reinterpret_cast<const RecordWord*>(&record);
}

LOCKSTEP_HD uint64_t ChecksumOf(const StepRecord& record, int rank) {
  return HashWords(WordsOf(record), kRecordWords - 1,
                   static_cast<uint64_t>(rank));
}

// A part of StepEntry::records_hash. Another seed than the checksum's, whose
// word would cancel the others.
LOCKSTEP_HD uint64_t HashInJournal(const StepRecord& record, uint64_t rank) {
  return HashWords(WordsOf(record), kRecordWords, ~rank);
}

// A record that no rank accepts.
LOCKSTEP_HD void Invalidate(StepRecord* record) {
  record->checksum = ~record->checksum;
}

LOCKSTEP_HD bool IsValid(const StepRecord& record, int rank, uint64_t id) {
  return record.id == id && record.checksum == ChecksumOf(record, rank);
}

LOCKSTEP_HD bool SameTerms(const StepRecord& a, const StepRecord& b) {
  constexpr uint64_t kTerms = StepRecord::kPerSample | StepRecord::kHasMaxNorm |
                              StepRecord::kScalesLoss | StepRecord::kReplay;
  const RecordWord* const x = WordsOf(a);
  const RecordWord* const y = WordsOf(b);
  return (a.flags & kTerms) == (b.flags & kTerms) && x[6] == y[6] &&
         x[7] == y[7] && a.loss_scale == b.loss_scale &&
         a.loss_scale_rule == b.loss_scale_rule;
}

// Never 0: a scale is positive.
LOCKSTEP_HD uint64_t PackLossScale(const LossScale& scale) {
  uint32_t bits = 0;
  std::memcpy(&bits, &scale.scale, sizeof bits);
  return uint64_t{scale.steps_without_overflow} << 32 | bits;
}

LOCKSTEP_HD LossScale LossScaleOf(const StepRecord& record) {
  LossScale scale;
  const auto bits = static_cast<uint32_t>(record.loss_scale);
  std::memcpy(&scale.scale, &bits, sizeof bits);
  scale.steps_without_overflow = static_cast<uint32_t>(record.loss_scale >> 32);
  return scale;
}

// --- Commands ----------------------------------------------------------------

LOCKSTEP_HD uint64_t FlagOf(Command command) {
  return uint64_t{StepRecord::kFirstCommand} << (static_cast<int>(command) - 1);
}

// The commands that a rank holds: those with a number only if rank 0 has the
// same (Verdict::Holds).
LOCKSTEP_HD uint64_t CommandsOf(const StepRecord& record,
                                const StepRecord& first) {
  const uint64_t unnumbered = FlagOf(Command::kSave) | FlagOf(Command::kGrow);
  const bool same =
      record.command_word != 0 && record.command_word == first.command_word;
  return record.flags & (same ? ~uint64_t{0} : unnumbered);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_STEP_RECORD_H_
