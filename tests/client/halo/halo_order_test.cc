// The order of exchanges that are in flight together.

#include <atomic>
#include <barrier>
#include <cstring>
#include <numeric>
#include <thread>

#include "client/transport/shm/shm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/axis_group.h"
#include "tests/conformance/cases/groups.h"
#include "tests/conformance/halo/halo_ranks.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep {
namespace {

using conformance::HaloDeclarations;
using conformance::HaloRanks;
using testing::Each;
using testing::ElementsAre;

class HaloOrderTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 3;

  std::unique_ptr<HaloRanks> Make(const Mesh& mesh,
                                  const std::vector<HaloSpec>& all_declare,
                                  conformance::Groups& groups) {
    auto ranks = HaloRanks::Make(
        mesh, HaloDeclarations(mesh.WorldSize(), all_declare), groups);
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    return ranks.ok() ? *std::move(ranks) : nullptr;
  }

  // A column of kRows cells on each rank of an axis, periodic: what is sent has
  // gaps, so it is packed. A padded block is left, own, right in each row.
  static HaloSpec Columns(const std::string& name, const std::string& axis) {
    return {.name = name,
            .tensors = {{.dtype = DType::kF32,
                         .shape = {kRows, 1},
                         .dims = {{.dim = 1,
                                   .axis = axis,
                                   .low = 1,
                                   .high = 1,
                                   .edge = HaloEdge::kPeriodic}}}}};
  }
  static std::vector<float> Block(float value) {
    return std::vector<float>(kRows, value);
  }
  static std::vector<float> Padded(float left, float own, float right) {
    std::vector<float> padded;
    for (int row = 0; row < kRows; ++row) {
      padded.insert(padded.end(), {left, own, right});
    }
    return padded;
  }

  // Work on a stream that blocks it until Open.
  class Gate {
   public:
    explicit Gate(HostStream& stream) {
      stream.Enqueue([this] {
        open_.wait(false);
        return absl::OkStatus();
      });
    }
    void Open() {
      open_ = true;
      open_.notify_all();
    }

   private:
    std::atomic<bool> open_{false};
  };

  transport::InprocHub hub_;
  conformance::Groups inproc_{
      [this](int) -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
        return transport::MakeInprocTransport(&hub_);
      }};
  conformance::Groups shm_{
      [](int) -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
        return transport::MakeShmTransport();
      }};
};

// One rank's first call is behind a gate, its second one is not.
TEST_F(HaloOrderTest, CallsOnOtherStreamsRunInTheirOrder) {
  const auto ranks = Make({{{"x", 2}}}, {Columns("u", "x")}, shm_);
  ASSERT_NE(ranks, nullptr);
  HostStream first[2], second[2];
  std::vector<float> out[2][3];
  const std::vector<float> in[2][3] = {{Block(1), Block(3), Block(5)},
                                       {Block(2), Block(4), Block(6)}};
  Gate gate(first[1]);
  std::optional<PendingCollective> pending[2];
  for (int r = 0; r < 2; ++r) {
    const HaloExchange& halo = ranks->at(r);
    for (auto& padded : out[r]) padded.resize(3 * kRows);
    ASSERT_TRUE(halo.Run({in[r][0].data()}, {out[r][0].data()}, first[r]).ok());
    ASSERT_TRUE(
        halo.Run({in[r][1].data()}, {out[r][1].data()}, second[r]).ok());
    auto started = halo.Start({in[r][2].data()}, {out[r][2].data()});
    ASSERT_TRUE(started.ok());
    pending[r] = *started;
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      second[1].Record().Wait(absl::Milliseconds(20))));
  gate.Open();
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(first[r].Synchronize().ok());
    EXPECT_TRUE(second[r].Synchronize().ok());
    EXPECT_TRUE(pending[r]->Wait().ok());
    for (int call = 0; call < 3; ++call) {
      const float own = in[r][call][0], other = in[1 - r][call][0];
      EXPECT_EQ(out[r][call], Padded(other, own, other)) << r << " " << call;
    }
  }
}

