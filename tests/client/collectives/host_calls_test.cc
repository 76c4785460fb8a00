#include "lockstep/host_calls.h"

#include <mutex>
#include <thread>

#include "client/collectives/axis_group_impl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/inproc_world.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Calls body(group) for all members at the same time.
template <typename F>
void ForAll(int size, F body) {
  testing_support::InprocWorld world;
  const auto communicators = world.Connect("group", size);
  std::vector<std::thread> threads;
  for (const auto& communicator : communicators) {
    threads.emplace_back([&] { body(MakeAxisGroup(communicator.get())); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HostCallsTest, AllBeginWithTheRootsParameters) {
  ForAll(3, [](const AxisGroup& group) {
    const float own = static_cast<float>(group.index());
    std::vector<float> weights = {own, own + 10};
    std::vector<int64_t> steps = {group.index() * 7};
    const std::vector<NamedTensor> tensors = {
        {"weights", {DType::kF32, {2}}, weights.data()},
        {"steps", {DType::kI64, {}}, steps.data()},
        {"empty", {DType::kF32, {0}}, nullptr}};
    const absl::Status before = CheckParametersEqual(group, tensors);
    EXPECT_EQ(before.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(before.message()),
                HasSubstr("2 of 3 tensors have different values"));
    ASSERT_TRUE(BroadcastParameters(group, tensors, 1).ok());
    EXPECT_THAT(weights, ElementsAre(1, 11));
    EXPECT_THAT(steps, ElementsAre(7));
    EXPECT_TRUE(CheckParametersEqual(group, tensors).ok());
    EXPECT_EQ(BroadcastParameters(group, tensors, 3).code(),
              absl::StatusCode::kInvalidArgument);
  });
}

TEST(HostCallsTest, TheRankWithOtherValuesIsNamed) {
  ForAll(3, [](const AxisGroup& group) {
    float value = group.index() == 2 ? 1.0f : 0.0f;
    const absl::Status status = CheckParametersEqual(
        group, {{"layer.bias", {DType::kF32, {1}}, &value}});
    EXPECT_THAT(std::string(status.message()),
                testing::MatchesRegex(
                    "1 of 1 tensors have different values, here as digests: "
                    "layer.bias: ranks 0-1: [0-9a-f]+; rank 2: [0-9a-f]+"));
  });
}

TEST(HostCallsTest, ScalarsAreReducedInF64) {
  ForAll(4, [](const AxisGroup& group) {
    const double own = group.index() + 1;
    EXPECT_THAT(*AllReduceScalars(group, {own, 1e16, -own}),
                ElementsAre(10, 4e16, -10));
    EXPECT_THAT(*AllReduceScalars(group, {own}, ReduceOp::kMean),
                ElementsAre(2.5));
    EXPECT_THAT(*AllReduceScalars(group, {own}, ReduceOp::kMax),
                ElementsAre(4));
    EXPECT_THAT(*AllReduceScalars(group, {own}, ReduceOp::kMin),
                ElementsAre(1));
    EXPECT_THAT(*AllReduceScalars(group, {own}, ReduceOp::kProd),
                ElementsAre(24));
    EXPECT_THAT(*AllReduceScalars(group, {}, ReduceOp::kSum), ElementsAre());
  });
}

TEST(HostCallsTest, ObjectsMayHaveDifferentSizes) {
  ForAll(3, [](const AxisGroup& group) {
    const std::string own(static_cast<size_t>(group.index()) * 1000,
                          static_cast<char>('a' + group.index()));
    const auto all = AllGatherObjects(group, own);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_THAT(
        *all, ElementsAre("", std::string(1000, 'b'), std::string(2000, 'c')));
  });
}

TEST(HostCallsTest, NobodyPassesABarrierAlone) {
  std::mutex mutex;
  int arrived = 0;
  ForAll(3, [&](const AxisGroup& group) {
    {
      std::lock_guard lock(mutex);
      ++arrived;
    }
    ASSERT_TRUE(Barrier(group).ok());
    std::lock_guard lock(mutex);
    EXPECT_EQ(arrived, 3);
  });
}

}  // namespace
}  // namespace lockstep
