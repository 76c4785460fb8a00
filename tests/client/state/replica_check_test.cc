#include "client/state/replica_check.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/connected_ranks.h"
#include "tests/client/state/replicated_state.h"

namespace lockstep::state {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

ReplicaCheck CheckOf(ReplicatedState* state, int rank) {
  return {state->tensors(), state->mesh(), state->MemoryOf<const void*>(rank)};
}

// The report, which must be the same on all ranks.
ReplicaReport CompareAll(ReplicatedState* state, ConnectedRanks* ranks) {
  std::vector<ReplicaReport> reports(static_cast<size_t>(ranks->size()));
  ranks->OnEach([&](int rank) {
    HostStream stream("compare", HostStream::Execution::kInline);
    auto report = CheckOf(state, rank).Compare(ranks->at(rank), stream);
    EXPECT_TRUE(report.ok()) << report.status();
    if (report.ok()) reports[rank] = *std::move(report);
  });
  for (const ReplicaReport& report : reports) EXPECT_EQ(report, reports[0]);
  return reports[0];
}

// Whole on all of `size` ranks.
ReplicatedState WholeTensors(int size, int tensors) {
  std::vector<plan::StateTensor> all;
  for (int i = 0; i < tensors; ++i) {
    all.push_back({.name = absl::StrCat("t", i),
                   .dims = {{.bounds = {0, 100}}},
                   .ranks = RanksBelow(size)});
  }
  return ReplicatedState(Mesh{{{"data", size}}}, all);
}

class ReplicaCheckTest : public testing::TestWithParam<HostTransport> {};

TEST_P(ReplicaCheckTest, AFlippedBitIsNamedByRankAndTensor) {
  ReplicatedState state = WholeTensors(4, 3);
  ConnectedRanks ranks(GetParam(), 4);
  EXPECT_THAT(CompareAll(&state, &ranks).faults, IsEmpty());
  for (int rank = 0; rank < 4; ++rank) {
    for (int bit = 0; bit < 8; ++bit) {
      char& byte = state.at(rank, 1)[static_cast<size_t>(rank * 97 + bit)];
      byte = static_cast<char>(byte ^ (1 << bit));
      const ReplicaReport report = CompareAll(&state, &ranks);
      EXPECT_THAT(report.faults, ElementsAre(ReplicaFault{
                                     "t1", 0, 100, RanksBelow(4), {rank}}));
      byte = static_cast<char>(byte ^ (1 << bit));
    }
  }
  EXPECT_THAT(CompareAll(&state, &ranks).faults, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Transports, ReplicaCheckTest,
                         testing::ValuesIn(HostTransports()),
                         [](const auto& info) {
                           return TransportName(info.param);
                         });

// Ranks 0 and 2 hold one block of "w", ranks 1 and 3 the other one; nobody
// holds a second copy of "w.m".
TEST(ReplicaCheckOfBlocksTest, OnlyRanksThatHoldTheSameAreCompared) {
  ReplicatedState state = SmallState();
  ConnectedRanks ranks(HostTransport::kInproc, 4);
  EXPECT_THAT(CompareAll(&state, &ranks).faults, IsEmpty());
  state.at(2, 0).back() ^= 1;
  state.at(1, 1).back() ^= 1;
  state.at(3, 3).front() ^= 1;
  EXPECT_THAT(CompareAll(&state, &ranks).faults,
              ElementsAre(ReplicaFault{"w", 0, 25, {0, 2}, {0, 2}},
                          ReplicaFault{"head", 0, 3, {1, 3}, {1, 3}}));
}

TEST(ReplicaCheckOfBlocksTest, WithoutAMajorityAllHoldersAreNamed) {
  ReplicatedState state = WholeTensors(4, 1);
  ConnectedRanks ranks(HostTransport::kInproc, 4);
  state.at(0, 0)[0] ^= 1;
  state.at(1, 0)[0] ^= 1;  // two and two
  EXPECT_THAT(CompareAll(&state, &ranks).faults[0].suspects,
              ElementsAre(0, 1, 2, 3));
  state.at(0, 0)[0] ^= 2;  // two are equal, which is no majority of four
  EXPECT_THAT(CompareAll(&state, &ranks).faults[0].suspects,
              ElementsAre(0, 1, 2, 3));
  state.at(0, 0)[0] ^= 3;
  EXPECT_THAT(CompareAll(&state, &ranks).faults[0].suspects, ElementsAre(1));
}

TEST(ReplicaCheckOfBlocksTest, ManyFaultsAreCounted) {
  ReplicatedState state = WholeTensors(3, 20);
  ConnectedRanks ranks(HostTransport::kInproc, 3);
  for (int tensor = 0; tensor < 20; ++tensor) state.at(1, tensor)[0] ^= 1;
  const ReplicaReport report = CompareAll(&state, &ranks);
  EXPECT_THAT(report.faults, SizeIs(kReplicaFaultsMax));
  EXPECT_EQ(report.faults_more, 4);
}

TEST(ReplicaCheckOfBlocksTest, TheErrorNamesTensorElementsAndRanks) {
  ReplicatedState state = WholeTensors(3, 2);
  ConnectedRanks ranks(HostTransport::kInproc, 3);
  state.at(2, 1)[5] ^= 4;
  ranks.OnEach([&](int rank) {
    HostStream stream("compare", HostStream::Execution::kInline);
    const absl::Status differs =
        CheckOf(&state, rank).Check(ranks.at(rank), stream);
    EXPECT_TRUE(absl::IsDataLoss(differs));
    EXPECT_THAT(std::string(differs.message()),
                AllOf(HasSubstr("tensor \"t1\" of rank 2 (elements 0 to 100 "),
                      HasSubstr("ranks 0-2"), Not(HasSubstr("t0"))));
  });
}

TEST(ReplicaCheckOfBlocksTest, RefusesAnotherGroup) {
  ReplicatedState state = WholeTensors(3, 1);
  ConnectedRanks ranks(HostTransport::kInproc, 2);
  HostStream stream("compare", HostStream::Execution::kInline);
  EXPECT_TRUE(absl::IsInvalidArgument(
      CheckOf(&state, 0).Compare(ranks.at(0), stream).status()));
}

TEST(ReplicaCheckOfBlocksTest, MissingMemoryIsNamedOnAllRanks) {
  ReplicatedState state = WholeTensors(3, 2);
  ConnectedRanks ranks(HostTransport::kInproc, 3);
  std::vector<absl::Status> statuses(3);
  ranks.OnEach([&](int rank) {
    std::vector<const void*> memory = state.MemoryOf<const void*>(rank);
    if (rank == 1) memory[1] = nullptr;
    HostStream stream("compare", HostStream::Execution::kInline);
    statuses[rank] = ReplicaCheck(state.tensors(), state.mesh(), memory)
                         .Check(ranks.at(rank), stream);
  });
  EXPECT_THAT(statuses, Each(absl::InvalidArgumentError(
                            "tensor \"t1\" of rank 1 has no memory")));
}

}  // namespace
}  // namespace lockstep::state
