// The verdict's two small vectors: what a rank puts in, what comes out.
//
//   sum  f64  [stamp | norm^2 | nonfinite | samples | more data | per sample |
//              revision | 5 commands | step seconds]
//   max  u64  [h | ~h | w | ~w | s | ~s | c | ~c]
//              h = hash(epoch, step, revision)
//              w = the number of the operator's word
//              s = the bits of inverse_scale, c = those of max_norm; 0 and 0
//                  in place of c and ~c: this rank has none
//
// The step is committed if the stamps sum to the world size, all h are equal,
// max(h) == ~max(~h), and so are the terms of the update: per sample, s and c.
// Counts are exact in f64 below 2^53.
//
// Pure: no memory of its own, no communicator. LayoutVersions are part of the
// protocol between ranks of one version (protocol::kVersion).

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_SUMMARY_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_SUMMARY_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "lockstep/verdict.h"
#include "plan/summary.h"
#include "plan/words/ids.h"

namespace lockstep::gradient {

// The step that a rank believes it ends.
struct StepId {
  EpochId epoch;
  Revision revision;
  uint64_t step = 0;
};

// 64 bits that differ, with overwhelming probability, for different stamps.
uint64_t HashOf(const StepId& step_id);

// What Finish and FinishAsync are given that the update depends on, and so must
// be the same on every rank.
struct UpdateTerms {
  double inverse_scale = 1;
  bool per_sample = false;
  // Finish has none: its caller clips by itself.
  std::optional<double> max_norm;
};

struct StepSummary {
  double norm_squared = 0;  // of the elements this rank counts, still scaled
  int64_t nonfinite = 0;
  double samples = 0;
  bool more_data = true;
  UpdateTerms terms;
  bool holds_next_revision = false;  // the one after the stamp's
  uint64_t word = 0;  // that the commands are from: DesiredCommands::number
  bool holds_command[kCommands] = {};
  double step_seconds = 0;  // that the step has taken this rank so far
};

using SumVector = std::array<double, plan::kSummarySums>;
using MaxVector = std::array<uint64_t, plan::kSummaryMaxima>;

struct SummaryVectors {
  SumVector sum;
  MaxVector max;
};

SummaryVectors Encode(const StepId& step_id, const StepSummary& summary);

// The verdict from the reduced vectors. `contributed` and `ending` are left
// empty. Aborted if ranks did not all take part, were not at the same step, or
// differ in the terms of the update: then no rank may update. `mine`: the terms
// in this rank's ballot.
absl::StatusOr<Verdict> Decode(const StepId& step_id, int world_size,
                               const UpdateTerms& mine,
                               const SummaryVectors& reduced);

// In place of what the ranks' ballots add up to.
void SetNormSquared(double norm_squared, SummaryVectors* reduced);

// What the step took, in the mean of all ranks: the same number on each.
double MeanStepSeconds(int world_size, const SummaryVectors& reduced);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_SUMMARY_H_
