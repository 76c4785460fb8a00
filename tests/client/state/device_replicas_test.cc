// Replicas of state in device memory, on fake GPUs: compared, and recovered.

#include "tests/client/state/device_replicas.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/content_hash.h"
#include "client/state/device_hashes.h"
#include "client/state/recovery.h"
#include "client/state/replica_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::state {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kSeeds = 6;

// Whole on all of `size` ranks: "w" and "m" on the device, "b" on the host.
ReplicatedState ThreeTensors(int size) {
  const auto whole = [size](std::string name, DType dtype, int64_t count) {
    return plan::StateTensor{.name = std::move(name),
                             .dtype = dtype,
                             .dims = {{.bounds = {0, count}}},
                             .ranks = RanksBelow(size)};
  };
  return ReplicatedState(
      Mesh{{{"data", size}}},
      {whole("w", DType::kF32, 1000), whole("b", DType::kBF16, 77),
       whole("m", DType::kF64, 300)});
}

plan::RecoveryPlan PlanFor(const ReplicatedState& state,
                           const std::vector<int>& newcomers,
                           int64_t chunk_bytes) {
  std::vector<int> healthy;
  for (int rank = 0; rank < state.mesh().WorldSize(); ++rank) {
    if (!std::binary_search(newcomers.begin(), newcomers.end(), rank)) {
      healthy.push_back(rank);
    }
  }
  const auto plan = plan::PlanRecovery(state.tensors(), state.mesh(), newcomers,
                                       healthy, chunk_bytes);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(plan::RecoveryPlan{});
}

std::vector<absl::Status> RecoverAll(const ReplicatedState& state,
                                     DeviceReplicas* ranks,
                                     const plan::RecoveryPlan& plan,
                                     int64_t window_bytes = 2000) {
  return ranks->OnEach([&](int rank) {
    return Recover(state.tensors(), plan, ranks->MemoryOf<void*>(rank),
                   ranks->comm(rank), ranks->stream(rank),
                   {.window_bytes = window_bytes, .wire = ranks->wire(rank)});
  });
}

std::vector<absl::Status> CheckAll(const ReplicatedState& state,
                                   DeviceReplicas* ranks) {
  return ranks->OnEach([&](int rank) {
    return ReplicaCheck(state.tensors(), state.mesh(),
                        ranks->MemoryOf<const void*>(rank), ranks->wire(rank))
        .Check(ranks->comm(rank), ranks->stream(rank));
  });
}

void ExpectRankComplete(const ReplicatedState& state, DeviceReplicas* ranks,
                        int rank) {
  for (size_t t = 0; t < state.tensors().size(); ++t) {
    EXPECT_EQ(ranks->Read(rank, t), state.ContentsOf(state.tensors()[t], rank))
        << "rank " << rank << ", tensor " << t;
  }
}

void ExpectAllComplete(const ReplicatedState& state, DeviceReplicas* ranks) {
  for (int rank = 0; rank < ranks->size(); ++rank) {
    ExpectRankComplete(state, ranks, rank);
  }
}

// --- Comparing ---

TEST(DeviceReplicaCheckTest, AFlippedBitIsNamedByRankAndTensor) {
  const ReplicatedState state = ThreeTensors(3);
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    DeviceReplicas ranks(state, seed);
    EXPECT_THAT(CheckAll(state, &ranks), Each(absl::OkStatus()));
    const size_t tensor = seed % 3;  // tensor 1 is on the host
    const int rank = static_cast<int>(seed / 3);
    ranks.Flip(rank, tensor, 100 + seed);
    const auto statuses = CheckAll(state, &ranks);
    EXPECT_THAT(statuses, Each(statuses[0]));
    EXPECT_TRUE(absl::IsDataLoss(statuses[0])) << statuses[0];
    EXPECT_THAT(
        std::string(statuses[0].message()),
        HasSubstr(absl::StrCat("tensor \"", state.tensors()[tensor].name,
                               "\" of rank ", rank, " ")));
    ranks.Flip(rank, tensor, 100 + seed);
    EXPECT_THAT(CheckAll(state, &ranks), Each(absl::OkStatus()));
  }
}

TEST(DeviceReplicaCheckTest, BlocksScalarsAndTensorsOfSomeRanks) {
  const ReplicatedState state = SmallState();
  DeviceReplicas ranks(state, 5);
  EXPECT_THAT(CheckAll(state, &ranks), Each(absl::OkStatus()));
  ranks.Flip(3, 3, 2);  // "head", which ranks 1 and 3 hold
  const auto statuses = CheckAll(state, &ranks);
  EXPECT_THAT(statuses, Each(statuses[0]));
  EXPECT_THAT(std::string(statuses[0].message()),
              HasSubstr("tensor \"head\" of ranks 1, 3"));
}

