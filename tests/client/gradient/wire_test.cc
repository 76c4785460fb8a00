// Gradients with a 16-bit wire dtype, in host memory and on fake GPUs.

#include <cmath>
#include <limits>

#include "client/gradient/wire_cast.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/backend_job.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// bf16 has 8 significant bits: above 256 it has only every second whole number.
constexpr float kOdd = 257;
constexpr float kOddAsBf16 = 256;

const std::vector<Parameter> kCast = {
    {.name = "w", .shape = {3}, .op = ReduceOp::kSum},
    {.name = "v", .shape = {2}, .op = ReduceOp::kSum}};

class WireTest : public testing::TestWithParam<BackendKind> {
 protected:
  ~WireTest() override { EXPECT_THAT(backend_->violations(), IsEmpty()); }
  MemoryBackend* backend() { return backend_.get(); }

 private:
  std::unique_ptr<MemoryBackend> backend_ = GetParam().make(1);
};

INSTANTIATE_TEST_SUITE_P(On, WireTest, testing::Values(kHost, kFakeGpus),
                         [](const testing::TestParamInfo<BackendKind>& info) {
                           return std::string(info.param.name);
                         });

absl::Status SubmitBoth(Engine& engine) {
  absl::Status status = engine.Submit(0, nullptr, 0, nullptr);
  if (status.ok()) status = engine.Submit(1, nullptr, 0, nullptr);
  return status;
}

TEST_P(WireTest, RoundsEachContributionAndKeepsTheViewsType) {
  BackendJob job(backend(),
                 {.parameters = kCast, .policy = {.wire_dtype = DType::kBF16}});
  job.Run([&](int rank, Engine& engine) {
    job.Put(rank, 0, {kOdd, 1, 0.5});
    job.Put(rank, 1, {-3, 1024});
    ASSERT_TRUE(SubmitBoth(engine).ok());
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_THAT(job.Get(rank, 0), ElementsAre(2 * kOddAsBf16, 2, 1));
    EXPECT_THAT(job.Get(rank, 1), ElementsAre(-6, 2048));
    EXPECT_DOUBLE_EQ(verdict->global_norm,
                     std::sqrt(512.0 * 512 + 4 + 1 + 36 + 2048.0 * 2048));
    EXPECT_THAT(verdict->contributed, ElementsAre(true, true));
  });
}

TEST_P(WireTest, WhatWasNotSubmittedIsZeroAndNotFlagged) {
  BackendJob job(backend(),
                 {.parameters = kCast, .policy = {.wire_dtype = DType::kF16}});
  job.Run([&](int rank, Engine& engine) {
    job.Put(rank, 1, {7, 7});
    ASSERT_TRUE(engine.Submit(0, nullptr, 0, nullptr).ok());
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_THAT(job.Get(rank, 1), Each(0));
    EXPECT_THAT(verdict->contributed, ElementsAre(true, false));
  });
}

TEST_P(WireTest, AnOverflowIsNoticed) {
  BackendJob job(backend(),
                 {.parameters = kCast, .policy = {.wire_dtype = DType::kF16}});
  job.Run([&](int rank, Engine& engine) {
    job.Put(rank, 0, {1, rank == 0 ? 70000.0f : 1.0f, 1});
    ASSERT_TRUE(SubmitBoth(engine).ok());
    const auto verdict = FinishBlocking(engine);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_FALSE(verdict->finite);
    EXPECT_EQ(verdict->nonfinite, 1);
  });
}

TEST_P(WireTest, FeedbackBringsBackWhatRoundingTook) {
  BackendJob job(backend(), {.parameters = kCast,
                             .policy = {.wire_dtype = DType::kBF16,
                                        .error_feedback = true}});
  job.Run([&](int rank, Engine& engine) {
    std::vector<float> got;
    for (int step = 0; step < 4; ++step) {
      job.Put(rank, 0, {kOdd, 1, 0});
      ASSERT_TRUE(SubmitBoth(engine).ok());
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      got.push_back(job.Get(rank, 0)[0] / 2);
    }
    EXPECT_THAT(got, ElementsAre(256, 258, 256, 258));
  });
}

// The residual waits for the rank's next gradient: no rank submitted one.
TEST_P(WireTest, WhatARankDoesNotGiveKeepsItsResidual) {
  BackendJob job(backend(), {.parameters = kCast,
                             .policy = {.wire_dtype = DType::kBF16,
                                        .error_feedback = true}});
  job.Run([&](int rank, Engine& engine) {
    std::vector<float> got;
    for (const bool gives : {true, false, true}) {
      job.Put(rank, 0, {kOdd, 1, 0});
      ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
      const absl::Status submitted =
          gives ? engine.Submit(0, nullptr, 0, nullptr) : absl::OkStatus();
      ASSERT_TRUE(submitted.ok()) << submitted;
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->contributed[0], gives);
      got.push_back(job.Get(rank, 0)[0] / 2);
    }
    EXPECT_THAT(got, ElementsAre(256, 0, 258));
  });
}

// Rank 0's zeros do not consume it: rank 1's residual waits for rank 1.
TEST_P(WireTest, ARanksResidualWaitsWhileOtherRanksGive) {
  BackendJob job(backend(), {.parameters = kCast,
                             .policy = {.wire_dtype = DType::kBF16,
                                        .error_feedback = true}});
  job.Run([&](int rank, Engine& engine) {
    std::vector<float> got;
    for (const bool all_give : {true, false, true}) {
      job.Put(rank, 0, {rank == 0 ? 0 : kOdd, 1, 0});
      ASSERT_TRUE(engine.Submit(1, nullptr, 0, nullptr).ok());
      const absl::Status submitted = all_give || rank == 0
                                         ? engine.Submit(0, nullptr, 0, nullptr)
                                         : absl::OkStatus();
      ASSERT_TRUE(submitted.ok()) << submitted;
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_TRUE(verdict->contributed[0]);
      got.push_back(job.Get(rank, 0)[0]);
    }
    EXPECT_THAT(got, ElementsAre(256, 0, 258));
  });
}

