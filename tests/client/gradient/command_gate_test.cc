#include "client/gradient/command_gate.h"

#include <vector>

#include "client/gradient/ending.h"
#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

using protocol::DesiredCommands;

const DesiredCommands kPauseIsWanted{.commands = {Command::kPause},
                                     .number = 5};

// The verdict of all ranks when each of `world` entered this summary.
Verdict SeenByAll(const StepSummary& summary, int world = 3) {
  Verdict verdict{.command_word = summary.word, .world_size = world};
  for (int c = 0; c < kCommands; ++c) {
    verdict.command_holders[c] = summary.holds_command[c] ? world : 0;
  }
  return verdict;
}

Verdict Enter(CommandGate& gate) {
  StepSummary summary;
  gate.Enter(&summary);
  return SeenByAll(summary);
}

// Passes the gate, and records whether that returned at once.
struct Passage {
  Passage(CommandGate& gate, const Verdict& verdict) {
    gate.Pass(verdict, EndsEpoch(verdict), [this] { ++went_on; });
  }
  int went_on = 0;
};

TEST(CommandGateTest, NothingIsHeldBeforeAWordIsHeard) {
  CommandGate gate;
  const Verdict verdict = Enter(gate);
  EXPECT_EQ(verdict.command_word, 0u);
  EXPECT_FALSE(verdict.Holds(Command::kPause));
  EXPECT_EQ(Passage(gate, verdict).went_on, 1);
}

TEST(CommandGateTest, APauseHoldsUntilTheNextWord) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  const Passage passage(gate, Enter(gate));
  EXPECT_EQ(passage.went_on, 0);
  EXPECT_TRUE(gate.shut());
  gate.Receive(kPauseIsWanted);
  EXPECT_EQ(passage.went_on, 0) << "told again: nothing new";
  gate.Receive({.number = 6});
  EXPECT_EQ(passage.went_on, 1);
  EXPECT_FALSE(gate.shut());
}

// This rank missed the command in between, "resume", and must still leave the
// pause that the others leave.
TEST(CommandGateTest, AnotherPauseEndsTheOneBefore) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  const Passage first(gate, Enter(gate));
  gate.Receive({.commands = {Command::kPause}, .number = 7});
  EXPECT_EQ(first.went_on, 1);
  const Passage second(gate, Enter(gate));
  EXPECT_EQ(second.went_on, 0) << "a step later";
}

TEST(CommandGateTest, AWordHeardAfterTheVerdictWasEnteredKeepsItOpen) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  const Verdict verdict = Enter(gate);
  gate.Receive({.number = 6});
  EXPECT_EQ(Passage(gate, verdict).went_on, 1);
}

TEST(CommandGateTest, AnOlderWordChangesNothing) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  gate.Receive({.number = 4});
  EXPECT_TRUE(Enter(gate).Holds(Command::kPause));
}

TEST(CommandGateTest, ACommandThatNotAllHoldByTheSameWordHoldsNobody) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  Verdict verdict = Enter(gate);
  verdict.command_word = 0;  // Decode returns this where commands differ
  EXPECT_EQ(Passage(gate, verdict).went_on, 1);
}

TEST(CommandGateTest, TheLastStepIsNotPaused) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  Verdict verdict = Enter(gate);
  verdict.ending = Ending::kOutOfData;
  EXPECT_EQ(Passage(gate, verdict).went_on, 1);
}

TEST(CommandGateTest, TheEndOfTheEpochOpensItForGood) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  const Passage held(gate, Enter(gate));
  gate.Open();
  EXPECT_EQ(held.went_on, 1);
  EXPECT_EQ(Passage(gate, Enter(gate)).went_on, 1);
}

TEST(CommandGateTest, NoneGoesOnBeforeAStepThatPausedEarlier) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  const Verdict first = Enter(gate);
  const Verdict second = Enter(gate);  // in flight when the first passes
  std::vector<int> went_on;
  gate.Pass(first, /*ends=*/false, [&] { went_on.push_back(1); });
  gate.Pass(second, /*ends=*/false, [&] { went_on.push_back(2); });
  EXPECT_TRUE(gate.shut());
  EXPECT_TRUE(went_on.empty());
  gate.Receive({.number = 6});
  EXPECT_EQ(went_on, (std::vector<int>{1, 2}));
}

