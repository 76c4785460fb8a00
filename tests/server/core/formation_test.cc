// The members of the next epoch: tables, and random arrivals against a search
// over all assignments.

#include "server/core/formation.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/elastic.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/describe.h"

namespace lockstep::core {
namespace {

JobSpec Meshed(const std::string& mesh, const std::string& elastic = "") {
  return {
      .name = "job", .mesh = *ParseMesh(mesh), .elastic = {.axis = elastic}};
}

// "w-1@b" is w-1 on host b; without a host: on host a.
protocol::Member Someone(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '@');
  return {.worker = {parts[0]},
          .generation = {1},
          .process = {.host = parts.size() > 1 ? parts[1] : "a"}};
}

std::vector<protocol::Member> People(const std::string& text) {
  std::vector<protocol::Member> members;
  for (const auto part : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    members.push_back(Someone(std::string(part)));
  }
  return members;
}

// Those who hold the state are marked: "*w-1"; "*1:w-1" waited, and holds that
// of cell 1.
std::vector<ArrivedWorker> Arrivals(
    const JobSpec& spec, const std::string& text,
    const std::vector<protocol::Member>& previous) {
  std::vector<ArrivedWorker> arrivals;
  for (const auto part : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    ArrivedWorker arrival;
    if (part[0] != '*') {
      arrival.member = Someone(std::string(part));
    } else if (part.size() > 2 && part[2] == ':') {
      arrival.member = Someone(std::string(part.substr(3)));
      arrival.held_cell = part[1] - '0';
    } else {
      arrival.member = Someone(std::string(part.substr(1)));
      for (size_t rank = 0; rank < previous.size(); ++rank) {
        if (previous[rank].worker == arrival.member.worker) {
          arrival.held_cell = CellOf(spec, static_cast<int>(previous.size()),
                                     static_cast<int>(rank));
        }
      }
    }
    arrivals.push_back(arrival);
  }
  return arrivals;
}

std::string Formed(const JobSpec& spec, const std::string& arrived,
                   const std::string& previous = "") {
  const std::vector<protocol::Member> before = People(previous);
  return Names(FormEpoch(spec, Arrivals(spec, arrived, before), before));
}

// --- Jobs of a fixed size ----------------------------------------------------

TEST(FormationTest, HostsStayTogetherInTheOrderOfTheirFirstWorker) {
  EXPECT_EQ(Formed(Meshed("data=4"), "w-1@b w-10@a w-2@a w-3@b"),
            "w-1 w-3 w-2 w-10");
}

TEST(FormationTest, HostsOfEqualNameAndAnotherBootAreTwo) {
  const JobSpec spec = Meshed("data=3");
  std::vector<ArrivedWorker> arrived = Arrivals(spec, "w-1 w-2 w-3", {});
  arrived[1].member.process.boot_id = "other";
  EXPECT_EQ(Names(FormEpoch(spec, arrived, {})), "w-1 w-3 w-2");
}

TEST(FormationTest, AJobOfFixedSizeFormsWithAllOrNobody) {
  EXPECT_EQ(Formed(Meshed("data=3"), "w-0 w-1"), "");
  EXPECT_EQ(Formed(Meshed("data=3"), "*w-0 *w-1", "w-0 w-1 w-2"), "");
}

TEST(FormationTest, SurvivorsStayAndNewcomersFillHolesOfTheirHostFirst) {
  EXPECT_EQ(Formed(Meshed("data=4"), "w-3@b x@b y@c w-0@a",
                   "w-0@a w-1@a w-2@b w-3@b"),
            "w-0 y x w-3");
}

TEST(FormationTest, ASpareTakesTheRankOfALostWorker) {
  const JobSpec spec = Meshed("data=3");
  EXPECT_EQ(Formed(spec, "*w-0 *w-2 w-10 w-9", "w-0 w-1 w-2"), "w-0 w-9 w-2");
  EXPECT_EQ(Formed(spec, "*w-0 w-1 *w-2 w-9", "w-0 w-1 w-2"), "w-0 w-1 w-2")
      << "a replacement of the same name comes first";
  EXPECT_EQ(Formed(spec, "w-2 w-10 w-0 w-1"), "w-0 w-1 w-2");
}

// --- Elastic jobs
// --------------------------------------------------------------

TEST(ElasticFormationTest, SurvivorsCloseRanks) {
  const JobSpec spec = Meshed("data=4", "data");
  EXPECT_EQ(Formed(spec, "*w-3 *w-0 *w-2", "w-0 w-1 w-2 w-3"), "w-0 w-2 w-3");
  EXPECT_EQ(Formed(spec, "*w-3", "w-0 w-1 w-2 w-3"), "w-3");
  EXPECT_EQ(Formed(spec, "", "w-0 w-1 w-2 w-3"), "");
}

TEST(ElasticFormationTest, AReplacementKeepsTheSize) {
  EXPECT_EQ(Formed(Meshed("data=3", "data"), "*w-0 *w-2 x", "w-0 w-1 w-2"),
            "w-0 x w-2");
}

TEST(ElasticFormationTest, NewcomersMakeItLarger) {
  EXPECT_EQ(Formed(Meshed("data=4", "data"), "*w-0 *w-2 x y", "w-0 w-2"),
            "w-0 w-2 x y");
  EXPECT_EQ(Formed(Meshed("data=3", "data"), "*w-0 *w-2 y x", "w-0 w-2"),
            "w-0 w-2 x")
      << "one more than there are ranks waits";
}

TEST(ElasticFormationTest, TheFirstEpochHasWholeReplicas) {
  const JobSpec spec = Meshed("data=3,pipe=2", "data");
  EXPECT_EQ(Formed(spec, "w-0 w-1 w-2 w-3 w-4"), "w-0 w-1 w-2 w-3");
  EXPECT_EQ(Formed(spec, "w-0"), "");
}

// data 0: a0 b0; data 1: a1 b1; data 2: a2 b2.
TEST(ElasticFormationTest, WholeReplicasStayTogether) {
  const JobSpec spec = Meshed("data=3,pipe=2", "data");
  const std::string before = "a0 b0 a1 b1 a2 b2";
  EXPECT_EQ(Formed(spec, "*a0 *b0 *b1 *a2 *b2", before), "a0 b0 a2 b2")
      << "b1 waits";
  EXPECT_EQ(Formed(spec, "*a0 *b1 *a2 *b2", before), "a0 b1 a2 b2")
      << "two broken replicas make one";
  EXPECT_EQ(Formed(spec, "*a0 *b0 *b1 *a2 *b2 x", before), "a0 b0 x b1 a2 b2");
}

// The elastic axis is the fastest: stage 0 has a0 a1 a2, stage 1 b0 b1 b2.
TEST(ElasticFormationTest, TheElasticAxisMayBeAnyAxis) {
  const JobSpec spec = Meshed("pipe=2,data=3", "data");
  EXPECT_EQ(Formed(spec, "*a0 *a2 *b0 *b1 *b2", "a0 a1 a2 b0 b1 b2"),
            "a0 a2 b0 b2");
  EXPECT_EQ(Formed(spec, "*a0 *a2 *b0 *b2 x y", "a0 a2 b0 b2"),
            "a0 a2 x b0 b2 y");
}

TEST(ElasticFormationTest, AStageWithoutItsStateNeedsANewcomer) {
  const JobSpec spec = Meshed("data=2,pipe=2", "data");
  EXPECT_EQ(Formed(spec, "*a0 *a1", "a0 b0 a1 b1"), "");
  EXPECT_EQ(Formed(spec, "*a0 *a1 x", "a0 b0 a1 b1"), "a0 x");
  EXPECT_EQ(Formed(spec, "*a0 *a1 b1", "a0 b0 a1 b1"), "a0 b1")
      << "a former member without the state is as good";
}

// Another stage's weights are no hindrance to a member that has lost its own.
TEST(ElasticFormationTest, AMemberWithoutStateGoesWhereItIsNeeded) {
  EXPECT_EQ(
      Formed(Meshed("data=2,pipe=2", "data"), "*a0 a1 *b1", "a0 b0 a1 b1"),
      "a0 b1");
  EXPECT_EQ(Formed(Meshed("data=2,pipe=2", "data"), "a0 a1", "a0 b0 a1 b1"),
            "a0 a1");
}

// b1 waited beside the epoch of a0 and b0, which passed no step.
TEST(ElasticFormationTest, OneThatWaitedWithItsStateStaysInItsCell) {
  const JobSpec spec = Meshed("data=2,pipe=2", "data");
  EXPECT_EQ(Formed(spec, "*1:b1 x y", "a0 b0"), "x b1");
  EXPECT_EQ(Formed(spec, "*1:b1 *a0", "a0 b0"), "a0 b1");
  EXPECT_EQ(Formed(spec, "*1:b1 *b0 x", "a0 b0"), "x b0");
  EXPECT_EQ(Formed(spec, "*1:b1 *b0 x y", "a0 b0"), "x b0 y b1");
  EXPECT_EQ(Formed(spec, "*1:b1 *b0", "a0 b0"), "");
}

TEST(ElasticFormationTest, ReproducibleJobsHalve) {
  JobSpec spec = Meshed("data=4", "data");
  spec.reproducible.leaves = 4;
  EXPECT_EQ(Formed(spec, "*w-0 *w-1 *w-3", "w-0 w-1 w-2 w-3"), "w-0 w-1");
  EXPECT_EQ(Formed(spec, "w-0 w-1 w-2"), "w-0 w-1");
}

// --- Random arrivals
// -------------------------------------------------------------

// Whether `replicas` replicas can be filled: each cell needs as many, holders
// only go to their own. Tries every assignment, one arrival after another.
bool CanBeFilled(const std::vector<int>& cell_of_arrival, int cells,
                 int replicas) {
  std::vector<int> needs(static_cast<size_t>(cells), replicas);
  std::set<std::pair<size_t, std::vector<int>>> failed;
  const std::function<bool(size_t)> search = [&](size_t next) {
    if (std::count(needs.begin(), needs.end(), 0) == cells) return true;
    if (next == cell_of_arrival.size()) return false;
    if (failed.contains({next, needs})) return false;
    if (search(next + 1)) return true;  // it waits
    for (int cell = 0; cell < cells; ++cell) {
      const int own = cell_of_arrival[next];
      int& need = needs[static_cast<size_t>(cell)];
      if (need == 0 || (own >= 0 && own != cell)) continue;
      --need;
      const bool found = search(next + 1);
      ++need;
      if (found) return true;
    }
    failed.insert({next, needs});
    return false;
  };
  return search(0);
}

struct Drawn {
  JobSpec spec;
  std::vector<protocol::Member> previous;
  std::vector<ArrivedWorker> arrived;
};

Drawn Draw(std::mt19937& rng) {
  const auto pick = [&rng](int n) { return static_cast<int>(rng() % n); };
  static const std::vector<std::pair<std::string, std::string>> kMeshes = {
      {"data=4", ""},
      {"data=4", "data"},
      {"data=3,pipe=2", "data"},
      {"pipe=2,data=3", "data"},
      {"a=2,data=2,b=2", "data"},
      {"a=2,data=2,b=2", ""}};
  const auto& [mesh, axis] = kMeshes[static_cast<size_t>(pick(6))];
  Drawn drawn{.spec = Meshed(mesh, axis)};
  const int replicas = 1 + pick(spec::ReplicasMax(drawn.spec));
  const int before = replicas * spec::WorkersPerReplica(drawn.spec);
  const auto someone = [&](const std::string& name) {
    return Someone(absl::StrCat(name, "@", std::string(1, "abc"[pick(3)])));
  };
  for (int i = 0; i < before; ++i) {
    drawn.previous.push_back(someone(absl::StrCat("w-", i)));
    if (pick(3) == 0) continue;
    drawn.arrived.push_back({drawn.previous.back()});
    if (pick(4) == 0) continue;
    drawn.arrived.back().held_cell = CellOf(drawn.spec, before, i);
  }
  for (int i = pick(5); i > 0; --i) {
    drawn.arrived.push_back({someone(absl::StrCat("x-", i))});
    if (axis.empty() || pick(3) > 0) continue;  // or it waited with its state
    drawn.arrived.back().held_cell = pick(spec::WorkersPerReplica(drawn.spec));
  }
  return drawn;
}

// The coordinates of a rank in the elastic axis, and in all others.
std::pair<int, std::vector<int>> PlaceOf(const JobSpec& spec, size_t world,
                                         int rank) {
  std::vector<int> place =
      MeshOfWorld(spec, static_cast<int>(world))->CoordinatesOf(rank);
  const int axis = spec.mesh.AxisIndex(spec.elastic.axis);
  if (axis < 0) return {0, place};
  const int replica = place[static_cast<size_t>(axis)];
  place.erase(place.begin() + axis);
  return {replica, place};
}

class RandomFormationTest : public testing::Test {
 protected:
  void Check(const Drawn& drawn) {
    const auto& [spec, previous, arrived] = drawn;
    const std::vector<protocol::Member> formed =
        FormEpoch(spec, arrived, previous);
    SCOPED_TRACE(absl::StrCat("mesh ", ToString(spec.mesh), " before: ",
                              Names(previous), " formed: ", Names(formed)));
    std::map<WorkerName, int> had;
    for (size_t rank = 0; rank < previous.size(); ++rank) {
      had[previous[rank].worker] = static_cast<int>(rank);
    }
    std::map<std::vector<int>, int> cells;
    for (int rank = 0; rank < static_cast<int>(previous.size()); ++rank) {
      cells.try_emplace(PlaceOf(spec, previous.size(), rank).second,
                        cells.size());
    }
    std::map<WorkerName, std::optional<int>> held;
    std::vector<int> cell_of_arrival;
    std::map<int, int> complete;  // by replica
    for (const ArrivedWorker& arrival : arrived) {
      held[arrival.member.worker] = arrival.held_cell;
      cell_of_arrival.push_back(arrival.held_cell.value_or(-1));
      const auto was = had.find(arrival.member.worker);
      if (!arrival.held_cell || was == had.end()) continue;
      const auto place = PlaceOf(spec, previous.size(), was->second);
      EXPECT_EQ(arrival.held_cell, cells.at(place.second));
      ++complete[place.first];
    }

    // As many replicas as can be.
    const int replica_size = spec::WorkersPerReplica(spec);
    int most = spec::ReplicasMax(spec);
    while (most > 0 && !CanBeFilled(cell_of_arrival, replica_size, most)) {
      --most;
    }
    ASSERT_EQ(static_cast<int>(formed.size()), most * replica_size);

    std::set<WorkerName> names;
    std::map<int, std::set<int>> old_replicas;  // by new one; -1: no holder
    for (int rank = 0; rank < static_cast<int>(formed.size()); ++rank) {
      const protocol::Member& member = formed[static_cast<size_t>(rank)];
      EXPECT_TRUE(names.insert(member.worker).second) << "twice";
      ASSERT_TRUE(held.contains(member.worker)) << "it is not here";
      const auto [replica, cell] = PlaceOf(spec, formed.size(), rank);
      if (held[member.worker]) {
        EXPECT_EQ(held[member.worker], cells.at(cell))
            << member.worker.value << " moves";
      }
      if (!held[member.worker] || !had.contains(member.worker)) {
        old_replicas[replica].insert(-1);
        if (had.contains(member.worker) && spec.elastic.axis.empty()) {
          EXPECT_EQ(had[member.worker], rank) << "former members stay";
        }
        continue;
      }
      const int was = had[member.worker];
      const auto before = PlaceOf(spec, previous.size(), was);
      old_replicas[replica].insert(before.first);
      if (formed.size() == previous.size()) {
        EXPECT_EQ(was, rank);
      }
    }
    // No whole replica is broken if there are enough of them.
    const auto whole = std::count_if(
        complete.begin(), complete.end(),
        [&](const auto& entry) { return entry.second == replica_size; });
    if (whole >= most) {
      for (const auto& [replica, from] : old_replicas) {
        EXPECT_EQ(from.size(), 1u) << "replica " << replica << " is mixed";
        EXPECT_FALSE(from.contains(-1));
      }
    }
    if (!formed.empty()) ++formed_;
    if (formed.size() < previous.size()) ++smaller_;
    if (formed.size() > previous.size()) ++larger_;
  }

  int formed_ = 0;
  int smaller_ = 0;
  int larger_ = 0;
};

TEST_F(RandomFormationTest, HasTheMostReplicasAndMovesNobodyWithState) {
  std::mt19937 rng(1);
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    SCOPED_TRACE(absl::StrCat("round ", round));
    Check(Draw(rng));
  }
  EXPECT_GT(formed_, 1500);
  EXPECT_GT(smaller_, 500);
  EXPECT_GT(larger_, 300);
}

TEST_F(RandomFormationTest, DoesNotDependOnTheOrderOfArrival) {
  std::mt19937 rng(2);
  for (int round = 0; round < 500; ++round) {
    Drawn drawn = Draw(rng);
    const auto first = FormEpoch(drawn.spec, drawn.arrived, drawn.previous);
    std::shuffle(drawn.arrived.begin(), drawn.arrived.end(), rng);
    EXPECT_EQ(FormEpoch(drawn.spec, drawn.arrived, drawn.previous), first)
        << "round " << round;
  }
}

}  // namespace
}  // namespace lockstep::core
