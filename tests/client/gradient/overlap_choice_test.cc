#include "client/gradient/overlap_choice.h"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

using Seconds = std::function<double(Overlap form, int step)>;

// The choices in `steps` steps of these durations.
std::vector<Overlap> Forms(OverlapChoice choice, int steps,
                           const Seconds& seconds) {
  std::vector<Overlap> forms;
  for (int step = 0; step < steps; ++step) {
    forms.push_back(choice.form());
    choice.Passed(seconds(choice.form(), step));
  }
  forms.push_back(choice.form());
  return forms;
}

int Count(const std::vector<Overlap>& forms, Overlap form) {
  return static_cast<int>(std::count(forms.begin(), forms.end(), form));
}

Seconds Constant(double in_inline, double in_thread) {
  return [=](Overlap form, int) {
    return form == Overlap::kInline ? in_inline : in_thread;
  };
}

constexpr int kTrial = OverlapChoice::kWarmUp + OverlapChoice::kTurns;

TEST(OverlapChoiceTest, WhatIsForcedStays) {
  for (const Overlap form : {Overlap::kInline, Overlap::kThread}) {
    const auto forms = Forms(OverlapChoice(form), 5000, Constant(1, 1));
    EXPECT_EQ(Count(forms, form), 5001);
  }
}

TEST(OverlapChoiceTest, AHelperTakesOverWhenItPays) {
  const auto forms =
      Forms(OverlapChoice(Overlap::kAuto), kTrial, Constant(0.060, 0.050));
  for (int step = 0; step < OverlapChoice::kWarmUp; ++step) {
    EXPECT_EQ(forms[step], Overlap::kInline) << step;
  }
  EXPECT_EQ(Count(forms, Overlap::kThread), OverlapChoice::kTurns / 2 + 1);
  EXPECT_EQ(forms.back(), Overlap::kThread);
}

TEST(OverlapChoiceTest, AHelperThatTakesTimeFromTheStepIsNotUsed) {
  EXPECT_EQ(Forms(OverlapChoice(Overlap::kAuto), kTrial, Constant(0.050, 0.051))
                .back(),
            Overlap::kInline);
}

TEST(OverlapChoiceTest, AFormGivesWayOnlyToOneThatIsBetterByTheMargin) {
  const double just_not = 1 - 0.9 * OverlapChoice::kMargin;
  const double just = 1 - 1.1 * OverlapChoice::kMargin;
  EXPECT_EQ(Forms(OverlapChoice(Overlap::kAuto), kTrial, Constant(1, just_not))
                .back(),
            Overlap::kInline);
  EXPECT_EQ(
      Forms(OverlapChoice(Overlap::kAuto), kTrial, Constant(1, just)).back(),
      Overlap::kThread);
}

// A data loader that prefetches in every second step, and a machine that gets
// slower: neither favours a mode.
TEST(OverlapChoiceTest, DriftAndAlternatingWorkDoNotDecide) {
  const std::vector<Seconds> disturbed = {
      [](Overlap, int step) { return step % 2 == 0 ? 0.050 : 0.080; },
      [](Overlap, int step) { return step % 2 == 1 ? 0.050 : 0.080; },
      [](Overlap, int step) { return 0.050 + 0.0002 * step; },
      [](Overlap, int step) { return step % 5 == 0 ? 10.0 : 0.050; },
  };
  for (const Seconds& seconds : disturbed) {
    const auto with = [&](double in_thread) {
      return [&, in_thread](Overlap form, int step) {
        return seconds(form, step) * (form == Overlap::kThread ? in_thread : 1);
      };
    };
    const auto end = [&](double in_thread) {
      return Forms(OverlapChoice(Overlap::kAuto), kTrial, with(in_thread))
          .back();
    };
    EXPECT_EQ(end(1), Overlap::kInline);
    EXPECT_EQ(end(0.9), Overlap::kThread);
    EXPECT_EQ(end(1.1), Overlap::kInline);
  }
}

TEST(OverlapChoiceTest, TriesAgainEverMoreRarely) {
  constexpr int kSteps = 20000;
  const auto forms =
      Forms(OverlapChoice(Overlap::kAuto), kSteps, Constant(1, 2));
  std::vector<int> tried;  // the first step of each trial of the other mode
  for (int step = 1; step < kSteps; ++step) {
    const bool begins = forms[step] == Overlap::kThread &&
                        (tried.empty() || step - tried.back() > 50);
    if (begins) tried.push_back(step);
  }
  ASSERT_GE(tried.size(), 7u);
  for (size_t i = 1; i < tried.size(); ++i) {
    const int pause = tried[i] - tried[i - 1];
    EXPECT_GE(pause,
              i == 1 ? OverlapChoice::kRestMin : tried[i - 1] - tried[i - 2]);
    EXPECT_LE(pause, OverlapChoice::kRestMax + OverlapChoice::kTurns);
  }
  EXPECT_LT(Count(forms, Overlap::kThread), kSteps / 200)
      << "what the worse form may cost in the long run";
}

TEST(OverlapChoiceTest, ChangesItsMindWhenTheJobChanges) {
  constexpr int kChange = 1000;
  const auto forms =
      Forms(OverlapChoice(Overlap::kAuto), 5000, [](Overlap form, int step) {
        const bool helps = step >= kChange;
        return (form == Overlap::kThread) == helps ? 0.050 : 0.060;
      });
  EXPECT_EQ(forms[kChange - 1], Overlap::kInline);
  EXPECT_EQ(forms.back(), Overlap::kThread);
}

// Each rank has an OverlapChoice of its own, with the same inputs.
TEST(OverlapChoiceTest, EqualNumbersMakeEqualChoices) {
  for (int seed = 0; seed < 50; ++seed) {
    OverlapChoice a(Overlap::kAuto), b(Overlap::kAuto);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> seconds(0.01, 0.02);
    for (int step = 0; step < 1000; ++step) {
      ASSERT_EQ(a.form(), b.form()) << "seed " << seed << ", step " << step;
      const double took = seconds(random);
      a.Passed(took);
      b.Passed(took);
    }
  }
}

}  // namespace
}  // namespace lockstep::gradient