TEST(DeviceReplicaCheckTest, ACopyThatFailsIsNamedOnAllRanks) {
  const ReplicatedState state = ThreeTensors(3);
  DeviceReplicas ranks(state, 7);
  for (const size_t tensor : {0, 1, 2}) {
    ranks.cuda(1).Spoil(ranks.MemoryOf<const void*>(1)[tensor],
                        ranks.BytesOf(1, tensor));
    const auto statuses = CheckAll(state, &ranks);
    const std::string where = absl::StrCat(
        "tensor \"", state.tensors()[tensor].name, "\" of rank 1 cannot be ");
    for (const absl::Status& status : statuses) {
      EXPECT_TRUE(absl::IsInternal(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(where));
    }
    EXPECT_THAT(std::string(statuses[1].message()),
                HasSubstr("cudaMemcpyAsync"));
    EXPECT_THAT(std::string(statuses[0].message()),
                HasSubstr("rank 1 has the cause"));
  }
  ranks.cuda(1).Spoil(nullptr, 0);
  EXPECT_THAT(CheckAll(state, &ranks), Each(absl::OkStatus()));
}

// A larger state than a slot, in extents of device and host, some of them
// empty.
TEST(DeviceHashesTest, AreThoseOfTheBytes) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const ReplicatedState state = ThreeTensors(1);
    DeviceReplicas ranks(state, seed);
    std::vector<MemoryExtent> extents;
    std::vector<uint64_t> expected;
    for (size_t t = 0; t < 3; ++t) {
      const char* const data = ranks.MemoryOf<const char*>(0)[t];
      const std::string bytes = ranks.Read(0, t);
      for (const auto& [offset, count] : std::vector<std::pair<size_t, size_t>>{
               {0, bytes.size()}, {3, 0}, {5, 1}, {7, 100}}) {
        extents.push_back({data + offset, count});
        expected.push_back(
            checkpoint::HashBlock({bytes.data() + offset, count}));
      }
    }
    for (const size_t slot_bytes : {64, 100, 4000, 1 << 20}) {
      const DeviceHashes hashed =
          HashThroughStaging(*ranks.wire(0).device, extents, slot_bytes);
      EXPECT_EQ(hashed.status, absl::OkStatus());
      EXPECT_EQ(hashed.hashes, expected) << "slots of " << slot_bytes;
    }
  }
}

// --- Recovering ---

TEST(DeviceRecoverTest, RestoresBitForBitFromSeveralHolders) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const int64_t window_bytes : {1, 1000, 1 << 20}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", window ", window_bytes));
      const ReplicatedState state = ThreeTensors(4);
      DeviceReplicas ranks(state, seed);
      const std::vector<int> newcomers =
          seed % 2 == 0 ? std::vector<int>{1, 3} : std::vector<int>{0};
      for (const int newcomer : newcomers) ranks.Forget(newcomer);
      for (int rank = 0; rank < 4; ++rank) {
        ranks.cuda(rank).SlowCopies(&ranks.gpus());
      }
      const plan::RecoveryPlan plan = PlanFor(state, newcomers, 500);
      EXPECT_THAT(RecoverAll(state, &ranks, plan, window_bytes),
                  Each(absl::OkStatus()));
      ExpectAllComplete(state, &ranks);
      // Bytes that are sent too early are wrong, and sent again.
      EXPECT_EQ(ranks.sent(), static_cast<int>(plan.chunks.size()));
    }
  }
}

TEST(DeviceRecoverTest, FromOneHolder) {
  const ReplicatedState state = ThreeTensors(2);
  DeviceReplicas ranks(state, 3);
  ranks.Forget(1);
  EXPECT_THAT(RecoverAll(state, &ranks, PlanFor(state, {1}, 700)),
              Each(absl::OkStatus()));
  ExpectAllComplete(state, &ranks);
}

TEST(DeviceRecoverTest, ACorruptHolderIsReplaced) {
  const ReplicatedState state = ThreeTensors(4);
  DeviceReplicas ranks(state, 9);
  ranks.Forget(3);
  for (size_t byte = 0; byte < 4000; byte += 100) ranks.Flip(0, 0, byte);
  EXPECT_THAT(RecoverAll(state, &ranks, PlanFor(state, {3}, 100)),
              Each(absl::OkStatus()));
  ExpectRankComplete(state, &ranks, 3);
}

