// Which groups are known to sum in pairs before they are connected.

#include "plan/pairs.h"

#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::plan {
namespace {

// One rank at each of these places; a blank: unknown.
std::vector<TransportFacts> At(const std::string& places,
                               TransportFacts facts) {
  std::vector<TransportFacts> transports;
  for (const char place : places) {
    facts.place = place == ' ' ? "" : std::string(1, place);
    transports.push_back(facts);
  }
  return transports;
}

std::vector<int> All(const std::vector<TransportFacts>& transports) {
  std::vector<int> ranks(transports.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

constexpr const char* kNowhere = "";
const TransportFacts kNone;
const TransportFacts kOne{kNowhere, true, false, false};
const TransportFacts kAuto{kNowhere, true, true, false};
const TransportFacts kMixed{kNowhere, false, false, true};
const TransportFacts kAnywhere{kNowhere, true, true, true};

TEST(PairsTest, DependsOnTheNumberOfRanksAndTheirPlaces) {
  struct Row {
    std::string places;
    bool none, one, automatic, mixed, anywhere;
  };
  for (const Row& row : std::vector<Row>{
           {"", false, false, false, false, false},
           {"a", false, true, true, false, true},
           {"aa", false, true, true, false, true},
           {"ab", false, false, true, false, true},
           {"aaa", false, false, false, false, false},
           {"abc", false, false, false, false, false},
           {"aab", false, false, false, false, false},
           {"aaaa", false, true, true, false, true},
           {"abcd", false, false, true, false, true},
           {"aabb", false, false, false, true, true},
           {"abab", false, false, false, true, true},
           {"aaab", false, false, false, true, true},
           {"aaaaaa", false, false, false, false, false},
           {"aaaaaaaa", false, true, true, false, true},
           {"abcdefgh", false, false, true, false, true},
           {"abcdefga", false, false, false, true, true},
           // Any place: certain only for a transport that ignores places.
           {" ", false, false, false, false, true},
           {"  ", false, false, false, false, true},
           {"a ", false, false, false, false, true},
           {"aab ", false, false, false, false, true}}) {
    const auto can = [&](const TransportFacts& facts) {
      const auto transports = At(row.places, facts);
      return SumsInPairs(transports, All(transports));
    };
    EXPECT_EQ(can(kNone), row.none) << row.places;
    EXPECT_EQ(can(kOne), row.one) << row.places;
    EXPECT_EQ(can(kAuto), row.automatic) << row.places;
    EXPECT_EQ(can(kMixed), row.mixed) << row.places;
    EXPECT_EQ(can(kAnywhere), row.anywhere) << row.places;
  }
}

TEST(PairsTest, OnlyTheRanksOfTheGroupCount) {
  const auto transports = At("aabbcd", kAuto);
  EXPECT_TRUE(SumsInPairs(transports, {0, 1}));
  EXPECT_TRUE(SumsInPairs(transports, {0, 2, 4, 5}));
  EXPECT_FALSE(SumsInPairs(transports, {0, 1, 2, 3}));
  EXPECT_FALSE(SumsInPairs(transports, {0, 1, 4}));
}

TEST(PairsTest, RanksThatContradictEachOtherCannot) {
  for (const TransportFacts& other : {kNone, kOne, kMixed, kAnywhere}) {
    std::vector<TransportFacts> transports = At("aaaa", kAuto);
    transports[3] = other;
    transports[3].place = "a";
    EXPECT_FALSE(SumsInPairs(transports, {0, 1, 2, 3}));
    EXPECT_FALSE(SumsInPairs(transports, {3, 0}));
    EXPECT_TRUE(SumsInPairs(transports, {0, 1})) << "without it they agree";
  }
}

TEST(PairsTest, RanksThatDidNotTellCannot) {
  EXPECT_FALSE(SumsInPairs({}, {0}));
  EXPECT_FALSE(SumsInPairs({}, {0, 1}));
  EXPECT_FALSE(SumsInPairs(At("aa", kAnywhere), {1, 2}));
  EXPECT_FALSE(SumsInPairs(At("aa", kAnywhere), {-1, 0}));
  EXPECT_FALSE(SumsInPairs({{}, {}}, {0, 1}));
}

TEST(PairsTest, ASpecAloneIsOneOfRanksInOnePlace) {
  for (const auto& [transport, can] : {std::pair("auto", true),
                                       {"shm", true},
                                       {"gloo", true},
                                       {"nccl", false},
                                       {"other", false}}) {
    const auto assumed = AssumedTransports(
        {.mesh = {{{"data", 4}, {"pipe", 3}}}, .transport = transport});
    ASSERT_EQ(assumed.size(), 12u);
    EXPECT_EQ(SumsInPairs(assumed, {0, 3, 6, 9}), can) << transport;
    EXPECT_FALSE(SumsInPairs(assumed, {0, 1, 2})) << transport;
  }
}

}  // namespace
}  // namespace lockstep::plan
