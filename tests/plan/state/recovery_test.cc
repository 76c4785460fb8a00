#include "plan/state/recovery.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int> RanksBelow(int64_t end) {
  std::vector<int> ranks(static_cast<size_t>(end));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// f32, one dimension, whole on the ranks.
StateTensor Vector(const std::string& name, int64_t extent,
                   std::vector<int> ranks) {
  return {.name = name,
          .dims = {{.bounds = {0, extent}}},
          .ranks = std::move(ranks)};
}

std::map<int, int64_t> ElementsSent(const RecoveryPlan& plan) {
  std::map<int, int64_t> sent;
  for (const RecoveryChunk& chunk : plan.chunks) {
    sent[chunk.from] += chunk.count;
  }
  return sent;
}

TEST(RecoveryTest, ChunksComeFromAllHoldersInTurn) {
  const Mesh mesh{{{"data", 4}}};
  const auto plan =
      PlanRecovery({Vector("w", 11, RanksBelow(4))}, mesh, {3}, {0, 1, 2}, 8);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->chunks, ElementsAre(RecoveryChunk{0, 0, 2, 0, 3, 0},
                                        RecoveryChunk{0, 2, 2, 1, 3, 0},
                                        RecoveryChunk{0, 4, 2, 2, 3, 0},
                                        RecoveryChunk{0, 6, 2, 0, 3, 0},
                                        RecoveryChunk{0, 8, 2, 1, 3, 0},
                                        RecoveryChunk{0, 10, 1, 2, 3, 0}));
  EXPECT_THAT(plan->holders, ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(RecoveryTest, AChunkHasAtLeastOneElement) {
  const Mesh mesh{{{"data", 2}}};
  const auto plan =
      PlanRecovery({Vector("w", 3, RanksBelow(2))}, mesh, {0}, {1}, 1);
  EXPECT_EQ(plan.value().chunks.size(), 3u);
}

// "b" is on rank 0 only, so the other two send what all have.
TEST(RecoveryTest, HoldersOfMuchElseSendLessOfWhatOthersHave) {
  const Mesh mesh{{{"data", 4}}};
  const auto plan =
      PlanRecovery({Vector("a", 20, RanksBelow(4)), Vector("b", 10, {0, 3})},
                   mesh, {3}, {0, 1, 2}, 4);
  EXPECT_THAT(ElementsSent(plan.value()),
              ElementsAre(testing::Pair(0, 10), testing::Pair(1, 10),
                          testing::Pair(2, 10)));
}

TEST(RecoveryTest, NamesWhatNobodyHealthyHolds) {
  const Mesh mesh{{{"data", 4}}};
  // Each rank has its own quarter of "m".
  StateTensor m = Vector("w.m", 8, RanksBelow(4));
  m.slices = {{0, 2}, {2, 2}, {4, 2}, {6, 2}};
  const absl::Status refused =
      PlanRecovery({Vector("w", 8, RanksBelow(4)), m, Vector("v", 8, {2, 3})},
                   mesh, {1, 2, 3}, {0})
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("tensor \"w.m\" of ranks 1-3"),
                    HasSubstr("tensor \"v\" of ranks 2-3"),
                    testing::Not(HasSubstr("\"w\""))));
  std::vector<StateTensor> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(Vector(absl::StrCat("t", i), 1, {1}));
  }
  EXPECT_THAT(
      std::string(PlanRecovery(many, mesh, {1}, {0}).status().message()),
      HasSubstr("4 more"));
}

TEST(RecoveryTest, RefusesRanksThatAreNoneOrTwo) {
  const Mesh mesh{{{"data", 2}}};
  const std::vector<std::pair<std::vector<int>, std::vector<int>>> wrong = {
      {{2}, {0}}, {{-1}, {0}}, {{0}, {0, 1}}, {{0, 0}, {1}}, {{0}, {1, 1}}};
  for (const auto& [newcomers, healthy] : wrong) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        PlanRecovery({}, mesh, newcomers, healthy).status()));
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(PlanRecovery({}, mesh, {0}, {1}, 0).status()));
}

StateTensor RandomTensor(const Mesh& mesh, int number,
                         std::mt19937_64* random) {
  StateTensor tensor{.name = absl::StrCat("t", number),
                     .dtype = (*random)() % 2 ? DType::kF32 : DType::kBF16,
                     .ranks = RanksBelow(mesh.WorldSize())};
  const std::vector<std::string> none, model = {"model"};
  for (int d = 0; d < 2; ++d) {
    const bool is_cut = d == number % 2 && (*random)() % 2;
    const int blocks = is_cut ? mesh.axes[1].size : 1;
    tensor.dims.push_back(
        {is_cut ? model : none,
         EvenBounds(static_cast<int64_t>((*random)() % 9), blocks)});
  }
  if ((*random)() % 2) return tensor;
  // The ranks along data divide their block.
  for (const int rank : tensor.ranks) {
    int64_t elements = 1;
    for (int64_t extent : BlockOf(tensor, mesh, rank).shape) elements *= extent;
    const std::vector<int64_t> bounds = EvenBounds(elements, mesh.axes[0].size);
    const auto part = static_cast<size_t>(rank / mesh.axes[1].size);
    // Two ranks have the same one, if there are four.
    const size_t first = mesh.axes[0].size == 4 ? part / 2 * 2 : part;
    const size_t last = mesh.axes[0].size == 4 ? first + 2 : part + 1;
    tensor.slices.push_back({bounds[first], bounds[last] - bounds[first]});
  }
  return tensor;
}

