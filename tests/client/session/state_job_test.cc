// State that ranks register, in whole jobs: the real coordinator core, the
// in-process transport.

#include <cstddef>
#include <string>
#include <vector>

#include "plan/state/state.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsNull;

// Rank r is data r / 2, pipe r % 2.
class StateJobTest : public InprocJobFixture {};

TEST_F(StateJobTest, RanksAgreeOnStateWithoutGradients) {
  JoinAll();
  ForAll([](Session& session) {
    const int rank = session.rank();
    std::vector<float> w(24);
    int64_t step = 0;
    std::byte random[5] = {};
    auto weights = session.RegisterState(
        {.name = "w", .shape = {rank < 2 ? 2 : 4, 3}, .cuts = {{-2, {"data"}}}},
        w.data());
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->index, 0);
    if (rank % 2 == 1) {
      ASSERT_TRUE(session.RegisterState({.name = "head", .shape = {2}}).ok());
    }
    ASSERT_TRUE(session.RegisterScalar("step", &step).ok());
    ASSERT_TRUE(session.RegisterBytes("random", random).ok());
    EXPECT_EQ(session.impl().state().Registered().status().code(),
              absl::StatusCode::kFailedPrecondition);
    ASSERT_TRUE(session.Connect().ok()) << session.status();

    if (rank % 2 == 1) {
      const auto lacks = session.impl().state().Registered();
      EXPECT_EQ(lacks.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(lacks.status().message()), HasSubstr("\"head\""));
      EXPECT_TRUE(session.SetStateMemory({1}, w.data()).ok());
    }
    const auto state = session.impl().state().Registered();
    ASSERT_TRUE(state.ok()) << state.status();
    const std::vector<plan::StateTensor>& tensors = *state->tensors;
    ASSERT_EQ(tensors.size(), 4u);  // as rank 0 registers them, then "head"
    EXPECT_EQ(tensors[0].name, "w");
    EXPECT_THAT(tensors[0].dims[0].bounds, ElementsAre(0, 2, 6));
    EXPECT_EQ(tensors[1].name, "step");
    EXPECT_EQ(tensors[1].dtype, DType::kI64);
    EXPECT_THAT(tensors[1].dims, IsEmpty());
    EXPECT_EQ(tensors[2].name, "random");
    EXPECT_EQ(tensors[2].dims[0].extent(), 5);
    EXPECT_EQ(tensors[3].name, "head");
    EXPECT_THAT(tensors[3].ranks, ElementsAre(1, 3));
    EXPECT_EQ(state->memory[0], w.data());
    EXPECT_EQ(state->memory[1], &step);
    EXPECT_EQ(state->memory[2], random);
    EXPECT_EQ(state->memory[3], rank % 2 == 1 ? w.data() : nullptr);
  });
  LeaveAll();
  EXPECT_EQ(server_.Describe("job")->state, JobState::kCompleted);
}

TEST_F(StateJobTest, WrongAndLateRegistrationsAreRefused) {
  JoinAll();
  ForAll([this](Session& session) {
    EXPECT_EQ(session.RegisterState({.name = ""}).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(session.RegisterState({.name = "c", .cuts = {{0, {"data"}}}})
                  .status()
                  .message(),
              "state \"c\": dim 0 of a tensor with 0 dimensions");
    ASSERT_TRUE(session.RegisterState({.name = "a"}).ok());
    EXPECT_EQ(session.RegisterState({.name = "a"}).status().message(),
              "state \"a\" is registered twice on this rank");
    EXPECT_EQ(session.SetStateMemory({1}, nullptr).message(),
              "state 1 is not registered: there are 1");
    EXPECT_EQ(session.SetStateMemory({}, nullptr).code(),
              absl::StatusCode::kInvalidArgument);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_EQ(session.RegisterState({.name = "b"}).status().code(),
              absl::StatusCode::kFailedPrecondition);
  });
  LeaveAll();
}

TEST_F(StateJobTest, ADifferenceIsOneErrorToAll) {
  JoinAll();
  ForAll([](Session& session) {
    const int64_t size = session.rank() == 2 ? 4 : 3;
    ASSERT_TRUE(session.RegisterState({.name = "w", .shape = {size}}).ok());
    const absl::Status refused = session.Connect();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("state \"w\": ranks register it differently: ranks "
                          "0-1, 3: f32[3]; rank 2: f32[4]"));
  });
}

// A rank whose slice is empty needs no memory for it.
TEST_F(StateJobTest, ARankWithoutElementsNeedsNoMemory) {
  JoinAll();
  ForAll([](Session& session) {
    const bool holds = session.rank() == 3;
    float values[2];
    ASSERT_TRUE(session
                    .RegisterState({.name = "m",
                                    .shape = {2},
                                    .slice = StateSlice{0, holds ? 2 : 0}},
                                   holds ? values : nullptr)
                    .ok());
    ASSERT_TRUE(session.Connect().ok()) << session.status();
    const auto state = session.impl().state().Registered();
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->memory[0], holds ? values : nullptr);
    EXPECT_THAT((*state->tensors)[0].ranks, ElementsAre(3));
  });
  LeaveAll();
}

// More than one message of a registration can hold.
TEST_F(StateJobTest, ManyTensorsAreRegistered) {
  constexpr int kTensors = 20'000;
  JoinAll();
  ForAll([](Session& session) {
    for (int i = 0; i < kTensors; ++i) {
      const auto id = session.RegisterState(
          {.name = "layers." + std::to_string(i) + ".weight", .shape = {0}});
      ASSERT_TRUE(id.ok()) << id.status();
      ASSERT_EQ(id->index, i);
    }
    ASSERT_TRUE(session.Connect().ok()) << session.status();
    const auto state = session.impl().state().Registered();
    ASSERT_TRUE(state.ok()) << state.status();
    ASSERT_EQ(state->tensors->size(), size_t{kTensors});
    EXPECT_EQ(state->tensors->back().name, "layers.19999.weight");
    EXPECT_THAT(state->tensors->back().ranks, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(state->memory.back(), IsNull());
  });
  LeaveAll();
}

}  // namespace
}  // namespace lockstep::session
