// Memory that is registered with NCCL, over the fake.

#include "client/transport/nccl/window.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/transport/nccl/cuda_arena.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/support/forwarding_tables.h"

namespace lockstep {
namespace {

using fake::FakeGpuWorld;
using fake::ForwardingNccl;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using transport::BufferRegistration;
using transport::RegistrationKind;
using transport::nccl::kNcclMemoryBytesMin;
using transport::nccl::NcclPart;

constexpr int kRanks = 3;

// Ranks of one group, each with an arena buffer that is registered with it.
class Windows {
 public:
  using Decorate = FakeGpuWorld::Decorate;

  explicit Windows(const fake::GpuOptions& options = {}, Decorate decorate = {},
                   size_t bytes = 2 * kNcclMemoryBytesMin)
      : world_(options, std::move(decorate)),
        group_(conformance::Connect(world_, kRanks, "gradient")) {
    for (int rank = 0; rank < kRanks; ++rank) {
      streams_.push_back(world_.MakeStream(rank, ""));
      buffers_.push_back(*world_.at(rank).MakeArena()->Allocate(bytes));
    }
    enlisted_.resize(kRanks);
  }
  ~Windows() { CloseAll(); }

  void Together(const std::function<void(int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&body, rank] { body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void RegisterBuffer() {
    Together([this](int rank) {
      auto registered = world_.at(rank).RegisterBuffer(
          *group_[rank], buffers_[rank], absl::Seconds(60));
      ASSERT_TRUE(registered.ok()) << registered.status();
      enlisted_[rank] = *std::move(registered);
    });
  }
  std::vector<RegistrationKind> Reaches() {
    std::vector<RegistrationKind> kinds;
    for (const auto& one : enlisted_) kinds.push_back(one->kind());
    return kinds;
  }

  // Sums over the ranks, from byte `offset` of the buffer on.
  void AllReduce(const std::function<size_t(int rank)>& offset) {
    Together([&](int rank) {
      std::byte* const at = buffers_[rank].data() + offset(rank);
      const size_t count = kNcclMemoryBytesMin / sizeof(float);
      auto* const seen = reinterpret_cast<float*>(world_.gpus().Reach(at));
      std::fill(seen, seen + count, static_cast<float>(rank));
      (void)group_[rank]->AllReduce(at, at, count, DType::kF32, ReduceOp::kSum,
                                    *streams_[rank]);
      (void)streams_[rank]->Synchronize();
      const std::vector<float> got(seen, seen + count);
      EXPECT_THAT(got, Each(3));
    });
  }

  void ForgetAll() {
    Together([this](int rank) { enlisted_[rank].reset(); });
  }
  void CloseAll() {
    Together([this](int rank) { group_[rank].reset(); });
  }
  FakeGpuWorld& world() { return world_; }
  Communicator& communicator(int rank) { return *group_[rank]; }
  Stream& stream(int rank) { return *streams_[rank]; }
  const ArenaBuffer& buffer(int rank) { return buffers_[rank]; }
  std::vector<std::unique_ptr<BufferRegistration>>& registered() {
    return enlisted_;
  }
  // Ends all before: NCCL may still be freeing a communicator once it is
  // closed.
  std::vector<std::string> violations() {
    CloseAll();
    ForgetAll();
    world_.End();
    return world_.gpus().violations();
  }

 private:
  FakeGpuWorld world_;
  std::vector<std::unique_ptr<Communicator>> group_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<ArenaBuffer> buffers_;
  std::vector<std::unique_ptr<BufferRegistration>> enlisted_;
};

TEST(WindowTest, ABufferIsAWindowOnAllRanks) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Windows windows({.seed = seed, .nccl_version = 22907});
    windows.RegisterBuffer();
    EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kSymmetric));
    windows.AllReduce([](int) { return 0; });
    windows.ForgetAll();
    windows.AllReduce([](int) { return 0; });
    windows.CloseAll();
    EXPECT_THAT(windows.violations(), IsEmpty());
  }
}

