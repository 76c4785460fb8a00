// Collectives over named axes on streams of fake devices: order, memory, and
// what is refused. tests/conformance/collectives/device_cases_test.cc compares
// the results of all operations.

#include <algorithm>
#include <atomic>
#include <thread>

#include "client/collectives/axis_group_impl.h"
#include "client/collectives/device_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/axis_group.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"
#include "tests/support/inproc_world.h"

namespace lockstep {
// This program uses only the FakeGpuWorld of the suite.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorConformance);
}  // namespace lockstep

namespace lockstep {
namespace {

using Kind = AxisCollectiveKind;
using fake::FakeGpuWorld;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TensorType OfDType(DType dtype, std::vector<int64_t> shape) {
  return {dtype, std::move(shape)};
}

// Counts allocations of memory.
class CountingCuda final : public fake::ForwardingCuda {
 public:
  CountingCuda(std::shared_ptr<CudaApi> inner, std::atomic<int>* count)
      : ForwardingCuda(std::move(inner)), count_(*count) {}
  Result Malloc(void** memory, size_t bytes) override {
    ++count_;
    return inner_->Malloc(memory, bytes);
  }
  Result Free(void* memory) override {
    ++count_;
    return inner_->Free(memory);
  }
  Result HostAlloc(void** memory, size_t bytes) override {
    ++count_;
    return inner_->HostAlloc(memory, bytes);
  }
  Result FreeHost(void* memory) override {
    ++count_;
    return inner_->FreeHost(memory);
  }

 private:
  std::atomic<int>& count_;
};

// The members of one group, each with a device.
class DeviceGroupTest : public testing::Test {
 protected:
  static constexpr int kMembers = 2;

  DeviceGroupTest()
      : world_({.seed = 3},
               [this](int, transport::nccl::Tables* tables) {
                 tables->cuda = std::make_shared<CountingCuda>(tables->cuda,
                                                               &allocations_);
               }),
        communicators_(conformance::Connect(world_, kMembers, "group")) {
    for (int m = 0; m < kMembers; ++m) {
      arenas_.push_back(world_.at(m).MakeArena());
      contexts_.push_back(*world_.at(m).MakeDeviceContext());
      streams_.push_back(world_.MakeStream(m, ""));
      groups_.push_back(MakeGroup(m, /*checked=*/false));
    }
  }
  ~DeviceGroupTest() override {
    groups_.clear();
    streams_.clear();
    communicators_.clear();
    EXPECT_THAT(world_.gpus().violations(), IsEmpty());
  }

  AxisGroup MakeGroup(int m, bool checked) {
    const GroupMemory memory{.device = contexts_[m],
                             .allocate = [this, m](size_t bytes) {
                               return arenas_[m]->Allocate(bytes);
                             }};
    return MakeAxisGroup(communicators_[m].get(), {.checked = checked}, memory);
  }

  PreparedCollective Prepared(int m, const AxisCollective& op,
                              const std::vector<TensorType>& types) {
    return groups_[m].Prepare(op, types).value();
  }

  // Memory of member m's device. Set and Get: while no stream has work.
  template <typename T>
  ArenaBuffer Tensor(int m, const std::vector<T>& values) {
    auto buffer = arenas_[m]->Allocate(values.size() * sizeof(T)).value();
    std::copy(values.begin(), values.end(),
              world_.gpus().Reach(buffer.template as<T>().data()));
    return buffer;
  }
  template <typename T>
  std::vector<T> Get(const ArenaBuffer& buffer) {
    const T* const at = world_.gpus().Reach(buffer.as<T>().data());
    return {at, at + buffer.bytes() / sizeof(T)};
  }

