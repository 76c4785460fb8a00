#include "client/gradient/ballot.h"

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

// In as few digits as tell it from every other.
std::string Exactly(double x) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

// A term from its bits and their complement, each the greatest of any rank's:
// those of two ranks that differ, if any do.
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
                        const BallotVectors& reduced) {
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

uint64_t HashOf(const StepStamp& stamp) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t h = Mix(stamp.epoch.value + kGolden);
  h = Mix(h ^ (stamp.revision.value + 2 * kGolden));
  return Mix(h ^ (stamp.step + 3 * kGolden));
}

BallotVectors Encode(const StepStamp& stamp, const Ballot& ballot) {
  BallotVectors vectors{};
  vectors.sum[kStamp] = 1;
  vectors.sum[kNormSquared] = ballot.norm_squared;
  vectors.sum[kNonfinite] = static_cast<double>(ballot.nonfinite);
  vectors.sum[kSamples] = ballot.samples;
  vectors.sum[kMoreData] = ballot.more_data;
  vectors.sum[kPerSample] = ballot.terms.per_sample;
  vectors.sum[kRevision] = ballot.holds_next_revision;
  for (int c = 0; c < kCommands; ++c) {
    vectors.sum[kFirstCommand + c] = ballot.holds_command[c];
  }
  vectors.sum[kStepSeconds] = ballot.step_seconds;
  const uint64_t h = HashOf(stamp);
  const auto scale = std::bit_cast<uint64_t>(ballot.terms.inverse_scale);
  vectors.max = {h, ~h, ballot.word, ~ballot.word, scale, ~scale};
  if (ballot.terms.max_norm) {
    const auto max_norm = std::bit_cast<uint64_t>(*ballot.terms.max_norm);
    vectors.max[kMaxNorm] = max_norm;
    vectors.max[kNotMaxNorm] = ~max_norm;
  }
  return vectors;
}

absl::StatusOr<Verdict> Decode(const StepStamp& stamp, int world_size,
                               const UpdateTerms& mine,
                               const BallotVectors& reduced) {
  const SumVector& sum = reduced.sum;
  if (sum[kStamp] != world_size) {
    return OfAllRanks(absl::AbortedError(
        absl::StrFormat("step %d: %g of %d ranks took part in the verdict",
                        stamp.step, sum[kStamp], world_size)));
  }
  const MaxVector& max = reduced.max;
  if (max[kHash] != ~max[kNotHash] || max[kHash] != HashOf(stamp)) {
    return OfAllRanks(absl::AbortedError(
        absl::StrFormat("ranks are out of step: this rank ends step %d of "
                        "epoch %d, revision %d, "
                        "another one does not",
                        stamp.step, stamp.epoch.value, stamp.revision.value)));
  }
  absl::Status same = CheckTerms(stamp.step, world_size, mine, reduced);
  if (!same.ok()) return OfAllRanks(same);
  Verdict verdict;
  verdict.step = stamp.step;
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

void SetNormSquared(double norm_squared, BallotVectors* reduced) {
  reduced->sum[kNormSquared] = norm_squared;
}

double MeanStepSeconds(int world_size, const BallotVectors& reduced) {
  return reduced.sum[kStepSeconds] / world_size;
}

}  // namespace lockstep::gradient
