#include "client/state/recovery.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/connected_ranks.h"
#include "tests/client/state/replicated_state.h"
#include "tests/support/forwarding_communicator.h"

namespace lockstep::state {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

plan::RecoveryPlan PlanOf(const ReplicatedState& state,
                          const std::vector<int>& newcomers,
                          const std::vector<int>& healthy,
                          int64_t chunk_bytes) {
  const auto plan = plan::PlanRecovery(state.tensors(), state.mesh(), newcomers,
                                       healthy, chunk_bytes);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(plan::RecoveryPlan{});
}

// What each rank returns.
std::vector<absl::Status> RecoverAll(ReplicatedState* state,
                                     ConnectedRanks* ranks,
                                     const plan::RecoveryPlan& plan,
                                     const RecoveryOptions& options = {}) {
  std::vector<absl::Status> statuses(static_cast<size_t>(ranks->size()));
  ranks->OnEach([&](int rank) {
    HostStream stream("recover");
    statuses[rank] =
        Recover(state->tensors(), plan, state->MemoryOf<void*>(rank),
                ranks->at(rank), stream, options);
  });
  return statuses;
}

void Forget(ReplicatedState* state, int rank) {
  for (size_t t = 0; t < state->tensors().size(); ++t) {
    std::string& bytes = state->at(rank, static_cast<int>(t));
    bytes.assign(bytes.size(), '?');
  }
}

void ExpectComplete(ReplicatedState* state) {
  for (int rank = 0; rank < state->mesh().WorldSize(); ++rank) {
    for (size_t t = 0; t < state->tensors().size(); ++t) {
      EXPECT_EQ(state->at(rank, static_cast<int>(t)),
                state->ContentsOf(state->tensors()[t], rank))
          << "rank " << rank << ", tensor " << t;
    }
  }
}

// Whole on all of `size` ranks: 1000 elements and 3.
ReplicatedState TwoTensors(int size) {
  return ReplicatedState(Mesh{{{"data", size}}},
                         {{.name = "w",
                           .dims = {{.bounds = {0, 100}}, {.bounds = {0, 10}}},
                           .ranks = RanksBelow(size)},
                          {.name = "b",
                           .dtype = DType::kBF16,
                           .dims = {{.bounds = {0, 3}}},
                           .ranks = RanksBelow(size)}});
}

class RecoverTest : public testing::TestWithParam<HostTransport> {};

TEST_P(RecoverTest, NewcomersReceiveAllFromSeveralHolders) {
  for (const int64_t window_bytes : {1, 600, 1 << 20}) {
    ReplicatedState state = TwoTensors(4);
    ConnectedRanks ranks(GetParam(), 4);
    for (const int newcomer : {1, 3}) Forget(&state, newcomer);
    const plan::RecoveryPlan plan = PlanOf(state, {1, 3}, {0, 2}, 256);
    ASSERT_GT(plan.chunks.size(), 30u);
    EXPECT_THAT(RecoverAll(&state, &ranks, plan, {window_bytes}),
                Each(absl::OkStatus()));
    ExpectComplete(&state);
  }
}

TEST_P(RecoverTest, OfOneHolder) {
  ReplicatedState state = TwoTensors(2);
  ConnectedRanks ranks(GetParam(), 2);
  Forget(&state, 0);
  EXPECT_THAT(RecoverAll(&state, &ranks, PlanOf(state, {0}, {1}, 1000), {2000}),
              Each(absl::OkStatus()));
  ExpectComplete(&state);
}

INSTANTIATE_TEST_SUITE_P(Transports, RecoverTest,
                         testing::ValuesIn(HostTransports()),
                         [](const auto& info) {
                           return TransportName(info.param);
                         });

// "w.m" has no second holder, so rank 3 keeps its part of it.
TEST(RecoverBlocksTest, BlocksScalarsAndTensorsOfSomeRanks) {
  ReplicatedState state = SmallState();
  std::vector<plan::StateTensor> tensors = state.tensors();
  tensors.erase(tensors.begin() + 1);
  ReplicatedState whole(state.mesh(), tensors);
  ConnectedRanks ranks(HostTransport::kInproc, 4);
  Forget(&whole, 3);
  EXPECT_THAT(RecoverAll(&whole, &ranks, PlanOf(whole, {3}, {0, 1, 2}, 32)),
              Each(absl::OkStatus()));
  ExpectComplete(&whole);
}

// A holder whose memory changed is found by the hashes of the others, and the
// others send in its place.
TEST(RecoverErrorTest, AHolderThatHasOtherBytesIsReplaced) {
  ReplicatedState state = TwoTensors(4);
  ConnectedRanks ranks(HostTransport::kInproc, 4);
  Forget(&state, 3);
  for (size_t i = 0; i < 4000; i += 100) state.at(0, 0)[i] ^= 1;
  const plan::RecoveryPlan plan = PlanOf(state, {3}, {0, 1, 2}, 100);
  EXPECT_THAT(RecoverAll(&state, &ranks, plan), Each(absl::OkStatus()));
  EXPECT_EQ(state.at(3, 0), state.ContentsOf(state.tensors()[0], 3));
}

TEST(RecoverErrorTest, WithoutTwoEqualHoldersItIsDataLossOnAllRanks) {
  ReplicatedState state = TwoTensors(3);
  ConnectedRanks ranks(HostTransport::kInproc, 3);
  Forget(&state, 0);
  state.at(1, 0)[2050] ^= 1;
  const plan::RecoveryPlan plan = PlanOf(state, {0}, {1, 2}, 100);
  const auto statuses = RecoverAll(&state, &ranks, plan);
  EXPECT_THAT(statuses, Each(statuses[0]));
  EXPECT_TRUE(absl::IsDataLoss(statuses[0])) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("tensor \"w\" (elements 500 to 525) for rank 0"),
                    HasSubstr("ranks 1-2"), testing::Not(HasSubstr("\"b\""))));
}

