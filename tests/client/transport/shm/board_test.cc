// Who is woken when: boards of one process, whose ranks never look twice before
// they sleep, and sleep until they are woken.

#include "client/transport/shm/board.h"

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/blame.h"
#include "client/transport/call.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_executor.h"
#include "client/transport/shm/task.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/shm/boards.h"
#include "tests/support/few_files.h"

namespace lockstep::transport {
namespace {

using testing::Each;
using testing::ElementsAre;

// A wake-up that is lost shows as a test that does not end.
constexpr Patience kSleepsAtOnce{.looks = std::chrono::nanoseconds(0),
                                 .all = std::chrono::nanoseconds(0),
                                 .nap = std::chrono::hours(1)};

// How often each rank's bell has been rung.
std::vector<uint32_t> Bells(Boards& boards) {
  std::vector<uint32_t> bells;
  for (int rank = 0; rank < boards.size(); ++rank) {
    bells.push_back(boards.at(rank).mine().header().bell);
  }
  return bells;
}

void AllSleep(Boards& boards) {
  for (int rank = 0; rank < boards.size(); ++rank) {
    ++boards.at(rank).mine().header().sleepers;
  }
}

TEST(BoardTest, WhoWaitsForAllIsWokenByTheLast) {
  Boards boards(3);
  AllSleep(boards);
  boards.at(1).Finish(1);
  EXPECT_THAT(Bells(boards), Each(0)) << "two are missing";
  boards.at(2).Finish(1);
  EXPECT_THAT(Bells(boards), ElementsAre(1, 0, 0))
      << "rank 0 may wait for all but itself";
  boards.at(0).Finish(1);
  EXPECT_THAT(Bells(boards), ElementsAre(2, 1, 1));
}

TEST(BoardTest, TheLastWakesThoughItGoesFurtherThanOthers) {
  Boards boards(3);
  AllSleep(boards);
  boards.at(0).Finish(1);
  boards.at(1).Finish(1);
  const std::vector<uint32_t> before = Bells(boards);
  boards.at(2).Finish(2);  // out of order: 1 is not finished
  EXPECT_EQ(Bells(boards), before);
  boards.at(2).Finish(1);  // both are
  EXPECT_THAT(Bells(boards),
              ElementsAre(before[0] + 1, before[1] + 1, before[2] + 1));
}

using Executors = std::vector<std::unique_ptr<Executor>>;

// Every rank runs `calls` of its own, on a thread of its own.
Executors RunRanks(Boards& boards,
                   const std::function<std::vector<Call>(int rank)>& calls) {
  Executors executors(boards.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < boards.size(); ++rank) {
    threads.emplace_back([&boards, &calls, &executors, rank] {
      executors[rank] = MakeShmExecutor(boards.Take(rank));
      for (const Call& call : calls(rank)) {
        EXPECT_EQ(executors[rank]->Execute({&call, 1}), absl::OkStatus());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return executors;
}

// `rounds` of all collectives on `count` elements of `data`, which end as they
// began.
std::vector<Call> Rounds(int rounds, int ranks, float* data, float* more,
                         size_t count) {
  std::vector<Call> calls;
  const auto add = [&](Call call) {
    call.dtype = DType::kF32;
    call.tag = FirstTag(false, calls.size() + 1);
    calls.push_back(std::move(call));
  };
  const size_t part = count / ranks;
  for (int round = 0; round < rounds; ++round) {
    add({.kind = CallKind::kAllReduce,
         .in = data,
         .out = data,
         .count = count,
         .op = ReduceOp::kMean});
    add({.kind = CallKind::kReduceScatter,
         .in = data,
         .out = more,
         .count = part,
         .op = ReduceOp::kMean});
    add({.kind = CallKind::kAllGather, .in = more, .out = data, .count = part});
    add({.kind = CallKind::kBroadcast,
         .out = data,
         .count = count,
         .peer = round % ranks});
    add({.kind = CallKind::kAllToAll, .in = data, .out = more, .count = part});
    add({.kind = CallKind::kBarrier});
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
  Boards boards(kRanks, kSleepsAtOnce);
  std::vector<ArenaBuffer> memory;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto arena = GetParam().in_arena ? MakeSharedArena(boards.book(rank))
                                           : MakePlainArena();
    for (int i = 0; i < 2; ++i) {
      memory.push_back(*arena->Allocate(count * sizeof(float)));
      absl::Span<float> values = memory.back().as<float>();
      std::fill(values.begin(), values.end(), 3.0f);
    }
  }
  RunRanks(boards, [&](int rank) {
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
                                         Sizes{"Direct", 4096, true}),
                         [](const auto& info) { return info.param.name; });

TEST(PatienceTest,
     RanksThatShareCoresGiveThemAwayFromTheBeginningAndForLonger) {
  constexpr std::chrono::nanoseconds kCost{10'000};
  const Patience alone = PatienceOf(2, 2, kCost);
  EXPECT_EQ(alone.looks, kCost);
  EXPECT_EQ(alone.all, 2 * kCost);
  const Patience crowded = PatienceOf(3, 2, kCost);
  EXPECT_EQ(crowded.looks.count(), 0);
  EXPECT_GT(crowded.all, alone.all);
}

// --- Whose memory it is afterwards -------------------------------------------

class AfterwardsTest : public testing::Test {
 protected:
  static constexpr size_t kCount = 4096;

  AfterwardsTest() {
    for (int rank = 0; rank < 2; ++rank) {
      memory_.push_back(*MakeSharedArena(boards_.book(rank))
                             ->Allocate(kCount * sizeof(float)));
    }
  }

  float* data(int rank) { return memory_[rank].as<float>().data(); }
  uint64_t PagesOf(int rank) {
    return boards_.book(rank)->Find(data(rank), 1).segment->id;
  }
  Call Sum(int rank, uint64_t number) {
    return {.kind = CallKind::kAllReduce,
            .in = data(rank),
            .out = data(rank),
            .count = kCount,
            .dtype = DType::kF32,
            .tag = FirstTag(false, number)};
  }

  Boards boards_{2, kSleepsAtOnce};
  std::vector<ArenaBuffer> memory_;
};

TEST_F(AfterwardsTest, WhatHasEndedWellIsNotCopied) {
  const uint64_t pages = PagesOf(0);
  Executors executors = RunRanks(
      boards_, [&](int rank) { return std::vector<Call>{Sum(rank, 1)}; });
  executors[0] = nullptr;  // the other lives, and has it mapped
  EXPECT_EQ(PagesOf(0), pages);
}

TEST_F(AfterwardsTest, WhatSomebodyMayStillWriteToIsReplaced) {
  const uint64_t pages = PagesOf(0);
  Executors executors = RunRanks(
      boards_, [&](int rank) { return std::vector<Call>{Sum(rank, 1)}; });
  data(0)[7] = 7;
  executors[1]->Cut(absl::CancelledError("it has enough"));
  const Call alone = Sum(0, 2);
  EXPECT_TRUE(absl::IsUnavailable(executors[0]->Execute({&alone, 1})));
  executors[0] = nullptr;
  EXPECT_NE(PagesOf(0), pages);
  EXPECT_EQ(data(0)[7], 7);
}

// Who has just worked has not waited since it came, and does not sleep as soon.
TEST_F(AfterwardsTest, AWaitThatBeginsIsSaidToHaveMoved) {
  const Call calls[] = {Sum(0, 1), Sum(1, 1)};
  const auto first = MakeTask(calls[0], boards_.at(0));
  const auto second = MakeTask(calls[1], boards_.at(1));
  EXPECT_EQ(*first->Advance(), Progress::kNothing);
  EXPECT_EQ(*second->Advance(), Progress::kMoved);
  EXPECT_EQ(*second->Advance(), Progress::kNothing);
  EXPECT_EQ(*first->Advance(), Progress::kDone);
  EXPECT_EQ(*second->Advance(), Progress::kDone);
}

// --- Limits of this process --------------------------------------------------

TEST_F(AfterwardsTest, WhoMayOpenNoMoreFilesBlamesNobody) {
  Board& owner = boards_.at(0);
  const Place place = owner.lending().Offer(data(0), 64, owner.others());
  ASSERT_NE(place.segment, 0u);
  Borrowing& borrowing = boards_.at(1).borrowing(0);
  {
    const FewFiles none(0);
    const absl::Status refused = borrowing.Resolve(place, 64).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_FALSE(BlamedRank(refused).has_value());
  }
}

}  // namespace
}  // namespace lockstep::transport
