// Who is woken when: boards of one process, whose ranks never look twice before
// they sleep, and sleep until they are woken.

#include "client/transport/shm/board.h"

#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "client/transport/call.h"
#include "client/transport/shm/shared_arena.h"
#include "client/transport/shm/shm_executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using testing::Each;
using testing::ElementsAre;

// A wake-up that is lost shows as a test that does not end.
constexpr Patience kSleepsAtOnce{.looks = std::chrono::nanoseconds(0),
                                 .all = std::chrono::nanoseconds(0),
                                 .nap = std::chrono::hours(1)};

class Boards {
 public:
  explicit Boards(int size) : size_(size) {
    const Seat::Shape shape{.size = size,
                            .chunk_bytes = 64 * static_cast<size_t>(size),
                            .block_bytes = 64};
    for (int rank = 0; rank < size; ++rank) {
      memory_.push_back(*Segment::Create(Seat::Bytes(shape), "a seat"));
    }
    std::vector<std::vector<Peer>> peers(size);
    for (int rank = 0; rank < size; ++rank) {
      for (Segment& memory : memory_) peers[rank].push_back(Map(memory, shape));
      for (int other = 0; other < rank; ++other) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends),
                  0);
        peers[rank][other].socket = FileDescriptor(ends[0]);
        peers[other][rank].socket = FileDescriptor(ends[1]);
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      books_.push_back(std::make_shared<ArenaBook>());
      boards_.push_back(std::make_unique<Board>(Roster{.rank = rank},
                                                std::move(peers[rank]),
                                                books_.back(), kSleepsAtOnce));
    }
  }

  int size() const { return size_; }
  Board& at(int rank) { return *boards_[rank]; }
  std::unique_ptr<Board> Take(int rank) { return std::move(boards_[rank]); }
  std::shared_ptr<ArenaBook> book(int rank) { return books_[rank]; }

  // How often each rank's bell has been rung.
  std::vector<uint32_t> Bells() {
    std::vector<uint32_t> bells;
    for (const auto& board : boards_) {
      bells.push_back(board->mine().header().bell);
    }
    return bells;
  }
  void AllSleep() {
    for (const auto& board : boards_) ++board->mine().header().sleepers;
  }

 private:
  static Peer Map(const Segment& memory, const Seat::Shape& shape) {
    Peer peer;
    peer.memory =
        *Segment::Map(FileDescriptor(dup(memory.fd())), Seat::Bytes(shape));
    peer.seat = Seat(peer.memory.data(), shape);
    return peer;
  }

  const int size_;
  std::vector<Segment> memory_;
  std::vector<std::shared_ptr<ArenaBook>> books_;
  std::vector<std::unique_ptr<Board>> boards_;
};

TEST(BoardTest, WhoWaitsForAllIsWokenByTheLast) {
  Boards boards(3);
  boards.AllSleep();
  boards.at(1).Finish(1);
  EXPECT_THAT(boards.Bells(), Each(0)) << "two are missing";
  boards.at(2).Finish(1);
  EXPECT_THAT(boards.Bells(), ElementsAre(1, 0, 0))
      << "rank 0 may wait for all but itself";
  boards.at(0).Finish(1);
  EXPECT_THAT(boards.Bells(), ElementsAre(2, 1, 1));
}

TEST(BoardTest, TheLastWakesThoughItGoesFurtherThanOthers) {
  Boards boards(3);
  boards.AllSleep();
  boards.at(0).Finish(1);
  boards.at(1).Finish(1);
  const std::vector<uint32_t> before = boards.Bells();
  boards.at(2).Finish(2);  // out of order: 1 is not finished
  EXPECT_EQ(boards.Bells(), before);
  boards.at(2).Finish(1);  // both are
  EXPECT_THAT(boards.Bells(),
              ElementsAre(before[0] + 1, before[1] + 1, before[2] + 1));
}

// Every rank runs `calls` of its own, on a thread of its own.
void RunRanks(Boards& boards,
              const std::function<std::vector<Call>(int rank)>& calls) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < boards.size(); ++rank) {
    threads.emplace_back([&boards, &calls, rank] {
      const auto executor = MakeShmExecutor(boards.Take(rank));
      for (const Call& call : calls(rank)) {
        EXPECT_EQ(executor->Execute({call}), absl::OkStatus());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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
  Boards boards(kRanks);
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

}  // namespace
}  // namespace lockstep::transport