// Flips a bit of the first bytes that are received, `times` times.
class NoisyCommunicator final : public ForwardingCommunicator {
 public:
  NoisyCommunicator(std::unique_ptr<Communicator> inner, int times)
      : ForwardingCommunicator(std::move(inner)), times_(times) {}

  absl::Status Recv(void* buffer, size_t count, DType dtype, int peer,
                    Stream& stream) override {
    if (count > sizeof(uint64_t)) received_.push_back(buffer);
    return ForwardingCommunicator::Recv(buffer, count, dtype, peer, stream);
  }
  absl::Status Group(absl::FunctionRef<absl::Status()> body) override {
    absl::Status status = ForwardingCommunicator::Group(body);
    if (received_.empty() || times_ == 0) return status;
    --times_;
    stream_->Enqueue([byte = static_cast<char*>(received_.front())] {
      *byte = static_cast<char>(*byte ^ 1);
      return absl::OkStatus();
    });
    received_.clear();
    return status;
  }
  void set_stream(HostStream* stream) { stream_ = stream; }

 private:
  int times_;
  std::vector<void*> received_;
  HostStream* stream_ = nullptr;
};

TEST(RecoverErrorTest, AChunkThatIsDamagedOnTheWayIsSentAgain) {
  for (const int times : {1, 2}) {
    ReplicatedState state = TwoTensors(3);
    ConnectedRanks ranks(HostTransport::kInproc, 3);
    Forget(&state, 2);
    HostStream streams[3];
    ranks.Wrap(2, [&](std::unique_ptr<Communicator> inner) {
      auto noisy = std::make_unique<NoisyCommunicator>(std::move(inner), times);
      noisy->set_stream(&streams[2]);
      return noisy;
    });
    const plan::RecoveryPlan plan = PlanOf(state, {2}, {0, 1}, 1 << 20);
    ranks.OnEach([&](int rank) {
      const absl::Status status =
          Recover(state.tensors(), plan, state.MemoryOf<void*>(rank),
                  ranks.at(rank), streams[rank], {});
      // Two holders are two attempts.
      EXPECT_EQ(absl::IsDataLoss(status), times == 2) << status;
      EXPECT_EQ(status.ok(), times == 1) << status;
    });
    if (times == 1) ExpectComplete(&state);
  }
}

TEST(RecoverErrorTest, AnAbortedGroupEndsAllRanks) {
  ReplicatedState state = TwoTensors(3);
  ConnectedRanks ranks(HostTransport::kInproc, 3);
  const plan::RecoveryPlan plan = PlanOf(state, {2}, {0, 1}, 64);
  std::vector<absl::Status> statuses(3);
  ranks.OnEach([&](int rank) {
    HostStream stream("recover");
    if (rank == 1) {
      ranks.at(1).Abort("test");
      return;
    }
    statuses[rank] = Recover(state.tensors(), plan, state.MemoryOf<void*>(rank),
                             ranks.at(rank), stream, {});
  });
  for (const int rank : {0, 2}) EXPECT_FALSE(statuses[rank].ok()) << rank;
}

// Also on ranks that neither send nor receive: nobody waits.
TEST(RecoverErrorTest, MissingMemoryIsNamedOnAllRanks) {
  ReplicatedState state = TwoTensors(4);
  ConnectedRanks ranks(HostTransport::kInproc, 4);
  const plan::RecoveryPlan plan = PlanOf(state, {0}, {1, 2}, 1000);
  std::vector<absl::Status> statuses(4);
  ranks.OnEach([&](int rank) {
    std::vector<void*> memory = state.MemoryOf<void*>(rank);
    if (rank > 0) memory[1] = nullptr;
    HostStream stream("recover");
    statuses[rank] =
        Recover(state.tensors(), plan, memory, ranks.at(rank), stream);
  });
  EXPECT_THAT(
      statuses,
      Each(absl::InvalidArgumentError("tensor \"b\" of rank 1 has no memory")));
}

TEST(RecoverErrorTest, DifferentPlansAreRefusedByAll) {
  ReplicatedState state = TwoTensors(3);
  ConnectedRanks ranks(HostTransport::kInproc, 3);
  std::vector<absl::Status> statuses(3);
  ranks.OnEach([&](int rank) {
    const bool other = rank == 1;
    const plan::RecoveryPlan plan = other ? PlanOf(state, {1}, {0, 2}, 100)
                                          : PlanOf(state, {0}, {1, 2}, 100);
    HostStream stream("recover");
    statuses[rank] = Recover(state.tensors(), plan, state.MemoryOf<void*>(rank),
                             ranks.at(rank), stream);
  });
  EXPECT_THAT(statuses, Each(statuses[0]));
  EXPECT_TRUE(absl::IsInvalidArgument(statuses[0])) << statuses[0];
  ExpectComplete(&state);
}

}  // namespace
}  // namespace lockstep::state
