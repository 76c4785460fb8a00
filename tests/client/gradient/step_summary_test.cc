#include "client/gradient/step_summary.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StepId kStamp{.epoch = {3}, .revision = {1}, .step = 41};

// The result of the two all-reduces.
SummaryVectors Reduce(const std::vector<SummaryVectors>& ranks) {
  SummaryVectors reduced = ranks[0];
  for (size_t r = 1; r < ranks.size(); ++r) {
    for (int i = 0; i < plan::kSummarySums; ++i)
      reduced.sum[i] += ranks[r].sum[i];
    for (int i = 0; i < plan::kSummaryMaxima; ++i) {
      reduced.max[i] = std::max(reduced.max[i], ranks[r].max[i]);
    }
  }
  return reduced;
}

TEST(StepSummaryTest, AddsUpWhatTheRanksSay) {
  constexpr UpdateTerms kHalf{.inverse_scale = 0.5};
  const StepSummary a{.norm_squared = 9,
                      .samples = 32,
                      .terms = kHalf,
                      .holds_next_revision = true};
  StepSummary b{.norm_squared = 16,
                .nonfinite = 2,
                .samples = 31,
                .more_data = false,
                .terms = kHalf};
  b.holds_command[IndexOf(Command::kDrain)] = true;

  const auto verdict =
      Decode(kStamp, 2, kHalf, Reduce({Encode(kStamp, a), Encode(kStamp, b)}));
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->step, 41u);
  EXPECT_TRUE(verdict->committed);
  EXPECT_FALSE(verdict->finite);
  EXPECT_EQ(verdict->nonfinite, 2);
  EXPECT_EQ(verdict->global_norm, 2.5) << "sqrt(9 + 16), unscaled";
  EXPECT_EQ(verdict->samples, 63);
  EXPECT_EQ(verdict->with_more_data, 1);
  EXPECT_EQ(verdict->revision_holders, 1);
  EXPECT_EQ(verdict->command_holders[IndexOf(Command::kDrain)], 1);
  EXPECT_FALSE(verdict->Holds(Command::kDrain)) << "one of two holds it";
}

TEST(StepSummaryTest, TheMeanTimeOfAStepIsOverAllRanks) {
  const SummaryVectors reduced =
      Reduce({Encode(kStamp, {.step_seconds = 0.25}),
              Encode(kStamp, {.step_seconds = 0.5}), Encode(kStamp, {})});
  EXPECT_EQ(MeanStepSeconds(3, reduced), 0.25);
}

TEST(StepSummaryTest, ACommandIsHeldOnceEveryRankHoldsIt) {
  StepSummary summary;
  summary.word = 5;
  summary.holds_command[IndexOf(Command::kPause)] = true;
  const SummaryVectors vectors = Encode(kStamp, summary);
  const auto verdict =
      Decode(kStamp, 3, {}, Reduce({vectors, vectors, vectors}));
  ASSERT_TRUE(verdict.ok());
  EXPECT_TRUE(verdict->Holds(Command::kPause));
  EXPECT_FALSE(verdict->Holds(Command::kStop));
  EXPECT_EQ(verdict->command_word, 5u);
}

TEST(StepSummaryTest, ACommandIsNotHeldByDifferentWords) {
  StepSummary first{.word = 5};
  StepSummary again{.word = 7};
  first.holds_command[IndexOf(Command::kPause)] = true;
  again.holds_command[IndexOf(Command::kPause)] = true;
  const auto verdict = Decode(
      kStamp, 2, {}, Reduce({Encode(kStamp, first), Encode(kStamp, again)}));
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->command_holders[IndexOf(Command::kPause)], 2);
  EXPECT_FALSE(verdict->Holds(Command::kPause));
}

// All ranks must notice it, whichever terms they have.
TEST(StepSummaryTest, NobodyCommitsIfTheTermsOfTheUpdateDiffer) {
  const double next = std::nextafter(1.0, 2.0);
  const std::pair<UpdateTerms, UpdateTerms> kDiffer[] = {
      {{.per_sample = true}, {}},
      {{.inverse_scale = 0.5}, {}},
      {{.inverse_scale = -1}, {}},
      {{.inverse_scale = 0}, {}},
      {{.inverse_scale = next}, {}},
      {{.max_norm = 1}, {.max_norm = 2}},
      {{.max_norm = 0}, {.max_norm = 2}},
      {{.max_norm = next}, {.max_norm = 1}},
      {{.max_norm = INFINITY}, {.max_norm = 1}}};
  for (const auto& [one, other] : kDiffer) {
    const SummaryVectors reduced = Reduce({Encode(kStamp, {.terms = one}),
                                           Encode(kStamp, {.terms = other}),
                                           Encode(kStamp, {.terms = other})});
    for (const UpdateTerms& mine : {one, other}) {
      EXPECT_EQ(Decode(kStamp, 3, mine, reduced).status().code(),
                absl::StatusCode::kAborted);
    }
  }
}

