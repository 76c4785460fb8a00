// Prepared collectives on communicators: reuse, order, bad memory, and members
// that call different operations.

#include "lockstep/axis_group.h"

#include <thread>

#include "client/collectives/axis_group_impl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/inproc_world.h"

namespace lockstep {
namespace {

using Kind = AxisCollectiveKind;
using testing::ElementsAre;
using testing::HasSubstr;

// The members of one group, in one process.
class AxisGroupTest : public testing::Test {
 protected:
  void Connect(int size, bool checked = false) {
    communicators_ = world_.Connect("group", size);
    for (const auto& communicator : communicators_) {
      groups_.push_back(
          MakeAxisGroup(communicator.get(), {.checked = checked}));
    }
    streams_ = std::vector<HostStream>(size);
  }

  PreparedCollective Prepared(int member, const AxisCollective& op,
                              const std::vector<TensorType>& types) {
    auto prepared = groups_[member].Prepare(op, types);
    return std::move(prepared).value();
  }

  testing_support::InprocWorld world_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<AxisGroup> groups_;
  std::vector<HostStream> streams_;
};

TensorType F32(std::vector<int64_t> shape) {
  return {DType::kF32, std::move(shape)};
}

TEST_F(AxisGroupTest, APreparedCollectiveIsUsedManyTimesInOrder) {
  Connect(3);
  const AxisCollective op{.kind = Kind::kAllGather, .axes = {"x"}, .axis = 1};
  std::vector<std::vector<float>> in(3), out(3);
  std::vector<PreparedCollective> prepared;
  for (int m = 0; m < 3; ++m) {
    prepared.push_back(Prepared(m, op, {F32({2})}));
    in[m] = {1.0f + m, 10.0f + m};
    out[m].resize(6);
  }
  // Twenty calls in flight: each reads what the one before has written.
  for (int call = 0; call < 20; ++call) {
    for (int m = 0; m < 3; ++m) {
      ASSERT_TRUE(
          prepared[m].Run({in[m].data()}, {out[m].data()}, streams_[m]).ok());
      streams_[m].Enqueue([&in, &out, m] {
        in[m] = {out[m][m] + 1, out[m][3 + m] + 1};
        return absl::OkStatus();
      });
    }
  }
  for (HostStream& stream : streams_) EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_THAT(out[0], ElementsAre(20, 21, 22, 29, 30, 31));
  EXPECT_EQ(out[0], out[2]);
}

TEST_F(AxisGroupTest, ASendIsReceivedByTheSamePairs) {
  Connect(3);
  const std::vector<std::pair<int, int>> pairs = {{0, 1}, {1, 2}};
  std::vector<float> in = {5, 6, 7}, out = {-1, -1, -1};
  for (int m = 0; m < 3; ++m) {
    const AxisCollective send{.kind = Kind::kPsend, .pairs = pairs};
    const AxisCollective recv{.kind = Kind::kPrecv, .pairs = pairs};
    ASSERT_TRUE(
        Prepared(m, send, {F32({1})}).Run({&in[m]}, {}, streams_[m]).ok());
    ASSERT_TRUE(Prepared(m, recv, {F32({1})})
                    .Run({nullptr}, {&out[m]}, streams_[m])
                    .ok());
  }
  for (HostStream& stream : streams_) EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_THAT(out, ElementsAre(0, 5, 6));
}

TEST_F(AxisGroupTest, RefusesMemoryThatCannotBe) {
  Connect(1);
  float a = 1, b = 2;
  const auto shuffle = Prepared(
      0, {.kind = Kind::kPshuffle, .axes = {"x"}, .sources = {0}}, {F32({1})});
  EXPECT_EQ(shuffle.Run({nullptr}, {&b}, streams_[0]).message(),
            "pshuffle: input 0 is null");
  EXPECT_EQ(shuffle.Run({&a}, {nullptr}, streams_[0]).message(),
            "pshuffle: output 0 is null");
  EXPECT_EQ(shuffle.Run({&a}, {&a}, streams_[0]).message(),
            "pshuffle: output 0 is its input: not in place");
  EXPECT_EQ(shuffle.Run({&a, &b}, {&b}, streams_[0]).message(),
            "pshuffle: got 2 inputs and 1 outputs, not 1 and 1");
  EXPECT_TRUE(shuffle.Run({&a}, {&b}, streams_[0]).ok());
  EXPECT_TRUE(streams_[0].Synchronize().ok());
  EXPECT_EQ(b, 1);
}

TEST_F(AxisGroupTest, UnevenGroupsAreForReductions) {
  Connect(1);
  const AxisGroup group =
      MakeAxisGroup(communicators_[0].get(), {.even = false});
  EXPECT_TRUE(group.Prepare({.kind = Kind::kPsum}, {F32({2})}).ok());
  EXPECT_THAT(
      group.Prepare({.kind = Kind::kAllGather}, {F32({2})}).status().message(),
      HasSubstr("all_gather: takes index groups of equal size"));
}

TEST_F(AxisGroupTest, NothingIsWrittenIfRaggedRowsOverlap) {
  Connect(2);
  const AxisCollective op{.kind = Kind::kRaggedAllToAll};
  const TensorType rows = F32({2}), vector{DType::kI32, {2}};
  const std::vector<float> operand = {1, 2};
  std::vector<float> out[2] = {{8, 9}, {8, 9}};
  // Both members send their first row to row 0 of member 0.
  const std::vector<int32_t> in_at = {0, 1}, sizes = {1, 0}, at = {0, 0};
  const std::vector<int32_t> received[2] = {{1, 1}, {0, 0}};
  for (int m = 0; m < 2; ++m) {
    ASSERT_TRUE(Prepared(m, op, {rows, rows, vector, vector, vector, vector})
                    .Run({operand.data(), out[m].data(), in_at.data(),
                          sizes.data(), at.data(), received[m].data()},
                         {out[m].data()}, streams_[m])
                    .ok());
  }
  const absl::Status overlap = streams_[0].Synchronize();
  EXPECT_EQ(overlap.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(overlap.message()), HasSubstr("overlap"));
  EXPECT_TRUE(streams_[1].Synchronize().ok());
  EXPECT_THAT(out[0], ElementsAre(8, 9));
}

TEST_F(AxisGroupTest, RefusesRaggedRowsOutsideOfTheTensors) {
  Connect(1);
  const AxisCollective op{.kind = Kind::kRaggedAllToAll};
  const TensorType rows = F32({2}), vector{DType::kI64, {1}};
  const auto prepared =
      Prepared(0, op, {rows, rows, vector, vector, vector, vector});
  float operand[2] = {1, 2}, out[2] = {};
  const auto error_of = [&](int64_t in_at, int64_t size, int64_t at,
                            int64_t received) {
    return std::string(prepared
                           .Run({operand, out, &in_at, &size, &at, &received},
                                {out}, streams_[0])
                           .message());
  };
  EXPECT_EQ(error_of(1, 2, 0, 2),
            "ragged_all_to_all: slice 0 has 2 rows at 1 of the operand, which "
            "has 2");
  EXPECT_THAT(error_of(0, 2, 1, 2), HasSubstr("2 rows at 1 of the output"));
  EXPECT_THAT(error_of(0, -1, 0, 0), HasSubstr("of the operand"));
  EXPECT_THAT(error_of(0, 1, -1, 1), HasSubstr("of the output"));
  EXPECT_THAT(error_of(0, 1, 0, 3), HasSubstr("of the output"));
  EXPECT_THAT(error_of(INT64_MAX, 1, 0, 1), HasSubstr("of the operand"));
}

// What an earlier call left in scratch memory was not received.
TEST_F(AxisGroupTest, AfterAFailedTransferNothingIsReadOfItsMemory) {
  Connect(2);
  const TensorType rows = F32({4, 8}), vector{DType::kI32, {2}};
  std::vector<float> in(32, 1e30f), out(32, 7), other(32, 7);
  const std::vector<int32_t> zeros = {0, 0}, ones = {1, 1},
                             at[2] = {{0, 0}, {1, 1}};
  const auto start = [&](int m, std::vector<float>* output) {
    return *Prepared(m, {.kind = Kind::kRaggedAllToAll},
                     {rows, rows, vector, vector, vector, vector})
                .Start({in.data(), output->data(), zeros.data(), ones.data(),
                        at[m].data(), ones.data()},
                       {output->data()});
  };
  const auto first = start(0, &out);
  ASSERT_TRUE(start(1, &other).Wait().ok());
  ASSERT_TRUE(first.Wait().ok());
  EXPECT_EQ(out[15], 1e30f);

  std::vector<float> untouched(32, 7);
  const auto alone = start(0, &untouched);
  communicators_[0]->Abort("a peer died");
  EXPECT_EQ(alone.Wait().code(), absl::StatusCode::kAborted) << alone.Wait();
  EXPECT_EQ(untouched, std::vector<float>(32, 7));
}

TEST_F(AxisGroupTest,
       OperationsThatAreStartedRunInOrderAndReportTheirOwnErrors) {
  Connect(2);
  const AxisCollective op{.kind = Kind::kPgather};
  std::vector<std::thread> members;
  for (int m = 0; m < 2; ++m) {
    members.emplace_back([this, m, &op] {
      const auto gather =
          *groups_[m].Prepare(op, {F32({1}), {DType::kI32, {2}}});
      const float x = 1.0f + m;
      const int32_t right[2] = {1, 0}, wrong[2] = {0, m == 0 ? 2 : 1};
      float out[2] = {}, refused[2] = {};
      const auto bad = gather.Start({&x, wrong}, {refused});
      const auto good = gather.Start({&x, right}, {out}, {bad->event()});
      EXPECT_TRUE(good->Wait().ok()) << good->Wait();
      EXPECT_TRUE(bad->Done() && good->Done());
      EXPECT_THAT(out, ElementsAre(2, 1));
      const absl::Status error = bad->Wait();
      if (m == 0) {
        EXPECT_EQ(error.message(),
                  "pgather: the index 2 is outside of the 2 members");
      } else {
        EXPECT_TRUE(error.ok()) << error;
      }
    });
  }
  for (std::thread& member : members) member.join();
}

TEST_F(AxisGroupTest, CallsOfThreadsAreEnqueuedOneAfterTheOther) {
  Connect(2);
  std::vector<std::thread> threads;
  for (int m = 0; m < 2; ++m) {
    const auto psum = Prepared(m, {.kind = Kind::kPsum}, {F32({1})});
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([psum] {
        for (int call = 0; call < 5000; ++call) {
          float x = 1;
          ASSERT_TRUE(psum.RunAndWait({&x}, {&x}).ok());
          ASSERT_EQ(x, 2);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(AxisGroupTest, AGroupRefusesOperationsOverOtherAxes) {
  Connect(1);
  const AxisGroup group = MakeAxisGroup(
      communicators_[0].get(), {.axes = {"data"}, .checks_axes = true});
  EXPECT_TRUE(group.Prepare({.kind = Kind::kPsum}, {F32({2})}).ok());
  EXPECT_TRUE(
      group.Prepare({.kind = Kind::kPsum, .axes = {"data"}}, {F32({2})}).ok());
  EXPECT_EQ(
      group
          .Prepare(
              {.kind = Kind::kPsum, .axes = {"data"}, .index_groups = {{0}}},
              {F32({2})})
          .status()
          .message(),
      "psum over data[0] was prepared with the group over data");
}

TEST_F(AxisGroupTest, CallsFailBeforeAGroupIsConnectedAndOnceItIsClosed) {
  Connect(1);
  const auto declared =
      std::make_shared<AxisGroup::Impl>(AxisGroupOptions{.axes = {"data"}});
  const auto psum =
      *AxisGroup(declared).Prepare({.kind = Kind::kPsum}, {F32({1})});
  float x = 3;
  EXPECT_EQ(psum.Start({&x}, {&x}).status().message(),
            "psum over data: the group is not connected yet: "
            "GradientSync::Seal connects it, or Session::Connect");
  EXPECT_EQ(psum.Run({&x}, {&x}, streams_[0]).code(),
            absl::StatusCode::kFailedPrecondition);
  declared->Connect(std::move(communicators_[0]), {});
  EXPECT_TRUE(psum.Start({&x}, {&x})->Wait().ok());
  EXPECT_EQ(declared->progress().calls, 1u);
  declared->Close();
  EXPECT_EQ(psum.Start({&x}, {&x}).status().message(),
            "psum over data: this worker has left the job");
  EXPECT_EQ(psum.Run({&x}, {&x}, streams_[0]).code(),
            absl::StatusCode::kFailedPrecondition);
}

// What each member calls, and what the error must say.
struct Difference {
  AxisCollective first, second;
  TensorType first_type, second_type;
  const char* text;
};

TEST_F(AxisGroupTest, DifferentCallsGiveAllMembersOneErrorIfChecked) {
  const AxisCollective sum{.kind = Kind::kPsum, .axes = {"x"}};
  const Difference differences[] = {
      {sum, sum, F32({2}), F32({3}),
       "rank 0: psum over x of f32[2]; ranks 1-2: psum over x of f32[3]"},
      {sum, sum, F32({2}), {DType::kI32, {2}}, "i32[2]"},
      {sum, {.kind = Kind::kPmax, .axes = {"x"}}, F32({2}), F32({2}), "pmax"},
      {{.kind = Kind::kPbroadcast, .axes = {"x"}, .root = 1},
       {.kind = Kind::kPbroadcast, .axes = {"x"}, .root = 2},
       F32({2}),
       F32({2}),
       "root 2"},
      {{.kind = Kind::kPshuffle, .axes = {"x"}, .sources = {0, 1, 2}},
       {.kind = Kind::kPshuffle, .axes = {"x"}, .sources = {1, 2, 0}},
       F32({2}),
       F32({2}),
       "sources 1,2,0"},
  };
  for (const Difference& difference : differences) {
    SCOPED_TRACE(difference.text);
    groups_.clear();
    Connect(3, /*checked=*/true);
    std::vector<float> in(4),
        out[3] = {std::vector<float>(4), std::vector<float>(4),
                  std::vector<float>(4)};
    for (int m = 0; m < 3; ++m) {
      const bool first = m == 0;
      ASSERT_TRUE(
          Prepared(m, first ? difference.first : difference.second,
                   {first ? difference.first_type : difference.second_type})
              .Run({in.data()}, {out[m].data()}, streams_[m])
              .ok());
    }
    std::string message;
    for (HostStream& stream : streams_) {
      const absl::Status error = stream.Synchronize();
      EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument) << error;
      EXPECT_THAT(std::string(error.message()), HasSubstr(difference.text));
      if (message.empty()) message = std::string(error.message());
      EXPECT_EQ(error.message(), message);
    }
    streams_.clear();
  }
}

}  // namespace
}  // namespace lockstep