TEST(DeviceRecoverTest, WithoutTwoEqualHoldersItIsDataLossOnAllRanks) {
  const ReplicatedState state = ThreeTensors(3);
  DeviceReplicas ranks(state, 9);
  ranks.Forget(0);
  ranks.Flip(1, 0, 2050);
  const auto statuses = RecoverAll(state, &ranks, PlanFor(state, {0}, 100));
  EXPECT_THAT(statuses, Each(statuses[0]));
  EXPECT_TRUE(absl::IsDataLoss(statuses[0])) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()),
              AllOf(HasSubstr("tensor \"w\" (elements 500 to 525) for rank 0"),
                    Not(HasSubstr("\"m\""))));
}

// Rank 0 is new, so its copies are to the tensor; ranks 1 and 2 copy from it.
class DeviceRecoverFaultTest : public testing::TestWithParam<int> {};

TEST_P(DeviceRecoverFaultTest, ACopyThatFailsIsNamedOnAllRanks) {
  const int rank = GetParam();
  const ReplicatedState state = ThreeTensors(3);
  DeviceReplicas ranks(state, 4);
  ranks.Forget(0);
  const plan::RecoveryPlan plan = PlanFor(state, {0}, 200);
  ranks.cuda(rank).Spoil(ranks.MemoryOf<char*>(rank)[2] + 1000, 400);
  const auto statuses = RecoverAll(state, &ranks, plan);
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr(absl::StrCat("tensor \"m\" of rank ", rank, " cannot be ")));
  }
  EXPECT_THAT(std::string(statuses[static_cast<size_t>(rank)].message()),
              HasSubstr("cudaMemcpyAsync"));
  // The communicators live on.
  ranks.cuda(rank).Spoil(nullptr, 0);
  EXPECT_THAT(RecoverAll(state, &ranks, plan), Each(absl::OkStatus()));
  ExpectAllComplete(state, &ranks);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceRecoverFaultTest,
                         testing::Values(0, 1, 2));

TEST(DeviceRecoverErrorTest, WithoutStagingMemoryItIsAnErrorOnAllRanks) {
  const ReplicatedState state = ThreeTensors(3);
  DeviceReplicas ranks(state, 4);
  const plan::RecoveryPlan plan = PlanFor(state, {0}, 4000);
  // The words that the ranks agree by need some memory, too.
  EXPECT_THAT(RecoverAll(state, &ranks, {}), Each(absl::OkStatus()));
  ranks.cuda(2).refuses_host_memory = true;
  const auto statuses = RecoverAll(state, &ranks, plan, 100'000);
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("tensor \"w\" of rank 2 cannot be "));
  }
  EXPECT_THAT(std::string(statuses[2].message()), HasSubstr("HostAlloc"));
}

// A device that failed ends the communicators: no rank waits, and the rank of
// the device names its tensor.
TEST(DeviceRecoverErrorTest, ABrokenDeviceEndsAllRanks) {
  const ReplicatedState state = ThreeTensors(3);
  DeviceReplicas ranks(state, 4);
  const plan::RecoveryPlan plan = PlanFor(state, {0}, 200);
  const auto statuses = ranks.OnEach([&](int rank) {
    if (rank == 1) ranks.gpus().BreakDevice(1);
    absl::Status status = Recover(
        state.tensors(), plan, ranks.MemoryOf<void*>(rank), ranks.comm(rank),
        ranks.stream(rank), {.window_bytes = 1000, .wire = ranks.wire(rank)});
    // As a session does for a failed rank.
    if (rank == 1) {
      for (const int other : {0, 2}) ranks.comm(other).Abort("rank 1 failed");
    }
    return status;
  });
  for (const absl::Status& status : statuses) EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(statuses[1].message()),
              HasSubstr("tensor \"w\" of rank 1 cannot be "));
}

TEST(DeviceRecoverTest, MemoryIsBoundedByTheWindow) {
  const ReplicatedState state(Mesh{{{"data", 3}}},
                              {{.name = "w",
                                .dims = {{.bounds = {0, int64_t{1} << 20}}},
                                .ranks = RanksBelow(3)}});
  DeviceReplicas ranks(state, 2);
  ranks.Forget(2);
  constexpr size_t kWindow = 64 << 10;
  const size_t before = ranks.cuda(0).host_bytes;
  EXPECT_THAT(RecoverAll(state, &ranks, PlanFor(state, {2}, 16 << 10), kWindow),
              Each(absl::OkStatus()));
  ExpectRankComplete(state, &ranks, 2);
  // Three slots, and 8 bytes for each of 256 chunks.
  EXPECT_LE(ranks.cuda(0).host_bytes - before, 4 * kWindow);
}

}  // namespace
}  // namespace lockstep::state