  std::atomic<int> allocations_{0};
  FakeGpuWorld world_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<std::shared_ptr<transport::DeviceContext>> contexts_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<AxisGroup> groups_;
};

constexpr int kCalls = 20;

// Every call reads what the one before has written, and all use the same
// scratch memory; none is waited for. The calls change the stream.
TEST_F(DeviceGroupTest, CallsInFlightOnTwoStreamsKeepTheirOrder) {
  const AxisCollective op{.kind = Kind::kPsum};
  std::vector<ArenaBuffer> values;
  std::vector<PreparedCollective> prepared;
  std::vector<std::unique_ptr<Stream>> others;
  for (int m = 0; m < kMembers; ++m) {
    values.push_back(Tensor<int16_t>(m, {1, static_cast<int16_t>(m)}));
    prepared.push_back(Prepared(m, op, {OfDType(DType::kI16, {2})}));
    others.push_back(world_.MakeStream(m, ""));
  }
  const int before = allocations_;
  for (int call = 0; call < kCalls; ++call) {
    for (int m = 0; m < kMembers; ++m) {
      Stream& stream = call % 2 == 0 ? *streams_[m] : *others[m];
      Stream& last = call % 2 == 0 ? *others[m] : *streams_[m];
      stream.WaitFor(last.Record());
      void* const at = values[m].data();
      ASSERT_TRUE(prepared[m].Run({at}, {at}, stream).ok());
    }
  }
  EXPECT_EQ(allocations_, before) << "calls of a prepared collective allocate";
  for (auto& stream : others) EXPECT_TRUE(stream->Synchronize().ok());
  const auto doubled = static_cast<int16_t>(1 << (kCalls - 1));
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_THAT(Get<int16_t>(values[m]),
                ElementsAre(static_cast<int16_t>(2 * doubled), doubled));
  }
}

// The first call's stream is stalled while the second call, on a stream of its
// own, could run.
TEST_F(DeviceGroupTest, ACallWaitsForTheScratchMemoryOfTheOneBefore) {
  std::atomic<bool> open{false};
  std::vector<ArenaBuffer> first, second;
  std::vector<std::unique_ptr<Stream>> others;
  for (int m = 0; m < kMembers; ++m) {
    first.push_back(Tensor<int16_t>(m, {1, 2}));
    second.push_back(Tensor<int16_t>(m, {10, 20}));
    others.push_back(world_.MakeStream(m, ""));
    const auto psum =
        Prepared(m, {.kind = Kind::kPsum}, {OfDType(DType::kI16, {2})});
    world_.gpus().StallUntil(
        static_cast<transport::nccl::CudaStream&>(*streams_[m]).handle(),
        [&open] { return open.load(); });
    void* const at = first[m].data();
    void* const other = second[m].data();
    ASSERT_TRUE(psum.Run({at}, {at}, *streams_[m]).ok());
    ASSERT_TRUE(psum.Run({other}, {other}, *others[m]).ok());
  }
  // Let the devices run meanwhile.
  const std::unique_ptr<Stream> idle = world_.MakeStream(0, "");
  for (int turn = 0; turn < 100; ++turn) EXPECT_TRUE(idle->Synchronize().ok());
  open = true;
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_TRUE(streams_[m]->Synchronize().ok());
    EXPECT_TRUE(others[m]->Synchronize().ok());
    EXPECT_THAT(Get<int16_t>(first[m]), ElementsAre(2, 4));
    EXPECT_THAT(Get<int16_t>(second[m]), ElementsAre(20, 40));
  }
}

TEST_F(DeviceGroupTest, AnIndexThatNoMemberHasIsAnErrorOfItsCallOnly) {
  const AxisCollective op{.kind = Kind::kPgather};
  const std::vector<TensorType> types = {OfDType(DType::kF32, {1}),
                                         OfDType(DType::kI32, {3})};
  std::vector<ArenaBuffer> x, right, wrong, gathered, refused;
  std::vector<PendingCollective> bad, good;
  for (int m = 0; m < kMembers; ++m) {
    x.push_back(Tensor<float>(m, {1.0f + m}));
    right.push_back(Tensor<int32_t>(m, {1, 0, 1}));
    wrong.push_back(Tensor<int32_t>(m, {1, m == 0 ? 2 : 0, 0}));
    gathered.push_back(Tensor<float>(m, {9, 9, 9}));
    refused.push_back(Tensor<float>(m, {9, 9, 9}));
  }
  for (int m = 0; m < kMembers; ++m) {
    const auto gather = Prepared(m, op, types);
    bad.push_back(
        gather.Start({x[m].data(), wrong[m].data()}, {refused[m].data()})
            .value());
    good.push_back(
        gather.Start({x[m].data(), right[m].data()}, {gathered[m].data()})
            .value());
  }
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_TRUE(good[m].Wait().ok()) << good[m].Wait();
    EXPECT_THAT(Get<float>(gathered[m]), ElementsAre(2, 1, 2));
  }
  EXPECT_EQ(bad[0].Wait().message(),
            "pgather: the index 2 is outside of the 2 members");
  EXPECT_THAT(Get<float>(refused[0]), ElementsAre(2, 0, 1));
  EXPECT_TRUE(bad[1].Wait().ok());
  EXPECT_THAT(Get<float>(refused[1]), ElementsAre(2, 1, 1));
}