// --- Saves ------------------------------------------------------------------

// One step of all ranks; each goes on at once. Whether it holds a save.
bool StepSaves(std::vector<CommandGate>& ranks) {
  Verdict verdict{.world_size = static_cast<int>(ranks.size())};
  for (CommandGate& rank : ranks) {
    StepSummary summary;
    rank.Enter(&summary);
    for (int c = 0; c < kCommands; ++c) {
      verdict.command_holders[c] += summary.holds_command[c] ? 1 : 0;
    }
  }
  for (CommandGate& rank : ranks) rank.Pass(verdict, /*ends=*/false, [] {});
  return verdict.Holds(Command::kSave);
}

TEST(SaveTest, HoldsAtOneStepForEachRequestOnAllRanks) {
  std::vector<CommandGate> ranks(2);
  EXPECT_FALSE(StepSaves(ranks));
  ranks[0].Receive({.saves = 1});
  EXPECT_FALSE(StepSaves(ranks)) << "rank 1 does not have it";
  ranks[1].Receive({.saves = 1});
  EXPECT_TRUE(StepSaves(ranks));
  EXPECT_FALSE(StepSaves(ranks));
  for (CommandGate& rank : ranks) {
    rank.Receive({.saves = 1});  // repeated
    rank.Receive({.number = 7, .saves = 1});
  }
  EXPECT_FALSE(StepSaves(ranks)) << "another command is no request";
  for (CommandGate& rank : ranks) rank.Receive({.number = 7, .saves = 2});
  EXPECT_TRUE(StepSaves(ranks));
}

// Rank 1 has a second request already when the first is obeyed: that save is of
// a step after both. The third is one more, on both ranks.
TEST(SaveTest, RequestsBeforeTheStepEndsAreOneSave) {
  std::vector<CommandGate> ranks(2);
  ranks[0].Receive({.saves = 1});
  ranks[1].Receive({.saves = 2});
  EXPECT_TRUE(StepSaves(ranks));
  ranks[0].Receive({.saves = 2});
  EXPECT_FALSE(StepSaves(ranks));
  for (CommandGate& rank : ranks) rank.Receive({.saves = 3});
  EXPECT_TRUE(StepSaves(ranks));
  EXPECT_FALSE(StepSaves(ranks));
}

// A request that arrives between entering and passing is of the next step.
TEST(SaveTest, ARequestAfterTheVerdictWasEnteredIsNotLost) {
  CommandGate gate;
  gate.Receive({.saves = 1});
  const Verdict verdict = Enter(gate);
  gate.Receive({.saves = 2});
  gate.Pass(verdict, /*ends=*/false, [] {});
  EXPECT_TRUE(Enter(gate).Holds(Command::kSave));
}

TEST(SaveTest, DoesNotEndAPauseAndHoldsAfterIt) {
  CommandGate gate;
  gate.Receive(kPauseIsWanted);
  const Passage passage(gate, Enter(gate));
  DesiredCommands paused = kPauseIsWanted;
  paused.saves = 1;
  gate.Receive(paused);
  EXPECT_EQ(passage.went_on, 0);
  gate.Receive({.number = 6, .saves = 1});
  EXPECT_EQ(passage.went_on, 1);
  EXPECT_TRUE(Enter(gate).Holds(Command::kSave));
}

TEST(SaveTest, HoldsAtTheLastStepBesideADrain) {
  CommandGate gate;
  gate.Receive({.commands = {Command::kDrain}, .number = 5, .saves = 1});
  const Verdict verdict = Enter(gate);
  EXPECT_TRUE(verdict.Holds(Command::kDrain));
  EXPECT_TRUE(verdict.Holds(Command::kSave));
}

}  // namespace
}  // namespace lockstep::gradient
