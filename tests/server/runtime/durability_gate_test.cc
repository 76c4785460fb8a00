#include "server/runtime/durability_gate.h"

#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

core::Effect Note(const std::string& text) { return core::Note{.text = text}; }
core::Effect Record(uint64_t number) {
  return core::Persist{{.number = number}};
}

std::vector<std::string> Texts(const core::Effects& effects) {
  std::vector<std::string> texts;
  for (const core::Effect& effect : effects) {
    texts.push_back(std::get<core::Note>(effect).text);
  }
  return texts;
}

std::vector<uint64_t> Numbers(const std::vector<record::Record>& records) {
  std::vector<uint64_t> numbers;
  for (const record::Record& record : records) numbers.push_back(record.number);
  return numbers;
}

TEST(DurabilityGateTest, WhatPromisesNothingGoesOutAtOnce) {
  DurabilityGate gate;
  EXPECT_THAT(gate.Admit({Note("a"), Note("b")}), IsEmpty());
  EXPECT_THAT(Texts(gate.Release()), ElementsAre("a", "b"));
}

TEST(DurabilityGateTest, WhatFollowsARecordWaitsForIt) {
  DurabilityGate gate;
  EXPECT_THAT(Numbers(gate.Admit(
                  {Note("a"), Record(7), Note("b"), Record(8), Note("c")})),
              ElementsAre(7, 8));
  EXPECT_THAT(Texts(gate.Release()), ElementsAre("a"));
  gate.MarkDurable(7);
  EXPECT_THAT(Texts(gate.Release()), ElementsAre("b"));
  EXPECT_THAT(Texts(gate.Release()), IsEmpty());
  gate.MarkDurable(8);
  EXPECT_THAT(Texts(gate.Release()), ElementsAre("c"));
}

TEST(DurabilityGateTest, LaterStepsWaitForEarlierRecords) {
  DurabilityGate gate;
  gate.Admit({Record(1)});
  gate.Admit({Note("later")});
  EXPECT_THAT(Texts(gate.Release()), IsEmpty());
  EXPECT_EQ(gate.held(), 1u);
  gate.MarkDurable(1);
  EXPECT_THAT(Texts(gate.Release()), ElementsAre("later"));
}

TEST(DurabilityGateTest, ALaterRecordCoversTheEarlierOnes) {
  DurabilityGate gate;
  gate.Admit({Record(1), Note("a"), Record(2), Note("b")});
  gate.MarkDurable(2);
  gate.MarkDurable(1);
  EXPECT_THAT(Texts(gate.Release()), ElementsAre("a", "b"));
}

core::Effect Decide(uint64_t session) {
  return core::Send{{session}, {.body = protocol::Decide{}}};
}
core::Effect Warn(uint64_t session) {
  return core::Send{{session}, {.body = protocol::Warning{}}};
}

TEST(DurabilityGateTest, DecisionsOfPassesWaitForNoRecord) {
  DurabilityGate gate;
  gate.Admit({Record(1), Warn(1), Decide(2)});
  EXPECT_EQ(gate.Release().size(), 1u) << "to a stream without other messages";
  gate.Admit({Decide(1)});
  EXPECT_EQ(gate.Release().size(), 0u)
      << "a stream's messages keep their order";
  gate.MarkDurable(1);
  const core::Effects rest = gate.Release();
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<protocol::Decide>(
      std::get<core::Send>(rest[1]).message.body));
  gate.Admit({Record(2), Decide(1)});
  EXPECT_EQ(gate.Release().size(), 1u);
}

// For any history: the order is kept, and no effect is released before its
// record.
TEST(DurabilityGateTest, NeverPromisesTooEarly) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    DurabilityGate gate;
    uint64_t records = 0, durable = 0;
    std::vector<uint64_t> owed;  // for each note, the records before it
    size_t out = 0;
    for (int step = 0; step < 100; ++step) {
      if (random() % 2 == 0) {
        core::Effects effects;
        for (uint64_t n = random() % 4; n > 0; --n) {
          if (random() % 3 == 0) {
            effects.push_back(Record(++records));
          } else {
            effects.push_back(Note(absl::StrCat(owed.size())));
            owed.push_back(records);
          }
        }
        gate.Admit(effects);
      } else if (durable < records) {
        durable += 1 + random() % (records - durable);
        gate.MarkDurable(durable);
      }
      for (const std::string& text : Texts(gate.Release())) {
        ASSERT_EQ(text, absl::StrCat(out));
        ASSERT_LE(owed[out], durable);
        ++out;
      }
      ASSERT_EQ(gate.held(), owed.size() - out);
      ASSERT_TRUE(out == owed.size() || owed[out] > durable);
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
