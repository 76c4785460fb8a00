// Random exchanges of halos against the whole field, padded.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "client/transport/shm/shm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/job_run.h"
#include "tests/support/inproc/inproc.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Placement;
using halo_model::Bytes;
using halo_model::ExchangeBytes;
using halo_model::ExchangeValues;
using halo_model::HaloJob;
using halo_model::JobRun;
using halo_model::PassCall;
using halo_model::RandomHalos;

class RandomHaloTest : public testing::Test {
 protected:
  using MadeTransport = absl::StatusOr<std::unique_ptr<transport::Transport>>;

  // Both passes of all exchanges of a random job, in random order and forms,
  // all started before the first is waited for.
  void CheckJob(uint64_t seed, conformance::Groups& groups,
                const halo_model::DrawLimits& limits) {
    RandomHalos random(seed);
    const HaloJob job = random.DrawJob(limits);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Describe()));
    std::vector<ExchangeValues> values;
    std::vector<PassCall> calls;
    const bool on_stream = random.Draw(3) == 0;
    for (size_t e = 0; e < job.exchanges(); ++e) {
      values.push_back(random.DrawValues(job, e));
      for (const bool backward : {false, true}) {
        calls.push_back({.exchange = e,
                         .backward = backward,
                         .in_place = random.Draw(2) == 0,
                         .on_stream = on_stream});
      }
    }
    std::shuffle(calls.begin(), calls.end(), std::mt19937_64(seed));
    auto run = JobRun::Make(job, groups);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ((*run)->CheckBlocks(values), "");
    const Placement placement =
        random.Draw(2) == 0 ? Placement::kPrivate : Placement::kArena;
    const auto outputs = (*run)->Run(calls, values, placement);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    for (size_t c = 0; c < calls.size(); ++c) {
      const ExchangeValues& wanted = values[calls[c].exchange];
      EXPECT_TRUE((*outputs)[c] ==
                  (calls[c].backward ? wanted.block_gradients : wanted.padded))
          << (calls[c].backward ? "backward of h" : "forward of h")
          << calls[c].exchange << (calls[c].in_place ? ", in place" : "")
          << (calls[c].on_stream ? ", on a stream" : "");
    }
  }

  void CheckJobs(uint64_t first, int count, conformance::Groups& groups,
                 const halo_model::DrawLimits& limits = {}) {
    const uint64_t end = first + (kUnderSanitizer ? count / 8 : count);
    for (uint64_t seed = first; seed < end && !HasFailure(); ++seed) {
      CheckJob(seed, groups, limits);
    }
  }

  // <Hx - H0, y> and <x, H^T y> of a random job of f64 with this edge.
  void CheckAdjoint(HaloEdge edge, uint64_t seed) {
    RandomHalos random(seed);
    const HaloJob job = random.DrawJob(
        {.dtype = DType::kF64, .edge = edge, .exchanges_max = 1});
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Describe()));
    ExchangeValues x = random.DrawValues(job, 0), zero = x;
    for (auto& rank : x.blocks) {
      for (Bytes& b : rank) b = random.DrawReals<double>(b.size() / 8);
    }
    for (auto& rank : x.padded_gradients) {
      for (Bytes& b : rank) b = random.DrawReals<double>(b.size() / 8);
    }
    for (auto& rank : zero.blocks) {
      for (Bytes& b : rank) std::fill(b.begin(), b.end(), std::byte{0});
    }
    auto run = JobRun::Make(job, inproc_);
    ASSERT_TRUE(run.ok()) << run.status();
    const auto hx = (*run)->Run({{}, {.backward = true}}, {x}, {});
    const auto h0 = (*run)->Run({{}}, {zero}, {});
    ASSERT_TRUE(hx.ok()) << hx.status();
    ASSERT_TRUE(h0.ok()) << h0.status();
    Product left, right;
    for (int r = 0; r < job.ranks(); ++r) {
      for (size_t t = 0; t < x.models.size(); ++t) {
        left.Add((*hx)[0][r][t], x.padded_gradients[r][t], 1);
        left.Add((*h0)[0][r][t], x.padded_gradients[r][t], -1);
        right.Add(x.blocks[r][t], (*hx)[1][r][t], 1);
      }
    }
    EXPECT_NEAR(left.sum, right.sum, 1e-13 * left.magnitude);
  }

  // A sum of products, and that of their absolute values.
  struct Product {
    double sum = 0, magnitude = 0;
    void Add(const Bytes& a, const Bytes& b, double factor) {
      for (size_t i = 0; i < a.size(); i += sizeof(double)) {
        double x, y;
        std::memcpy(&x, &a[i], sizeof x);
        std::memcpy(&y, &b[i], sizeof y);
        sum += factor * x * y;
        magnitude += std::abs(x * y);
      }
    }
  };

  transport::InprocHub hub_;
  conformance::Groups inproc_{[this](int) -> MadeTransport {
    return transport::MakeInprocTransport(&hub_);
  }};
  conformance::Groups shm_{
      [](int) -> MadeTransport { return transport::MakeShmTransport(); }};
};

TEST_F(RandomHaloTest, EachRankGetsItsPartOfThePaddedField) {
  CheckJobs(1, 2400, inproc_);
}

TEST_F(RandomHaloTest, SoItDoesThroughSharedMemory) {
  CheckJobs(100000, 300, shm_);
}

// Most messages are larger than a slot of shared memory.
TEST_F(RandomHaloTest, SoDoLongerRows) {
  CheckJobs(200000, 120, shm_, {.longer_rows = 40});
}

class RandomAdjointTest : public RandomHaloTest,
                          public testing::WithParamInterface<HaloEdge> {};

TEST_P(RandomAdjointTest, BackwardIsTheTransposeOfForward) {
  for (uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    CheckAdjoint(GetParam(), seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, RandomAdjointTest,
                         testing::ValuesIn(kAllHaloEdges),
                         [](const auto& edge) {
                           return std::string(Name(edge.param));
                         });

}  // namespace
}  // namespace lockstep
