#include "client/gradient/step_summary.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>

#include "absl/strings/str_format.h"
#include "client/gradient/disagreement.h"

namespace lockstep::gradient {
namespace {

enum SumIndex {
  kStamp,
  kNormSquared,
  kNonfinite,
  kSamples,
  kMoreData,
  kPerSample,
  kRevision,
  kFirstCommand,
  kStepSeconds = kFirstCommand + kCommands
};
static_assert(kStepSeconds + 1 == plan::kSummarySums);

enum MaxIndex {
  kHash,
  kNotHash,
  kWord,
  kNotWord,
  kScale,
  kNotScale,
  kMaxNorm,
  kNotMaxNorm
};
static_assert(kNotMaxNorm + 1 == plan::kSummaryMaxima);

// The finaliser of splitmix64: every input bit moves every output bit.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The shortest decimal form that identifies the value.
std::string Exactly(double x) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

// Compares a term over all ranks, given the maxima of its bits and of their
// complement. If ranks differ, these are the values of two of them.
absl::Status CheckSame(uint64_t step, const char* term, uint64_t bits,
                       uint64_t complement, const std::string& mine) {
  if (bits == ~complement) return absl::OkStatus();
  return absl::AbortedError(absl::StrFormat(
      "step %d: ranks differ in %s: one gave %s, another %s (this rank: %s); "
      "give the same on every rank",
      step, term, Exactly(std::bit_cast<double>(~complement)),
      Exactly(std::bit_cast<double>(bits)), mine));
}

absl::Status CheckTerms(uint64_t step, int world_size, const UpdateTerms& mine,
                        const SummaryVectors& reduced) {
  const double per_sample = reduced.sum[kPerSample];
  if (per_sample != 0 && per_sample != world_size) {
    return absl::AbortedError(absl::StrFormat(
        "step %d: ranks differ in FinishOptions::per_sample: %g of %d gave "
        "true, %g gave false (this rank: %s); give the same on every rank",
        step, per_sample, world_size, world_size - per_sample,
        mine.per_sample ? "true" : "false"));
  }
  const MaxVector& max = reduced.max;
  absl::Status same =
      CheckSame(step, "FinishOptions::inverse_scale", max[kScale],
                max[kNotScale], Exactly(mine.inverse_scale));
  const bool nobody_clips = max[kMaxNorm] == 0 && max[kNotMaxNorm] == 0;
  if (!same.ok() || nobody_clips) return same;
  return CheckSame(step, "FinishAsync's max_norm", max[kMaxNorm],
                   max[kNotMaxNorm],
                   mine.max_norm ? Exactly(*mine.max_norm) : "none");
}

}  // namespace

uint64_t HashOf(const StepId& step_id) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t h = Mix(step_id.epoch.value + kGolden);
  h = Mix(h ^ (step_id.revision.value + 2 * kGolden));
  return Mix(h ^ (step_id.step + 3 * kGolden));
}

SummaryVectors Encode(const StepId& step_id, const StepSummary& summary) {
  SummaryVectors vectors{};
  vectors.sum[kStamp] = 1;
  vectors.sum[kNormSquared] = summary.norm_squared;
  vectors.sum[kNonfinite] = static_cast<double>(summary.nonfinite);
  vectors.sum[kSamples] = summary.samples;
  vectors.sum[kMoreData] = summary.more_data;
  vectors.sum[kPerSample] = summary.terms.per_sample;
  vectors.sum[kRevision] = summary.holds_next_revision;
  for (int c = 0; c < kCommands; ++c) {
    vectors.sum[kFirstCommand + c] = summary.holds_command[c];
  }
  vectors.sum[kStepSeconds] = summary.step_seconds;
  const uint64_t h = HashOf(step_id);
  const auto scale = std::bit_cast<uint64_t>(summary.terms.inverse_scale);
  vectors.max = {h, ~h, summary.word, ~summary.word, scale, ~scale};
  if (summary.terms.max_norm) {
    const auto max_norm = std::bit_cast<uint64_t>(*summary.terms.max_norm);
    vectors.max[kMaxNorm] = max_norm;
    vectors.max[kNotMaxNorm] = ~max_norm;
  }
  return vectors;
}

absl::StatusOr<Verdict> Decode(const StepId& step_id, int world_size,
                               const UpdateTerms& mine,
                               const SummaryVectors& reduced) {
  const SumVector& sum = reduced.sum;
  if (sum[kStamp] != world_size) {
    return OfAllRanks(absl::AbortedError(
        absl::StrFormat("step %d: %g of %d ranks took part in the verdict",
                        step_id.step, sum[kStamp], world_size)));
  }
  const MaxVector& max = reduced.max;
  if (max[kHash] != ~max[kNotHash] || max[kHash] != HashOf(step_id)) {
    return OfAllRanks(absl::AbortedError(absl::StrFormat(
        "ranks are out of step: this rank ends step %d of "
        "epoch %d, revision %d, "
        "another one does not",
        step_id.step, step_id.epoch.value, step_id.revision.value)));
  }
  absl::Status same = CheckTerms(step_id.step, world_size, mine, reduced);
  if (!same.ok()) return OfAllRanks(same);
  Verdict verdict;
  verdict.step = step_id.step;
  verdict.committed = true;
  verdict.nonfinite = static_cast<int64_t>(sum[kNonfinite]);
  verdict.finite = verdict.nonfinite == 0;
  verdict.samples = sum[kSamples];
  verdict.per_sample = mine.per_sample;
  verdict.with_more_data = static_cast<int>(sum[kMoreData]);
  verdict.revision_holders = static_cast<int>(sum[kRevision]);
  for (int c = 0; c < kCommands; ++c) {
    verdict.command_holders[c] = static_cast<int>(sum[kFirstCommand + c]);
  }
  verdict.command_word = max[kWord] == ~max[kNotWord] ? max[kWord] : 0;
  verdict.world_size = world_size;
  verdict.inverse_scale = mine.inverse_scale;
  verdict.global_norm =
      std::sqrt(sum[kNormSquared]) * std::abs(verdict.GradientScale());
  return verdict;
}

void AddTo(SummaryVectors* reduced, const SummaryVectors& of_rank) {
  for (size_t i = 0; i < reduced->sum.size(); ++i) {
    reduced->sum[i] += of_rank.sum[i];
  }
  for (size_t i = 0; i < reduced->max.size(); ++i) {
    reduced->max[i] = std::max(reduced->max[i], of_rank.max[i]);
  }
}

void SetNormSquared(double norm_squared, SummaryVectors* reduced) {
  reduced->sum[kNormSquared] = norm_squared;
}

double MeanStepSeconds(int world_size, const SummaryVectors& reduced) {
  return reduced.sum[kStepSeconds] / world_size;
}

}  // namespace lockstep::gradient
