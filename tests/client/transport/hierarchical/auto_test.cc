// The choice of `transport: auto`, which is identical on all ranks.

#include "client/transport/hierarchical/auto.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/transport/extended_collectives.h"
#include "client/transport/failed_peer.h"
#include "client/transport/hierarchical/agreement.h"
#include "client/transport/shm/control_block.h"
#include "client/transport/shm/shm.h"
#include "gtest/gtest.h"
#include "plan/pairs.h"
#include "tests/client/transport/hierarchical/pretended_hosts.h"
#include "tests/support/inproc/inproc.h"
#include "tests/support/inproc/local_exchange.h"

namespace lockstep::transport {
namespace {

struct Member {
  std::unique_ptr<PendingGroup> pending;
  absl::Status status;
  std::unique_ptr<Communicator> comm;
};

// The members of one group, connected or not.
std::vector<Member> ConnectAll(conformance::World& world, int size,
                               std::vector<std::string> handles = {}) {
  std::vector<Member> members(size);
  const bool own = handles.empty();
  for (int rank = 0; rank < size; ++rank) {
    members[rank].pending =
        *world.at(rank).Prepare({.name = "g", .rank = rank, .size = size});
    if (own) handles.push_back(members[rank].pending->handle());
  }
  std::vector<std::thread> threads;
  for (Member& member : members) {
    threads.emplace_back([&] {
      auto comm = member.pending->Connect(handles, absl::Seconds(60));
      member.status = comm.status();
      if (comm.ok()) member.comm = *std::move(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return members;
}

TEST(AutoTest, ChoosesByWhereTheRanksRun) {
  for (auto [hosts, transport] : {std::pair("a", "shm"),
                                  {"aaa", "shm"},
                                  {"abc", "inproc"},
                                  {"aab", "hierarchical"},
                                  {"aba", "hierarchical"}}) {
    PretendedHostsInProcess world(hosts);
    const int size = static_cast<int>(std::string(hosts).size());
    for (const Member& member : ConnectAll(world, size)) {
      ASSERT_TRUE(member.status.ok()) << member.status;
      EXPECT_EQ(member.comm->transport(), transport) << hosts;
      EXPECT_FALSE(member.pending->choice().empty());
    }
  }
}

// The facts that the coordinator gets before a group is connected match the
// group's capabilities.
TEST(AutoTest, TellsWhichGroupsWillSumInPairs) {
  for (const std::string hosts : {"a", "aa", "ab", "aaa", "abc", "aaaa", "abcd",
                                  "aaab", "aabb", "abab"}) {
    PretendedHostsInProcess world(hosts);
    const int size = static_cast<int>(hosts.size());
    std::vector<TransportFacts> told;
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) {
      told.push_back(world.at(rank).facts());
      ranks.push_back(rank);
    }
    for (const Member& member : ConnectAll(world, size)) {
      ASSERT_TRUE(member.status.ok()) << member.status;
      EXPECT_EQ(SumsInPairs(*member.comm), plan::SumsInPairs(told, ranks))
          << hosts;
    }
  }
}

// `lockstepctl plan compile` has no transports to query.
TEST(AutoTest, ASpecAloneIsTakenForWhatItsTransportTells) {
  InprocHub hub;
  for (auto& [name, told] :
       {std::pair("auto", MakeAutoTransport(MakeInprocLinks(&hub))->facts()),
        std::pair("gloo", MakeInprocTransport(&hub)->facts()),
        std::pair("shm", MakeShmTransport()->facts())}) {
    TransportFacts assumed = plan::AssumedTransports(
        {.mesh = {{{"data", 1}}}, .transport = name})[0];
    assumed.place = told.place;
    EXPECT_EQ(assumed, told) << name;
  }
}

// More ranks than shared memory connects: all ranks agree to do without it.
TEST(AutoTest, DoesWithoutSharedMemoryWhereItCannotBeHad) {
  PretendedHostsInProcess world(std::string(kRanksMax + 1, 'a') + "b");
  for (const Member& member : ConnectAll(world, kRanksMax + 2)) {
    ASSERT_TRUE(member.status.ok()) << member.status;
    EXPECT_EQ(member.comm->transport(), "inproc");
    EXPECT_TRUE(absl::StrContains(member.pending->choice(), "at most"))
        << member.pending->choice();
  }
}

TEST(AutoTest, RefusesHandlesThatAreNone) {
  PretendedHostsInProcess world("ab");
  for (const std::string& bad :
       {std::string("nonsense"), std::string("auto1 nonsense"),
        std::string("auto1 shm1 1 2 boot net socket 1f"),
        std::string("auto1 shm1 1 2 boot net socket 1f + nonsense")}) {
    auto first = *world.at(0).Prepare({.name = "g", .rank = 0, .size = 2});
    const absl::Status refused =
        first->Connect({first->handle(), bad}, absl::Seconds(60)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << bad << ": " << refused;
    EXPECT_EQ(FailedPeer(refused), 1);
  }
}

TEST(AutoTest, AbortEndsConnecting) {
  for (const char* hosts : {"aa", "ab"}) {
    PretendedHostsInProcess world(hosts);
    auto first = *world.at(0).Prepare({.name = "g", .rank = 0, .size = 2});
    auto second = *world.at(1).Prepare({.name = "g", .rank = 1, .size = 2});
    std::thread aborter([&] { first->Abort("enough"); });
    EXPECT_EQ(first
                  ->Connect({first->handle(), second->handle()},
                            absl::InfiniteDuration())
                  .status(),
              absl::AbortedError("enough"));
    aborter.join();
  }
}

// Rank 1 has no connection to rank 2 on which it waits; it learns of the loss
// from rank 0, through shared memory.
TEST(AutoTest, ALossOnAnotherHostIsNamedToAll) {
  for (size_t count : {10, 100'000}) {
    PretendedHostsInProcess world("aab");
    std::vector<Member> members = ConnectAll(world, 3);
    members[2].comm = nullptr;
    std::vector<std::thread> threads;
    for (int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        std::vector<float> values(count);
        HostStream stream;
        ASSERT_TRUE(members[rank]
                        .comm
                        ->AllReduce(values.data(), values.data(), count,
                                    DType::kF32, ReduceOp::kSum, stream)
                        .ok());
        const absl::Status ended = stream.Synchronize();
        EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
        EXPECT_EQ(FailedPeer(ended), 2) << ended;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// --- The vote ---------------------------------------------------------------

std::vector<absl::StatusOr<std::string>> Vote(
    const std::vector<absl::Status>& votes) {
  const int size = static_cast<int>(votes.size());
  const auto exchange = std::make_shared<LocalExchange>(size);
  std::vector<absl::StatusOr<std::string>> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto link = MakeInprocLink(exchange, rank, size);
      results[rank] = Agree(*link, votes[rank], Deadline(absl::Seconds(60)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(AgreementTest, IsOnlyIfAllSayYes) {
  for (const auto& result : Vote(std::vector<absl::Status>(4))) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, "");
  }
}

TEST(AgreementTest, TellsAllWhoHasAReasonOfItsOwn) {
  const auto results =
      Vote({WithFailedPeer(absl::UnavailableError("rank 2 left"), 2),
            absl::OkStatus(), absl::ResourceExhaustedError("no memory"),
            absl::ResourceExhaustedError(std::string(1000, 'x'))});
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, "rank 2: no memory");
  }
}

TEST(AgreementTest, DoesNotWaitForever) {
  const auto exchange = std::make_shared<LocalExchange>(2);
  const auto link = MakeInprocLink(exchange, 0, 2);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Agree(*link, absl::OkStatus(), Deadline(absl::Milliseconds(10)))
          .status()));
  const auto other = MakeInprocLink(exchange, 1, 2);
  link->Shutdown(0);
  EXPECT_TRUE(absl::IsUnavailable(
      Agree(*other, absl::OkStatus(), Deadline(absl::Seconds(60))).status()));
}

}  // namespace
}  // namespace lockstep::transport