TEST_F(DeviceGroupTest, TheStreamMustBeOfTheGroupsMemory) {
  float host = 3;
  HostStream host_stream;
  const ArenaBuffer x = Tensor<float>(0, {3});
  const std::vector<TensorType> one = {OfDType(DType::kF32, {1})};
  for (const Kind kind : {Kind::kPsum, Kind::kPvary, Kind::kPgather}) {
    std::vector<TensorType> types = one;
    std::vector<const void*> inputs = {x.data()};
    if (kind == Kind::kPgather) {
      types.push_back(OfDType(DType::kI32, {1}));
      inputs.push_back(x.data());
    }
    const ArenaBuffer out = Tensor<float>(0, {9});
    const absl::Status status = Prepared(0, {.kind = kind}, types)
                                    .Run(inputs, {out.data()}, host_stream);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(Get<float>(out), ElementsAre(9));
  }
  testing_support::InprocWorld host_world;
  const auto alone = host_world.Connect("alone", 1);
  const AxisGroup host_group = MakeAxisGroup(alone[0].get());
  const auto psum = host_group.Prepare({.kind = Kind::kPsum}, one).value();
  EXPECT_TRUE(
      absl::IsFailedPrecondition(psum.Run({&host}, {&host}, *streams_[0])));
}

// Both members send a row to both, to the row of the output that `to` says.
TEST_F(DeviceGroupTest, RaggedRowsThatOverlapAreAnErrorOfTheirCallOnly) {
  const TensorType rows = OfDType(DType::kI16, {2});
  const TensorType vector = OfDType(DType::kI32, {kMembers});
  const std::vector<TensorType> types = {rows,   rows,   vector,
                                         vector, vector, vector};
  const std::vector<int32_t> in_offsets = {0, 1}, ones = {1, 1};
  std::vector<ArenaBuffer> in, bad_out, good_out;
  std::vector<PendingCollective> bad, good;
  const std::vector<int16_t> nines = {9, 9};
  for (int m = 0; m < kMembers; ++m) {
    const auto first = static_cast<int16_t>(10 * m);
    in.push_back(Tensor<int16_t>(m, {first, static_cast<int16_t>(first + 1)}));
    bad_out.push_back(Tensor(m, nines));
    good_out.push_back(Tensor(m, nines));
  }
  for (int m = 0; m < kMembers; ++m) {
    const auto ragged = Prepared(m, {.kind = Kind::kRaggedAllToAll}, types);
    const auto start = [&](const ArenaBuffer& out, std::vector<int32_t> to) {
      // The vectors are read in the call.
      return ragged
          .Start({in[m].data(), out.data(), in_offsets.data(), ones.data(),
                  to.data(), ones.data()},
                 {out.data()})
          .value();
    };
    bad.push_back(start(bad_out[m], {0, 0}));
    good.push_back(start(good_out[m], {m, m}));
  }
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_TRUE(good[m].Wait().ok()) << good[m].Wait();
    EXPECT_THAT(Get<int16_t>(good_out[m]), ElementsAre(m, 10 + m));
    EXPECT_TRUE(absl::IsInvalidArgument(bad[m].Wait())) << bad[m].Wait();
  }
}