// A rank that waits for Finish enters no clipping terms.
TEST(StepSummaryTest, RanksThatAgreeOnTheTermsCommit) {
  for (const UpdateTerms& one :
       {UpdateTerms{}, UpdateTerms{.inverse_scale = 0.25, .max_norm = 0},
        UpdateTerms{.per_sample = true, .max_norm = INFINITY}}) {
    UpdateTerms without = one;
    without.max_norm.reset();
    const SummaryVectors reduced = Reduce({Encode(kStamp, {.terms = one}),
                                           Encode(kStamp, {.terms = without}),
                                           Encode(kStamp, {.terms = one})});
    for (const UpdateTerms& mine : {one, without}) {
      const auto verdict = Decode(kStamp, 3, mine, reduced);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->inverse_scale, one.inverse_scale);
      EXPECT_EQ(verdict->per_sample, one.per_sample);
    }
  }
}

TEST(StepSummaryTest, SaysOnWhichTermsRanksDiffer) {
  const std::string scale(
      Decode(kStamp, 2, {.inverse_scale = 0.25},
             Reduce({Encode(kStamp, {.terms = {.inverse_scale = 0.25}}),
                     Encode(kStamp, {.terms = {.inverse_scale = 0.1}})}))
          .status()
          .message());
  EXPECT_THAT(scale, AllOf(HasSubstr("inverse_scale"), HasSubstr("0.25"),
                           HasSubstr("0.1,")));
  const std::string sums(
      Decode(kStamp, 3, {.per_sample = true},
             Reduce({Encode(kStamp, {.terms = {.per_sample = true}}),
                     Encode(kStamp, {}), Encode(kStamp, {})}))
          .status()
          .message());
  EXPECT_THAT(sums, AllOf(HasSubstr("per_sample"), HasSubstr("1 of 3"),
                          HasSubstr("2 gave false")));
}

TEST(StepSummaryTest, NobodyCommitsIfAStampIsMissing) {
  const SummaryVectors vectors = Encode(kStamp, {});
  EXPECT_EQ(Decode(kStamp, 3, {}, Reduce({vectors, vectors})).status().code(),
            absl::StatusCode::kAborted);
}

// Every rank must notice it, the one that is out of step and the others.
TEST(StepSummaryTest, NobodyCommitsIfARankIsOutOfStep) {
  for (const StepId& other : {StepId{{3}, {1}, 42}, StepId{{3}, {1}, 40},
                              StepId{{4}, {1}, 41}, StepId{{3}, {2}, 41}}) {
    const SummaryVectors reduced =
        Reduce({Encode(kStamp, {}), Encode(other, {})});
    EXPECT_FALSE(Decode(kStamp, 2, {}, reduced).ok());
    EXPECT_FALSE(Decode(other, 2, {}, reduced).ok());
  }
}

TEST(StepSummaryTest, StampsThatAreNearHashApart) {
  std::set<uint64_t> seen;
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    for (uint64_t revision = 0; revision < 20; ++revision) {
      for (uint64_t step = 0; step < 100; ++step) {
        seen.insert(HashOf({{epoch}, {revision}, step}));
      }
    }
  }
  EXPECT_EQ(seen.size(), 40000u);
}

TEST(VerdictTest, ClipsOnlyWhatIsLonger) {
  const Verdict verdict{.global_norm = 4, .inverse_scale = 0.25};
  EXPECT_EQ(verdict.ClipCoefficient(1), 0.25);
  EXPECT_EQ(verdict.ClipCoefficient(8), 1);
  EXPECT_EQ(verdict.UpdateFactor(1), 0.0625);
  EXPECT_EQ(verdict.UpdateFactor(INFINITY), 0.25);
  EXPECT_EQ(Verdict{}.ClipCoefficient(1), 1) << "a norm of 0";
}

TEST(LossScalerTest, BacksOffAtOverflowAndGrowsAfterEnoughFiniteSteps) {
  LossScaler scaler(
      {.initial_scale = 8, .growth_interval = 3, .scale_max = 16});
  const Verdict finite{.finite = true};
  const Verdict overflow{.finite = false};

  EXPECT_FALSE(scaler.Update(overflow));
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_TRUE(scaler.Update(finite));
  EXPECT_TRUE(scaler.Update(finite));
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_TRUE(scaler.Update(finite));
  EXPECT_EQ(scaler.scale(), 8);

  for (int i = 0; i < 9; ++i) scaler.Update(finite);
  EXPECT_EQ(scaler.scale(), 16) << "never above scale_max";
  for (int i = 0; i < 9; ++i) scaler.Update(overflow);
  EXPECT_EQ(scaler.scale(), 1) << "never below scale_min";
}

TEST(LossScalerTest, AnOverflowStartsTheCountAnew) {
  LossScaler scaler({.initial_scale = 8, .growth_interval = 2});
  scaler.Update({.finite = true});
  scaler.Update({.finite = false});
  scaler.Update({.finite = true});
  EXPECT_EQ(scaler.scale(), 4);
}

}  // namespace
}  // namespace lockstep::gradient
