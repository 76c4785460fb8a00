#include "client/gradient/command_gate.h"

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

Verdict Enter(const CommandGate& gate) {
  StepSummary summary;
  gate.Enter(&summary);
  return SeenByAll(summary);
}

// Passes the gate, and records whether that returned at once.
struct Passage {
  Passage(CommandGate& gate, const Verdict& verdict) {
    gate.Pass(verdict, [this] { ++went_on; });
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

}  // namespace
}  // namespace lockstep::gradient
