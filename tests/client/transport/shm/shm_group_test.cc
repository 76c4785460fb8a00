// Which ranks are woken when. The ShmGroups are in one process; their ranks
// sleep after the first poll, and until they are woken.

#include "client/transport/shm/shm_group.h"

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/common/collective_op.h"
#include "client/transport/failed_peer.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/task.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/shm_groups.h"
#include "tests/support/fd_limit.h"

namespace lockstep::transport {
namespace {

using testing::Each;
using testing::ElementsAre;

// A lost wake-up hangs the test.
constexpr WaitPolicy kSleepsAtOnce{.looks = std::chrono::nanoseconds(0),
                                   .all = std::chrono::nanoseconds(0),
                                   .nap = std::chrono::hours(1)};

// How often each rank has been woken.
std::vector<uint32_t> Bells(ShmGroups& shm_groups) {
  std::vector<uint32_t> bells;
  for (int rank = 0; rank < shm_groups.size(); ++rank) {
    bells.push_back(shm_groups.at(rank).mine().header().wakes);
  }
  return bells;
}

void AllSleep(ShmGroups& shm_groups) {
  for (int rank = 0; rank < shm_groups.size(); ++rank) {
    ++shm_groups.at(rank).mine().header().sleepers;
  }
}

TEST(ShmGroupTest, WhoWaitsForAllIsWokenByTheLast) {
  ShmGroups shm_groups(3);
  AllSleep(shm_groups);
  shm_groups.at(1).Finish(1);
  EXPECT_THAT(Bells(shm_groups), Each(0)) << "two are missing";
  shm_groups.at(2).Finish(1);
  EXPECT_THAT(Bells(shm_groups), ElementsAre(1, 0, 0))
      << "rank 0 may wait for all but itself";
  shm_groups.at(0).Finish(1);
  EXPECT_THAT(Bells(shm_groups), ElementsAre(2, 1, 1));
}

TEST(ShmGroupTest, TheLastWakesThoughItGoesFurtherThanOthers) {
  ShmGroups shm_groups(3);
  AllSleep(shm_groups);
  shm_groups.at(0).Finish(1);
  shm_groups.at(1).Finish(1);
  const std::vector<uint32_t> before = Bells(shm_groups);
  shm_groups.at(2).Finish(2);  // out of order: 1 is not finished
  EXPECT_EQ(Bells(shm_groups), before);
  shm_groups.at(2).Finish(1);  // now both are finished
  EXPECT_THAT(Bells(shm_groups),
              ElementsAre(before[0] + 1, before[1] + 1, before[2] + 1));
}

using Executors = std::vector<std::unique_ptr<CollectiveExecutor>>;

// Every rank runs its own `calls` on its own thread.
Executors RunRanks(
    ShmGroups& shm_groups,
    const std::function<std::vector<CollectiveOp>(int rank)>& calls) {
  Executors executors(shm_groups.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shm_groups.size(); ++rank) {
    threads.emplace_back([&shm_groups, &calls, &executors, rank] {
      executors[rank] = MakeShmExecutor(shm_groups.Take(rank));
      for (const CollectiveOp& call : calls(rank)) {
        EXPECT_EQ(executors[rank]->Execute({&call, 1}), absl::OkStatus());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return executors;
}

// `rounds` of all collectives on `count` elements of `data`, which leave `data`
// unchanged.
std::vector<CollectiveOp> Rounds(int rounds, int ranks, float* data,
                                 float* more, size_t count) {
  std::vector<CollectiveOp> calls;
  const auto add = [&](CollectiveOp call) {
    call.dtype = DType::kF32;
    call.tag = FirstTag(false, calls.size() + 1);
    calls.push_back(std::move(call));
  };
  const size_t part = count / ranks;
  for (int round = 0; round < rounds; ++round) {
    add({.kind = CollectiveKind::kAllReduce,
         .in = data,
         .out = data,
         .count = count,
         .op = ReduceOp::kMean});
    add({.kind = CollectiveKind::kReduceScatter,
         .in = data,
         .out = more,
         .count = part,
         .op = ReduceOp::kMean});
    add({.kind = CollectiveKind::kAllGather,
         .in = more,
         .out = data,
         .count = part});
    add({.kind = CollectiveKind::kBroadcast,
         .out = data,
         .count = count,
         .peer = round % ranks});
    add({.kind = CollectiveKind::kAllToAll,
         .in = data,
         .out = more,
         .count = part});
    add({.kind = CollectiveKind::kBarrier});
  }
  return calls;
}

struct Sizes {
  const char* name;
  size_t count;  // elements
  bool in_arena;
};

class NobodySleepsForEverTest : public testing::TestWithParam<Sizes> {};

TEST_P(NobodySleepsForEverTest, InAnyCollective) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 60;
  const size_t count = GetParam().count;
  ShmGroups shm_groups(kRanks, kSleepsAtOnce);
  std::vector<ArenaBuffer> memory;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto arena = GetParam().in_arena
                           ? MakeSharedArena(shm_groups.registry(rank))
                           : MakePlainArena();
    for (int i = 0; i < 2; ++i) {
      memory.push_back(*arena->Allocate(count * sizeof(float)));
      absl::Span<float> values = memory.back().as<float>();
      std::fill(values.begin(), values.end(), 3.0f);
    }
  }
  RunRanks(shm_groups, [&](int rank) {
    return Rounds(kRounds, kRanks, memory[2 * rank].as<float>().data(),
                  memory[2 * rank + 1].as<float>().data(), count);
  });
  for (ArenaBuffer& buffer : memory) {
    EXPECT_THAT(buffer.as<float>(), Each(3.0f));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, NobodySleepsForEverTest,
                         testing::Values(Sizes{"Small", 64, false},
                                         Sizes{"Staged", 4096, false},
                                         Sizes{"DirectExchange", 4096, true}),
                         [](const auto& info) { return info.param.name; });

TEST(WaitPolicyTest,
     RanksThatShareCoresGiveThemAwayFromTheBeginningAndForLonger) {
  constexpr std::chrono::nanoseconds kCost{10'000};
  const WaitPolicy alone = WaitPolicyFor(2, 2, kCost);
  EXPECT_EQ(alone.looks, kCost);
  EXPECT_EQ(alone.all, 2 * kCost);
  const WaitPolicy oversubscribed = WaitPolicyFor(3, 2, kCost);
  EXPECT_EQ(oversubscribed.looks.count(), 0);
  EXPECT_GT(oversubscribed.all, alone.all);
}

// --- Access to the memory after the group has ended --------------------------

class AfterwardsTest : public testing::Test {
 protected:
  static constexpr size_t kCount = 4096;

  AfterwardsTest() {
    for (int rank = 0; rank < 2; ++rank) {
      memory_.push_back(*MakeSharedArena(boards_.registry(rank))
                             ->Allocate(kCount * sizeof(float)));
    }
  }

  float* data(int rank) { return memory_[rank].as<float>().data(); }
  uint64_t PagesOf(int rank) {
    return boards_.registry(rank)->Find(data(rank), 1).segment->id;
  }
  CollectiveOp Sum(int rank, uint64_t number) {
    return {.kind = CollectiveKind::kAllReduce,
            .in = data(rank),
            .out = data(rank),
            .count = kCount,
            .dtype = DType::kF32,
            .tag = FirstTag(false, number)};
  }

  ShmGroups boards_{2, kSleepsAtOnce};
  std::vector<ArenaBuffer> memory_;
};

TEST_F(AfterwardsTest, WhatHasEndedWellIsNotCopied) {
  const uint64_t pages = PagesOf(0);
  Executors executors = RunRanks(boards_, [&](int rank) {
    return std::vector<CollectiveOp>{Sum(rank, 1)};
  });
  executors[0] = nullptr;  // the other rank lives, and has the memory mapped
  EXPECT_EQ(PagesOf(0), pages);
}

TEST_F(AfterwardsTest, WhatSomebodyMayStillWriteToIsReplaced) {
  const uint64_t pages = PagesOf(0);
  Executors executors = RunRanks(boards_, [&](int rank) {
    return std::vector<CollectiveOp>{Sum(rank, 1)};
  });
  data(0)[7] = 7;
  executors[1]->Shutdown(absl::CancelledError("it has enough"));
  const CollectiveOp alone = Sum(0, 2);
  EXPECT_TRUE(absl::IsUnavailable(executors[0]->Execute({&alone, 1})));
  executors[0] = nullptr;
  EXPECT_NE(PagesOf(0), pages);
  EXPECT_EQ(data(0)[7], 7);
}

// A rank that has just worked begins a new wait, and does not sleep at once.
TEST_F(AfterwardsTest, AWaitThatBeginsIsSaidToHaveMoved) {
  const CollectiveOp calls[] = {Sum(0, 1), Sum(1, 1)};
  const auto first = MakeTask(calls[0], boards_.at(0));
  const auto second = MakeTask(calls[1], boards_.at(1));
  EXPECT_EQ(*first->Advance(), AdvanceResult::kNothing);
  EXPECT_EQ(*second->Advance(), AdvanceResult::kMoved);
  EXPECT_EQ(*second->Advance(), AdvanceResult::kNothing);
  EXPECT_EQ(*first->Advance(), AdvanceResult::kDone);
  EXPECT_EQ(*second->Advance(), AdvanceResult::kDone);
}

// --- Limits of this process --------------------------------------------------

TEST_F(AfterwardsTest, WhoMayOpenNoMoreFilesBlamesNobody) {
  ShmGroup& owner = boards_.at(0);
  const SegmentAddress place =
      owner.exporter().Offer(data(0), 64, owner.others());
  ASSERT_NE(place.segment, 0u);
  SegmentImporter& importer = boards_.at(1).importer(0);
  {
    const FdLimit none(0);
    const absl::Status refused = importer.Resolve(place, 64).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_FALSE(FailedPeer(refused).has_value());
  }
}

}  // namespace
}  // namespace lockstep::transport