TEST(WindowTest, AReleaseThatDoesNotTellIsNotTakenForMore) {
  Windows windows({.nccl_version = 22809});
  windows.RegisterBuffer();
  EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kWindow));
  windows.AllReduce([](int) { return 0; });
  windows.ForgetAll();
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(WindowTest, AReleaseThatReadsBesideItMakesNone) {
  for (const int version : {22799, 22800, 22803, 22806, 22807}) {
    Windows windows({.nccl_version = version});
    windows.RegisterBuffer();
    const bool wrong = version >= 22800 && version < 22807;
    EXPECT_THAT(windows.Reaches(), Each(wrong ? RegistrationKind::kRegistered
                                              : RegistrationKind::kWindow))
        << version;
    windows.AllReduce([](int) { return 0; });
    windows.ForgetAll();
    windows.CloseAll();
    EXPECT_THAT(windows.violations(), IsEmpty());
  }
}

TEST(WindowTest, AnOlderReleaseRegistersIt) {
  Windows windows({.nccl_version = 22600});
  windows.RegisterBuffer();
  EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kRegistered));
  windows.AllReduce([](int) { return 0; });
  windows.ForgetAll();
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(ReachTest, IsDescribedForPeople) {
  EXPECT_EQ(transport::Describe({}), "");
  EXPECT_EQ(transport::Describe(
                {RegistrationKind::kWindow, RegistrationKind::kWindow}),
            "window");
  EXPECT_EQ(transport::Describe({RegistrationKind::kPlain,
                                 RegistrationKind::kSymmetric,
                                 RegistrationKind::kSymmetric}),
            "2 symmetric, 1 plain");
}

class KnowsNoMemory final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  bool Has(NcclPart) const override { return false; }
};

// A topology without symmetric memory: the call succeeds without a window.
class GivesNoWindow final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowRegister(Comm, void*, size_t, transport::nccl::NcclWindow*,
                            int) override {
    return Result::kSuccess;
  }
};

// Registration is disabled: the call succeeds without an effect.
class GivesNothing final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowRegister(Comm, void*, size_t, transport::nccl::NcclWindow*,
                            int) override {
    return Result::kSuccess;
  }
  Result CommRegister(Comm, void*, size_t, void** handle) override {
    *handle = nullptr;
    return Result::kSuccess;
  }
};

class RefusesToRegister final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  bool Has(NcclPart part) const override { return part != NcclPart::kWindows; }
  Result CommRegister(Comm, void*, size_t, void**) override {
    return Result::kSystemError;
  }
};

class ForgetsNoWindow final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowDeregister(Comm, transport::nccl::NcclWindow) override {
    return Result::kSuccess;
  }
};

template <typename T>
Windows::Decorate With() {
  return [](int, transport::nccl::Tables* tables) {
    tables->nccl = std::make_shared<T>(tables->nccl);
  };
}

TEST(WindowTest, WithoutAnyOfItMemoryIsPlain) {
  Windows windows({}, With<KnowsNoMemory>());
  windows.RegisterBuffer();
  EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kPlain));
  windows.AllReduce([](int) { return 0; });
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(WindowTest, WhereThereCanBeNoWindowItIsRegistered) {
  Windows windows({}, With<GivesNoWindow>());
  windows.RegisterBuffer();
  EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kRegistered));
  windows.ForgetAll();
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(WindowTest, WhatIsNotRegisteredIsPlain) {
  for (const auto& with : {With<GivesNothing>(), With<RefusesToRegister>()}) {
    Windows windows({}, with);
    windows.RegisterBuffer();
    EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kPlain));
    windows.AllReduce([](int) { return 0; });
    windows.ForgetAll();
    windows.CloseAll();
    EXPECT_THAT(windows.violations(), IsEmpty());
  }
}

// A refused window is an error without fallback: peers may have one.
class RefusesAWindow final : public ForwardingNccl {
 public:
  using ForwardingNccl::ForwardingNccl;
  Result CommWindowRegister(Comm, void*, size_t, transport::nccl::NcclWindow*,
                            int) override {
    return Result::kInvalidArgument;
  }
};