// The overflowed gradient is not applied; residuals from before it are still to
// be added.
TEST_P(WireTest, AStepThatIsNotFiniteLeavesTheResidual) {
  BackendJob job(backend(), {.parameters = kCast,
                             .policy = {.wire_dtype = DType::kBF16,
                                        .error_feedback = true}});
  job.Run([&](int rank, Engine& engine) {
    for (const float value :
         {kOdd, std::numeric_limits<float>::infinity(), kOdd}) {
      job.Put(rank, 0, {value, 1, 0});
      ASSERT_TRUE(SubmitBoth(engine).ok());
      const auto verdict = FinishBlocking(engine);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      EXPECT_EQ(verdict->finite, value == kOdd);
    }
    EXPECT_THAT(job.Get(rank, 0), ElementsAre(2 * 258, 2, 0));
  });
}

// --- Stores and casts ------------------------------------------------------

class WireCastTest : public testing::Test {
 protected:
  // Casts these gradients; returns the wire values as f32.
  std::vector<float> Out(std::vector<float> gradients) {
    std::vector<float> sent(gradients.size());
    EXPECT_TRUE(
        compute_
            ->Perform(nullptr,
                      [&](transport::DeviceContext::KernelQueue& kernel_queue) {
                        auto* const data =
                            reinterpret_cast<std::byte*>(gradients.data());
                        cast_.ToWireWithFeedback(kernel_queue, bucket_, data,
                                                 {given_});
                        kernel_queue.CastScale(cast_.data(), DType::kBF16, 1,
                                               sent.data(), DType::kF32,
                                               sent.size());
                        return kernel_queue.status();
                      })
            .ok());
    return sent;
  }

  const plan::Bucket bucket_{.slots = {{.parameter = 0, .count = 2}},
                             .flags_offset = 2,
                             .total = 3,
                             .wire = DType::kBF16,
                             .error_feedback = true};
  const std::vector<uint8_t> given_ = {1};
  const std::unique_ptr<transport::DeviceContext> compute_ =
      transport::MakeHostDeviceContext();
  const std::unique_ptr<Arena> arena_ = MakePlainArena();
  WireCast cast_ = *WireCast::Create(
      bucket_, DType::kBF16,
      [this](size_t bytes) { return arena_->Allocate(bytes); });
};

TEST_F(WireCastTest, AStepThatIsGivenUpLeavesNoTrace) {
  EXPECT_THAT(Out({kOdd, 1}), ElementsAre(kOddAsBf16, 1));
  EXPECT_THAT(Out({kOdd, 1}), ElementsAre(kOddAsBf16, 1));  // again
  cast_.Keep();
  EXPECT_THAT(Out({kOdd, 1}), ElementsAre(258, 1));
  EXPECT_THAT(Out({kOdd, 1}), ElementsAre(258, 1));
}

absl::Status RunLocalOps(const plan::Plan& plan, int bucket, BucketStore& store,
                         transport::DeviceContext::KernelQueue& kernel_queue) {
  for (const plan::Transfer& transfer : plan.ranks[0].lanes[0].transfers) {
    if (transfer.bucket != bucket) continue;
    for (const auto side : {executor::Side::kBefore, executor::Side::kThen}) {
      for (const plan::LocalOp& op :
           side == executor::Side::kBefore ? transfer.before : transfer.then) {
        if (op.kind == plan::LocalKind::kNorm) continue;
        absl::Status applied =
            store.Apply(kernel_queue, bucket, op, side, true);
        if (!applied.ok()) return applied;
      }
    }
  }
  return absl::OkStatus();
}

// Rebuilt buckets keep the residuals of the previous ones.
TEST(WireStoreTest, AResidualMovesWithItsGradient) {
  plan::PlanInput input{
      .mesh = {{{"data", 1}}},
      .policy = {.wire_dtype = DType::kBF16, .error_feedback = true},
      .registrations = {kCast}};
  const plan::Plan together = *plan::Compile(input);
  input.policy.first_bytes_max = input.policy.bytes_max = 1;
  const plan::Plan apart = *plan::Compile(input);
  ASSERT_NE(together.buckets.size(), apart.buckets.size());

  const std::unique_ptr<Arena> arena = MakePlainArena();
  const auto allocate = [&](size_t bytes) { return arena->Allocate(bytes); };
  const auto compute = transport::MakeHostDeviceContext();
  BucketStore from =
      *BucketStore::Create(together, 0, {0, 1}, compute.get(), allocate);
  BucketStore to =
      *BucketStore::Create(apart, 0, {0, 1}, compute.get(), allocate);

  // Runs the local operations of the bucket's all-reduce, which on one rank is
  // the identity.
  const auto travel = [&](const plan::Plan& plan, BucketStore& store) {
    auto* const v = reinterpret_cast<float*>(store.View(1).data());
    v[1] = kOdd;
    const int bucket = store.PlaceOf(1).bucket;
    store.SetFlag(1, true);
    EXPECT_TRUE(
        compute
            ->Perform(nullptr,
                      [&](transport::DeviceContext::KernelQueue& kernel_queue) {
                        return RunLocalOps(plan, bucket, store, kernel_queue);
                      })
            .ok());
    return v[1];
  };
  EXPECT_EQ(travel(together, from), kOddAsBf16);
  from.KeepResiduals();
  ASSERT_TRUE(to.CopyGradients(from).ok());
  EXPECT_EQ(travel(apart, to), 258);
}

}  // namespace
}  // namespace lockstep::gradient