TEST_F(HaloOrderTest, ForwardIsBehindTheCallsOnOtherStreams) {
  const auto ranks = Make({{{"x", 2}}}, {Columns("u", "x")}, shm_);
  ASSERT_NE(ranks, nullptr);
  HostStream streams[2];
  Gate gate(streams[1]);
  std::barrier<> enqueued(2);
  const absl::Status status = ranks->ForAll([&](int r) {
    const float own = static_cast<float>(r + 1), other = 3 - own;
    const std::vector<float> first = Block(own), second = Block(10 * own);
    std::vector<float> padded(3 * kRows), other_padded(3 * kRows);
    absl::Status run =
        ranks->at(r).Run({first.data()}, {padded.data()}, streams[r]);
    enqueued.arrive_and_wait();
    if (r == 0) gate.Open();
    run.Update(ranks->at(r).Forward({second.data()}, {other_padded.data()}));
    run.Update(streams[r].Synchronize());
    EXPECT_EQ(padded, Padded(other, own, other));
    EXPECT_EQ(other_padded, Padded(10 * other, 10 * own, 10 * other));
    return run;
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Rank r begins with axis x if r is even, else with axis y.
TEST_F(HaloOrderTest, ExchangesOverOtherAxesAreStartedInAnyOrder) {
  const auto ranks = Make({{{"x", 2}, {"y", 2}}},
                          {Columns("u", "x"), Columns("v", "y")}, inproc_);
  ASSERT_NE(ranks, nullptr);
  const absl::Status status = ranks->ForAll([&](int r) -> absl::Status {
    const float own = static_cast<float>(r);
    const float others[] = {static_cast<float>(r ^ 2),
                            static_cast<float>(r ^ 1)};
    const std::vector<float> block = Block(own);
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<float> padded[2];
      std::vector<PendingCollective> pending;
      for (const int halo : {r % 2, 1 - r % 2}) {
        padded[halo].resize(3 * kRows);
        auto started = ranks->at(r, static_cast<size_t>(halo))
                           .Start({block.data()}, {padded[halo].data()});
        if (!started.ok()) return started.status();
        pending.push_back(*started);
      }
      for (const PendingCollective& each : pending) {
        if (absl::Status waited = each.Wait(); !waited.ok()) return waited;
      }
      for (int halo = 0; halo < 2; ++halo) {
        EXPECT_EQ(padded[halo], Padded(others[halo], own, others[halo]));
      }
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// Forward, backward and sums of a training loop, in flight together.
TEST_F(HaloOrderTest, SumsRunBetweenTheExchanges) {
  const auto ranks =
      Make({{{"x", 3}}}, {Columns("u", "x"), Columns("v", "x")}, inproc_);
  ASSERT_NE(ranks, nullptr);
  const auto group = inproc_.Get({0, 1, 2}, /*number=*/9);
  ASSERT_TRUE(group.ok()) << group.status();
  const absl::Status status = ranks->ForAll([&](int r) -> absl::Status {
    const AxisGroup sums = MakeAxisGroup((**group)[r].get());
    const auto psum = sums.Prepare({.kind = AxisCollectiveKind::kPsum},
                                   {{DType::kF32, {kRows}}});
    if (!psum.ok()) return psum.status();
    const auto at = [](int rank) { return static_cast<float>((rank + 3) % 3); };
    for (int turn = 0; turn < 50; ++turn) {
      const float base = 10.0f * static_cast<float>(turn);
      const std::vector<float> block = Block(base + at(r));
      std::vector<float> padded[2] = {Padded(0, 0, 0), Padded(0, 0, 0)};
      std::vector<float> gradients = Padded(1, 2, 4 + base), back = Block(0),
                         sum = Block(0);
      std::vector<absl::StatusOr<PendingCollective>> pending;
      pending.push_back(
          ranks->at(r, 0).Start({block.data()}, {padded[0].data()}));
      pending.push_back(psum->Start({block.data()}, {sum.data()}));
      pending.push_back(
          ranks->at(r, 1).StartBackward({gradients.data()}, {back.data()}));
      pending.push_back(
          ranks->at(r, 1).Start({block.data()}, {padded[1].data()}));
      for (const auto& each : pending) {
        absl::Status waited = each.ok() ? each->Wait() : each.status();
        if (!waited.ok()) return waited;
      }
      for (const auto& got : padded) {
        EXPECT_EQ(got,
                  Padded(base + at(r - 1), base + at(r), base + at(r + 1)));
      }
      EXPECT_THAT(sum, Each(3 * base + 3));
      EXPECT_THAT(back, Each(7 + base));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// In each other order of additions the sum is 0.
TEST_F(HaloOrderTest, GradientsOfPeersAreAddedByRankAfterTheOwn) {
  const HaloSpec cell{.name = "u",
                      .tensors = {{.dtype = DType::kF32,
                                   .shape = {1},
                                   .dims = {{.dim = 0,
                                             .axis = "x",
                                             .low = 1,
                                             .high = 1,
                                             .edge = HaloEdge::kNone}}}}};
  const auto ranks = Make({{{"x", 3}}}, {cell}, inproc_);
  ASSERT_NE(ranks, nullptr);
  const absl::Status status = ranks->ForAll([&](int r) {
    // The padded blocks are the cells 0 1, 0 1 2 and 1 2.
    std::vector<std::vector<float>> gradients = {
        {0, -1e8}, {0, 1e8, 0}, {1, 0}};
    float sum = -7;
    const absl::Status called =
        ranks->at(r).Backward({gradients[r].data()}, {&sum});
    if (r == 1) {
      EXPECT_EQ(sum, 1);
    }
    return called;
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace lockstep