// Against a count of each element of each newcomer's memory.
TEST(RecoveryTest, EveryElementOfANewcomerIsSentOnceByAHealthyHolder) {
  int recovered = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Mesh mesh{{{"data", 1 + static_cast<int>(random() % 4)},
                     {"model", 1 + static_cast<int>(random() % 2)}}};
    std::vector<StateTensor> tensors;
    for (int i = 0; i < 3; ++i) {
      tensors.push_back(RandomTensor(mesh, i, &random));
      ASSERT_EQ(Validate(tensors.back(), mesh), absl::OkStatus());
    }
    std::vector<int> newcomers, healthy;
    for (const int rank : RanksBelow(mesh.WorldSize())) {
      const uint64_t role = random() % 4;
      if (role == 0) newcomers.push_back(rank);
      if (role > 1) healthy.push_back(rank);
    }
    // What each rank holds: the element of the tensor, by place in memory.
    const auto held = [&](int t, int rank) {
      const StateTensor& tensor = tensors[static_cast<size_t>(t)];
      std::map<int64_t, std::vector<int64_t>> elements;
      for (const HeldBox& box : BoxesOf(tensor, mesh, rank)) {
        for (int64_t i = 0; i < box.box.shape[0] * box.box.shape[1]; ++i) {
          elements[box.offset + i] = {box.box.begin[0] + i / box.box.shape[1],
                                      box.box.begin[1] + i % box.box.shape[1]};
        }
      }
      return elements;
    };
    const auto plan = PlanRecovery(tensors, mesh, newcomers, healthy, 8);
    bool is_lost = false;
    for (int t = 0; t < 3; ++t) {
      std::set<std::vector<int64_t>> there;
      for (const int rank : healthy) {
        for (const auto& [at, element] : held(t, rank)) there.insert(element);
      }
      for (const int rank : newcomers) {
        for (const auto& [at, element] : held(t, rank)) {
          is_lost = is_lost || there.count(element) == 0;
        }
      }
    }
    ASSERT_EQ(plan.ok(), !is_lost) << plan.status();
    if (!plan.ok()) continue;
    recovered += !plan->chunks.empty();
    std::map<std::vector<int64_t>, int> received;
    for (const RecoveryChunk& chunk : plan->chunks) {
      EXPECT_THAT(healthy, Contains(chunk.from));
      EXPECT_THAT(plan->holders[static_cast<size_t>(chunk.holders_of)],
                  Contains(chunk.from));
      const auto mine = held(chunk.tensor, chunk.to);
      for (const int holder :
           plan->holders[static_cast<size_t>(chunk.holders_of)]) {
        const auto theirs = held(chunk.tensor, holder);
        for (int64_t i = chunk.offset; i < chunk.offset + chunk.count; ++i) {
          ASSERT_EQ(mine.at(i), theirs.at(i));
        }
      }
      for (int64_t i = chunk.offset; i < chunk.offset + chunk.count; ++i) {
        ++received[{chunk.to, chunk.tensor, i}];
      }
    }
    size_t needed = 0;
    for (const int rank : newcomers) {
      for (int t = 0; t < 3; ++t) needed += held(t, rank).size();
    }
    EXPECT_EQ(received.size(), needed);
    for (const auto& [element, times] : received) EXPECT_EQ(times, 1);
  }
  EXPECT_GT(recovered, 50);
}

// Nobody sends more than the mean and one chunk.
TEST(RecoveryTest, HoldersOfAllSendEvenly) {
  const Mesh mesh{{{"data", 8}}};
  std::vector<StateTensor> tensors;
  for (int64_t extent : {1000, 7, 1, 333, 12}) {
    tensors.push_back(Vector(absl::StrCat("t", extent), extent, RanksBelow(8)));
  }
  const RecoveryPlan plan =
      PlanRecovery(tensors, mesh, {1, 5}, {0, 2, 3, 4, 6, 7}, 64).value();
  int64_t most = 0, total = 0;
  for (const auto& [rank, sent] : ElementsSent(plan)) {
    most = std::max(most, sent);
    total += sent;
  }
  EXPECT_EQ(total, 2 * 1353);
  EXPECT_LE(most, total / 6 + 16);
  EXPECT_THAT(PlanRecovery(tensors, mesh, {}, {0}).value().chunks, IsEmpty());
}

}  // namespace
}  // namespace lockstep::plan
