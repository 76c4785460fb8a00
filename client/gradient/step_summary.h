// The verdict's two small vectors: their encoding from a rank's step summary,
// and the decoding of their reductions.
//
//   sum  f64  [stamp | norm^2 | nonfinite | samples | more data | per sample |
//              revision | 5 commands | step seconds]
//   max  u64  [h | ~h | w | ~w | s | ~s | c | ~c]
//              h = hash(epoch, step, revision)
//              w = the number of the operator's command record
//              s = the bits of inverse_scale, c = those of max_norm; 0 and 0
//                  in place of c and ~c: this rank has none
//
// The step is committed if the stamps sum to the world size, all h are equal,
// max(h) == ~max(~h), and so are the terms of the update: per sample, s and c.
// Counts are exact in f64 below 2^53.
//
// Pure: no memory, no communicator. The layout of the vectors is part of the
// protocol between ranks of one version (protocol::kVersion).

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_SUMMARY_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_SUMMARY_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "lockstep/verdict.h"
#include "plan/summary.h"
#include "protocol/ids.h"

namespace lockstep::gradient {

// The step that a rank is ending.
struct StepId {
  EpochId epoch;
  Revision revision;
  uint64_t step = 0;
};

// 64 bits that differ, with overwhelming probability, for different steps.
uint64_t HashOf(const StepId& step_id);

// The arguments of Finish and FinishAsync that the update depends on; they must
// be the same on every rank.
struct UpdateTerms {
  double inverse_scale = 1;
  bool per_sample = false;
  // Not set by Finish: its caller clips.
  std::optional<double> max_norm;
};

struct StepSummary {
  double norm_squared = 0;  // of the elements this rank counts, still scaled
  int64_t nonfinite = 0;
  double samples = 0;
  bool more_data = true;
  UpdateTerms terms;
  bool holds_next_revision = false;  // has staged the revision after StepId's
  uint64_t word = 0;  // the commands' record: DesiredCommands::number
  bool holds_command[kCommands] = {};
  double step_seconds = 0;  // elapsed on this rank so far
};

using SumVector = std::array<double, plan::kSummarySums>;
using MaxVector = std::array<uint64_t, plan::kSummaryMaxima>;

struct SummaryVectors {
  SumVector sum;
  MaxVector max;
};

SummaryVectors Encode(const StepId& step_id, const StepSummary& summary);

// The verdict from the reduced vectors. `contributed` and `ending` are left
// empty. Aborted if not all ranks took part, or ranks were not at the same step
// or differ in the terms of the update: then no rank may update. `mine`: the
// terms in this rank's summary.
absl::StatusOr<Verdict> Decode(const StepId& step_id, int world_size,
                               const UpdateTerms& mine,
                               const SummaryVectors& reduced);

// Reduces as the transport does: adds the sums, and takes the maxima. Begin
// with zeros.
void AddTo(SummaryVectors* reduced, const SummaryVectors& of_rank);

// Replaces the sum of the ranks' norms.
void SetNormSquared(double norm_squared, SummaryVectors* reduced);

// The step's mean duration over all ranks: the same number on each.
double MeanStepSeconds(int world_size, const SummaryVectors& reduced);

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_SUMMARY_H_