TEST(WindowTest, ARefusedWindowEndsTheCommunicator) {
  Windows windows({}, With<RefusesAWindow>());
  windows.Together([&](int rank) {
    const auto registered = windows.world().at(rank).RegisterBuffer(
        windows.communicator(rank), windows.buffer(rank), absl::Seconds(60));
    EXPECT_FALSE(registered.ok());
    EXPECT_FALSE(windows.communicator(rank).status().ok());
  });
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

// Each rank waits for the other two, who never arrive, until an abort.
TEST(WindowTest, AnAbortEndsTheWait) {
  Windows windows;
  std::thread waits([&] {
    const auto registered = windows.world().at(0).RegisterBuffer(
        windows.communicator(0), windows.buffer(0), absl::Seconds(600));
    EXPECT_THAT(registered.status().message(), HasSubstr("rank 2 was lost"));
  });
  windows.communicator(0).Abort("rank 2 was lost");
  waits.join();
}

TEST(WindowTest, SmallBuffersAreNotWorthOne) {
  Windows windows({}, {}, kNcclMemoryBytesMin - 1);
  windows.RegisterBuffer();
  EXPECT_THAT(windows.Reaches(), Each(RegistrationKind::kPlain));
}

TEST(WindowTest, ACommunicatorForgetsBeforeItEnds) {
  Windows windows;
  windows.RegisterBuffer();
  windows.CloseAll();
  windows.ForgetAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(WindowTest, AnAbortUnderAWindow) {
  Windows windows;
  windows.RegisterBuffer();
  windows.communicator(1).Abort("over");
  windows.ForgetAll();
  windows.Together([&](int rank) { windows.communicator(rank).Abort("over"); });
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(WindowTest, APeerThatDoesNotComeIsNotWaitedForForEver) {
  Windows windows;
  const auto registered = windows.world().at(0).RegisterBuffer(
      windows.communicator(0), windows.buffer(0), absl::Milliseconds(50));
  EXPECT_EQ(registered.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(windows.communicator(0).status().ok());
}

// --- The fake's violations --------------------------------------------------

TEST(WindowTest, OtherOffsetsAreNoticed) {
  Windows windows;
  windows.RegisterBuffer();
  windows.AllReduce([](int rank) { return rank == 1 ? 256 : 0; });
  EXPECT_THAT(windows.violations(), Contains(HasSubstr("different offsets")));
}

// Memory that peers do not access may be anywhere.
TEST(WindowTest, PartsOfOneBufferMayBeAnywhere) {
  Windows windows;
  windows.RegisterBuffer();
  constexpr size_t kCount = 1000;
  windows.Together([&](int rank) {
    Communicator& group = windows.communicator(rank);
    auto* const all = reinterpret_cast<float*>(windows.buffer(rank).data());
    float* const mine = all + rank * kCount;
    (void)group.ReduceScatter(all, mine, kCount, DType::kF32, ReduceOp::kSum,
                              windows.stream(rank));
    (void)group.AllGather(mine, all, kCount, DType::kF32, windows.stream(rank));
    (void)windows.stream(rank).Synchronize();
  });
  EXPECT_THAT(windows.violations(), IsEmpty());
}

TEST(WindowTest, AWindowThatIsLeftBehindIsNoticed) {
  Windows windows({}, With<ForgetsNoWindow>());
  windows.RegisterBuffer();
  windows.CloseAll();
  EXPECT_THAT(windows.violations(), Contains(HasSubstr("that knows memory")));
}

TEST(WindowTest, MemoryThatIsFreedUnderAWindowIsNoticed) {
  fake::FakeGpuWorld world;
  {
    auto group = conformance::Connect(world, 1, "gradient");
    auto buffer = *world.at(0).MakeArena()->Allocate(kNcclMemoryBytesMin);
    auto registered =
        world.at(0).RegisterBuffer(*group[0], buffer, absl::Seconds(60));
    ASSERT_TRUE(registered.ok()) << registered.status();
    buffer = ArenaBuffer();
  }
  EXPECT_THAT(world.gpus().violations(),
              Contains(HasSubstr("that a communicator knows")));
}

}  // namespace
}  // namespace lockstep
