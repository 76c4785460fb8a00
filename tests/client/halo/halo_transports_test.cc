// The sums of gradients have the same bits on every transport and in every run.

#include <cstring>
#include <optional>

#include "client/transport/gloo/gloo.h"
#include "client/transport/shm/shm.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/job_run.h"
#include "tests/conformance/cases/element_text.h"
#include "tests/support/inproc/inproc.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Groups;
using conformance::Placement;
using halo_model::Bytes;
using halo_model::ExchangeBytes;
using halo_model::ExchangeValues;
using halo_model::HaloJob;
using halo_model::JobRun;
using halo_model::RandomHalos;

class HaloTransportsTest : public testing::TestWithParam<DType> {
 protected:
  using MadeTransport = absl::StatusOr<std::unique_ptr<transport::Transport>>;

  // Gradients whose sums depend on the order of their summands.
  static ExchangeValues DrawRounded(RandomHalos& random, const HaloJob& job) {
    ExchangeValues values = random.DrawValues(job, 0);
    const size_t size = SizeOf(GetParam());
    for (auto& rank : values.padded_gradients) {
      for (Bytes& bytes : rank) {
        for (size_t i = 0; i < bytes.size(); i += size) {
          const double value = (random.Draw(2'000'001) - 1'000'000) / 3e5;
          conformance::StoreNumber(GetParam(), value, &bytes[i]);
        }
      }
    }
    return values;
  }

  static std::optional<ExchangeBytes> Gradients(const HaloJob& job,
                                                const ExchangeValues& values,
                                                Groups& groups,
                                                Placement placement,
                                                bool in_place) {
    auto run = JobRun::Make(job, groups);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return std::nullopt;
    auto outputs = (*run)->Run({{.backward = true, .in_place = in_place}},
                               {values}, placement);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (!outputs.ok()) return std::nullopt;
    return std::move((*outputs)[0]);
  }

  transport::InprocHub hub_;
  Groups inproc_{[this](int) -> MadeTransport {
    return transport::MakeInprocTransport(&hub_);
  }};
  Groups shm_{
      [](int) -> MadeTransport { return transport::MakeShmTransport(); }};
  Groups gloo_{
      [](int) -> MadeTransport { return transport::MakeGlooTransport({}); }};
};

TEST_P(HaloTransportsTest, GradientsHaveTheSameBits) {
  constexpr uint64_t kJobs = kUnderSanitizer ? 3 : 12;
  for (uint64_t seed = 1; seed <= kJobs && !HasFailure(); ++seed) {
    RandomHalos random(seed);
    const HaloJob job = random.DrawJob({.dtype = GetParam(),
                                        .exchanges_max = 1,
                                        .longer_rows = seed % 3 == 0 ? 40 : 1});
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", job.Describe()));
    const ExchangeValues values = DrawRounded(random, job);
    const auto wanted =
        Gradients(job, values, inproc_, Placement::kPrivate, false);
    ASSERT_TRUE(wanted.has_value());
    for (Groups* groups : {&inproc_, &shm_, &gloo_}) {
      for (const Placement placement :
           {Placement::kPrivate, Placement::kArena}) {
        for (const bool in_place : {false, true}) {
          EXPECT_TRUE(Gradients(job, values, *groups, placement, in_place) ==
                      wanted)
              << (groups == &inproc_ ? "inproc"
                  : groups == &shm_  ? "shm"
                                     : "gloo")
              << (placement == Placement::kArena ? ", arena" : "")
              << (in_place ? ", in place" : "");
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, HaloTransportsTest,
                         testing::Values(DType::kF32, DType::kF64, DType::kF16,
                                         DType::kBF16, DType::kC64,
                                         DType::kF8E4M3),
                         [](const auto& dtype) {
                           return std::string(Name(dtype.param));
                         });

}  // namespace
}  // namespace lockstep