// The other member never calls. What is left in scratch memory, offsets that
// overlap, is not judged.
TEST_F(DeviceGroupTest, TheErrorOfAFailedTransferIsTheCommunicators) {
  const TensorType rows = OfDType(DType::kI16, {2});
  const TensorType vector = OfDType(DType::kI32, {kMembers});
  const std::vector<int32_t> starts = {0, 1}, ones = {1, 1};
  const ArenaBuffer in = Tensor<int16_t>(0, {1, 2});
  const ArenaBuffer out = Tensor<int16_t>(0, {9, 9});
  const auto ragged = Prepared(0, {.kind = Kind::kRaggedAllToAll},
                               {rows, rows, vector, vector, vector, vector});
  ASSERT_TRUE(ragged
                  .Run({in.data(), out.data(), starts.data(), ones.data(),
                        starts.data(), ones.data()},
                       {out.data()}, *streams_[0])
                  .ok());
  communicators_[0]->Abort("the test ends it");
  const absl::Status status = streams_[0]->Synchronize();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
}

// A graph would use the scratch memory at any later time.
TEST_F(DeviceGroupTest, OnlyCollectivesWithoutScratchMemoryAreCaptured) {
  std::vector<ArenaBuffer> values;
  std::vector<std::unique_ptr<transport::DeviceContext::Graph>> graphs;
  for (int m = 0; m < kMembers; ++m) {
    values.push_back(Tensor<float>(m, {1.0f + m}));
    void* const at = values[m].data();
    const auto direct =
        Prepared(m, {.kind = Kind::kPsum}, {OfDType(DType::kF32, {1})});
    const auto packed =
        Prepared(m, {.kind = Kind::kPsum}, {OfDType(DType::kI16, {2})});
    absl::Status refused;
    auto graph = contexts_[m]->Capture(*streams_[m], [&] {
      refused = packed.Run({at}, {at}, *streams_[m]);
      return direct.Run({at}, {at}, *streams_[m]);
    });
    EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
    ASSERT_TRUE(graph.ok()) << graph.status();
    graphs.push_back(*std::move(graph));
  }
  for (int launch = 0; launch < 2; ++launch) {
    for (int m = 0; m < kMembers; ++m) (void)graphs[m]->Launch(*streams_[m]);
  }
  for (int m = 0; m < kMembers; ++m) {
    EXPECT_TRUE(streams_[m]->Synchronize().ok());
    EXPECT_THAT(Get<float>(values[m]), ElementsAre(6));
  }
}

// Members of a checked group wait for each other, so each has its thread.
class CheckedDeviceGroupTest : public DeviceGroupTest {
 protected:
  std::vector<absl::Status> RunOnThreads(const AxisCollective& first,
                                         const AxisCollective& second) {
    std::vector<absl::Status> statuses(kMembers);
    std::vector<ArenaBuffer> values;
    std::vector<std::thread> members;
    for (int m = 0; m < kMembers; ++m) {
      groups_[m] = MakeGroup(m, /*checked=*/true);
      values.push_back(Tensor<float>(m, {1.0f + m}));
    }
    for (int m = 0; m < kMembers; ++m) {
      members.emplace_back([&, m] {
        void* const at = values[m].data();
        const auto prepared =
            Prepared(m, m == 0 ? first : second, {OfDType(DType::kF32, {1})});
        statuses[m] = prepared.Run({at}, {at}, *streams_[m]);
        statuses[m].Update(streams_[m]->Synchronize());
      });
    }
    for (std::thread& member : members) member.join();
    for (const ArenaBuffer& value : values) {
      results_.push_back(Get<float>(value)[0]);
    }
    return statuses;
  }

  std::vector<float> results_;
};

TEST_F(CheckedDeviceGroupTest, EqualCallsRun) {
  EXPECT_THAT(RunOnThreads({.kind = Kind::kPsum}, {.kind = Kind::kPsum}),
              Each(absl::OkStatus()));
  EXPECT_THAT(results_, Each(3));
}

// All members get the same error, and their next calls may be equal.
TEST_F(CheckedDeviceGroupTest, DifferentCallsEndBeforeAnythingMoves) {
  for (const absl::Status& status :
       RunOnThreads({.kind = Kind::kPsum}, {.kind = Kind::kPmax})) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: pmax"));
  }
  EXPECT_THAT(results_, ElementsAre(1, 2));
  results_.clear();
  EXPECT_THAT(RunOnThreads({.kind = Kind::kPmax}, {.kind = Kind::kPmax}),
              Each(absl::OkStatus()));
  EXPECT_THAT(results_, Each(2));
}

}  // namespace
}  // namespace lockstep
