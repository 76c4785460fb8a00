#include "protocol/chunks.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"

namespace lockstep::proto {
namespace {

constexpr size_t kMiB = 1 << 20;

std::vector<Parameter> Parameters(int count) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < count; ++i) {
    parameters.push_back(
        {.name = absl::StrCat("transformer.h.", i, ".attn.c_attn.weight"),
         .shape = {1024, i % 4096},
         .axes = {"data"}});
  }
  return parameters;
}

size_t WireBytes(const protocol::RegisterChunk& chunk) {
  return ToProto(protocol::ToCoordinator{.job = {std::string(200, 'j')},
                                         .body = chunk})
      .ByteSizeLong();
}

std::vector<Parameter> Join(
    const std::vector<protocol::RegisterChunk>& chunks) {
  std::vector<Parameter> joined;
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i].index, i);
    EXPECT_EQ(chunks[i].last, i + 1 == chunks.size());
    joined.insert(joined.end(), chunks[i].parameters.begin(),
                  chunks[i].parameters.end());
  }
  return joined;
}

TEST(CutIntoChunksTest, AHundredThousandTravelBelowOneMebibyteEach) {
  const std::vector<Parameter> parameters = Parameters(100'000);
  const auto chunks = *protocol::CutIntoChunks(parameters);
  EXPECT_GT(chunks.size(), 5u);
  EXPECT_LT(chunks.size(), 50u);
  for (const auto& chunk : chunks) EXPECT_LT(WireBytes(chunk), kMiB);
  EXPECT_TRUE(Join(chunks) == parameters);
}

TEST(CutIntoChunksTest, NothingIsOneEmptyLastChunk) {
  const auto chunks = *protocol::CutIntoChunks({});
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_TRUE(Join(chunks).empty());
}

TEST(CutIntoChunksTest, ManyTinyOnesKeepToTheCountThatIsAccepted) {
  const std::vector<Parameter> parameters(70'000, {.name = "w"});
  const auto chunks = *protocol::CutIntoChunks(parameters);
  EXPECT_TRUE(Join(chunks) == parameters);
  for (const auto& chunk : chunks) {
    EXPECT_TRUE(
        FromProto(ToProto(protocol::ToCoordinator{.body = chunk})).ok());
  }
}

TEST(CutIntoChunksTest, LongNamesAndManyDimensionsAreCounted) {
  std::vector<Parameter> parameters = Parameters(1000);
  for (Parameter& parameter : parameters) {
    parameter.name += std::string(3000, 'n');
    parameter.shape.assign(32, int64_t{1} << 40);
  }
  const auto chunks = *protocol::CutIntoChunks(parameters);
  for (const auto& chunk : chunks) {
    EXPECT_LT(WireBytes(chunk), kMiB);
    EXPECT_GT(protocol::RegistrationBytes(chunk), WireBytes(chunk) * 9 / 10);
  }
  EXPECT_TRUE(Join(chunks) == parameters);
}

TEST(CutIntoChunksTest, StateFollowsParametersInTheSameChunks) {
  const std::vector<Parameter> parameters = Parameters(3000);
  std::vector<StateSpec> states;
  for (int i = 0; i < 100'000; ++i) {
    states.push_back({.name = absl::StrCat("layers.", i, ".exp_avg"),
                      .shape = {1024, i % 4096},
                      .cuts = {{0, {"data", "model"}}},
                      .slice = StateSlice{int64_t{1} << 40, i}});
  }
  const auto chunks = *protocol::CutIntoChunks(parameters, states);
  EXPECT_LT(chunks.size(), 100u);
  std::vector<StateSpec> joined;
  for (const auto& chunk : chunks) {
    EXPECT_LT(WireBytes(chunk), kMiB);
    joined.insert(joined.end(), chunk.states.begin(), chunk.states.end());
  }
  EXPECT_TRUE(Join(chunks) == parameters);
  EXPECT_TRUE(joined == states);
  states[7].name.assign(1 << 20, 'n');
  EXPECT_EQ(protocol::CutIntoChunks({}, states).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CutIntoChunksTest, OneThatAloneIsTooLargeIsNamed) {
  std::vector<Parameter> parameters = Parameters(3);
  parameters[1].name = std::string(1 << 20, 'n');
  EXPECT_EQ(protocol::CutIntoChunks(parameters).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// --- Plans ------------------------------------------------------------------

class PlanChunksTest : public testing::Test {
 protected:
  PlanChunksTest() {
    plan_.parameters = Parameters(20'000);
    bytes_ = PlanBytes(plan_);
  }
  v1::PlanChunk At(size_t offset) {
    return PlanChunkAt({.job = {"j"}}, bytes_, offset);
  }

  plan::Plan plan_;
  std::string bytes_;
  PlanAssembler assembler_;
};

TEST_F(PlanChunksTest, APlanArrivesInPiecesBelowOneMebibyte) {
  ASSERT_GT(bytes_.size(), kMiB);
  for (size_t offset = 0; offset < bytes_.size(); offset += kChunkBytes) {
    EXPECT_LT(At(offset).ByteSizeLong(), kMiB);
    ASSERT_TRUE(assembler_.Add(At(offset)).ok());
  }
  const auto plan = assembler_.Finish();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(*plan == plan_);
}

// What the rest of the plan gives is left out: no list has an entry for each
// rank.
TEST_F(PlanChunksTest, StateOfManyRanksIsShort) {
  constexpr int kRanks = 1000;
  plan::Plan plan{.mesh = {{{"data", kRanks}}}};
  plan.ranks.resize(kRanks);
  std::vector<int> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(rank);
  for (int i = 0; i < 2000; ++i) {
    plan.state.push_back(
        {.name = absl::StrCat("t", i),
         .dims = {{.axes = {"data"},
                   .bounds = plan::EvenBounds(100'000 + i, kRanks)},
                  {.bounds = {0, 7}}},
         .ranks = ranks});
  }
  const std::string bytes = PlanBytes(plan);
  EXPECT_LT(bytes.size(), 100'000u);
  EXPECT_TRUE(*PlanFromBytes(bytes) == plan);
  // Other ranks and bounds are written.
  plan.state[0].ranks.pop_back();
  std::swap(plan.state[1].ranks[0], plan.state[1].ranks[1]);
  ++plan.state[2].dims[0].bounds[1];
  EXPECT_TRUE(*PlanFromBytes(PlanBytes(plan)) == plan);
}

// A short message does not become a long plan.
TEST_F(PlanChunksTest, RanksAreLeftOutOfSomeTensorsOnly) {
  v1::Plan plan;
  for (int i = 0; i < 40'000; ++i) {
    plan.add_ranks();
    plan.add_state()->set_dtype(v1::DTYPE_F32);
  }
  plan.mutable_mesh();
  const auto refused = FromProto(plan);
  EXPECT_EQ(refused.status().message(),
            "Plan: state: has too many ranks and blocks");
}

TEST_F(PlanChunksTest, ChunksMustFollowOneAnother) {
  EXPECT_FALSE(assembler_.Add(At(kChunkBytes)).ok());
  ASSERT_TRUE(assembler_.Add(At(0)).ok());
  EXPECT_FALSE(assembler_.Add(At(0)).ok());
  EXPECT_FALSE(assembler_.Add(At(2 * kChunkBytes)).ok());
  EXPECT_TRUE(assembler_.Add(At(kChunkBytes)).ok());
}

TEST_F(PlanChunksTest, AChunkMustKeepToTheWhole) {
  v1::PlanChunk beyond = At(0);
  beyond.set_total_bytes(10);
  EXPECT_FALSE(assembler_.Add(beyond).ok());
  PlanAssembler other;
  ASSERT_TRUE(other.Add(At(0)).ok());
  v1::PlanChunk changed = At(kChunkBytes);
  changed.set_total_bytes(bytes_.size() + 1);
  EXPECT_FALSE(other.Add(changed).ok());
  v1::PlanChunk empty = At(kChunkBytes);
  empty.clear_data();
  EXPECT_FALSE(other.Add(empty).ok());
}

TEST_F(PlanChunksTest, WhatIsTooLargeIsRefusedAtOnce) {
  v1::PlanChunk huge = At(0);
  huge.set_total_bytes(kPlanBytesMax + 1);
  EXPECT_EQ(assembler_.Add(huge).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PlanChunksTest, HalfAPlanIsNone) {
  EXPECT_EQ(assembler_.Finish().status().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(assembler_.Add(At(0)).ok());
  EXPECT_EQ(assembler_.Finish().status().code(), absl::StatusCode::kDataLoss);
}

// --- Text -------------------------------------------------------------------

TEST(ToUtf8Test, ATextFromAnywhereDoesNotBreakAMessage) {
  protocol::ToCoordinator message;
  message.body = protocol::Leave{.reason = "caf\xE9"};
  v1::ToCoordinator received;
  EXPECT_TRUE(received.ParseFromString(ToProto(message).SerializeAsString()));
}

// --- Handles ----------------------------------------------------------------

constexpr size_t kHandleBytes = 64 << 10;  // the largest that the codec takes

TEST(HandleChunksTest, ARanksHandlesTravelInMessagesBelowAMebibyte) {
  std::vector<protocol::GroupHandle> handles;
  for (int c = 0; c < 80; ++c) {
    handles.push_back({c, std::string(kHandleBytes, 'h')});
  }
  const auto messages = protocol::CutIntoMessages(handles);
  EXPECT_GT(messages.size(), 5u);
  std::vector<protocol::GroupHandle> joined;
  for (const protocol::PublishHandles& message : messages) {
    EXPECT_LT(ToProto(protocol::ToCoordinator{.job = {std::string(200, 'j')},
                                              .body = message})
                  .ByteSizeLong(),
              kMiB);
    EXPECT_FALSE(message.handles.empty());
    joined.insert(joined.end(), message.handles.begin(), message.handles.end());
  }
  EXPECT_EQ(joined, handles);
}

TEST(HandleChunksTest, NoHandlesAreOneMessage) {
  EXPECT_EQ(protocol::CutIntoMessages({}).size(), 1u);
}

TEST(HandleChunksTest, ACommunicatorsHandlesTravelInPiecesBelowAMebibyte) {
  std::vector<std::string> handles;
  for (int rank = 0; rank < 80; ++rank) {
    handles.push_back(std::string(kHandleBytes - rank, 'h'));
  }
  const auto pieces = protocol::CutIntoPieces(3, handles);
  EXPECT_GT(pieces.size(), 5u);
  std::vector<std::string> joined;
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_LT(ToProto(protocol::ToWorker{.job = {std::string(200, 'j')},
                                         .body = pieces[i]})
                  .ByteSizeLong(),
              kMiB);
    EXPECT_EQ(pieces[i].communicator, 3);
    EXPECT_EQ(pieces[i].first, joined.size());
    EXPECT_EQ(pieces[i].more, i + 1 < pieces.size());
    joined.insert(joined.end(), pieces[i].handles.begin(),
                  pieces[i].handles.end());
  }
  EXPECT_EQ(joined, handles);
}

TEST(HandleChunksTest, FewHandlesAreOnePiece) {
  EXPECT_EQ(protocol::CutIntoPieces(0, {"a", "b"}),
            (std::vector<protocol::GroupHandles>{{0, {"a", "b"}}}));
}

}  // namespace
}  // namespace lockstep::proto
