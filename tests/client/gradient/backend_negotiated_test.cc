// Negotiated mode on fake GPUs: whole jobs with the real coordinator core,
// whose ranks announce different parameters in every pass.

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "client/transport/nccl/nccl.h"
#include "tests/client/gradient/negotiated_job.h"
#include "tests/support/fake_gpu.h"

namespace lockstep::gradient {
namespace {

using testing::Each;
using testing::IsEmpty;

constexpr int kWorld = 3;
constexpr int kParameters = 4;
constexpr int kPasses = 8;

std::vector<ParameterOptions> Four(int) {
  std::vector<ParameterOptions> parameters;
  for (int p = 0; p < kParameters; ++p) {
    parameters.push_back({.name = "p" + std::to_string(p),
                          .shape = {5 + p},
                          .op = p % 2 == 0 ? ReduceOp::kMean : ReduceOp::kSum});
  }
  return parameters;
}

// Whether `rank` announces `parameter`; the same function on every rank.
bool Announces(int rank, int pass, int parameter) {
  std::mt19937 random(
      static_cast<unsigned>((pass * kParameters + parameter) * kWorld + rank));
  return random() % 3 != 0;
}
// The mean over one, two or three ranks is a whole number that bf16 represents.
float ValueOf(int rank, int pass, int parameter) {
  return static_cast<float>(6 * (rank + 1 + pass % 4 + parameter));
}

class NegotiatedOnFakeGpus
    : public NegotiatedJob,
      public testing::WithParamInterface<std::optional<DType>> {
 protected:
  ~NegotiatedOnFakeGpus() override {
    EXPECT_THAT(gpus_.violations(), IsEmpty());
  }

  absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport(
      int worker) override {
    return transport::nccl::MakeTransport(gpus_.TablesOf(worker));
  }

  absl::Span<float> Reached(Device& device, int parameter) {
    const absl::Span<float> view =
        *device.sync.Gradient<float>(device.ids[parameter]);
    return {gpus_.Reach(view.data()), view.size()};
  }

  fake::FakeGpus gpus_{{.seed = 11}};
};

INSTANTIATE_TEST_SUITE_P(Over, NegotiatedOnFakeGpus,
                         testing::Values(std::nullopt, DType::kBF16),
                         [](const auto& info) {
                           return std::string(info.param ? Name(*info.param)
                                                         : "NoWire");
                         });

TEST_P(NegotiatedOnFakeGpus, MeansAreOverThoseWhoAnnounced) {
  spec_.buckets.wire_dtype = GetParam();
  RunWell(kWorld, Four, [this](Device& device) -> absl::Status {
    for (int pass = 0; pass < kPasses; ++pass) {
      std::vector<ParameterId> mine;
      for (int p = 0; p < kParameters; ++p) {
        if (Announces(device.rank(), pass, p)) mine.push_back(device.ids[p]);
      }
      LOCKSTEP_TEST_TRY(device.sync.BeginPass(mine));
      for (int p = 0; p < kParameters; ++p) {
        if (!Announces(device.rank(), pass, p)) continue;
        const absl::Span<float> view = Reached(device, p);
        std::fill(view.begin(), view.end(), ValueOf(device.rank(), pass, p));
        LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[p]));
      }
      const auto verdict = device.sync.Finish({.samples = 1});
      if (!verdict.ok()) return verdict.status();
      for (int p = 0; p < kParameters; ++p) {
        float sum = 0;
        int announcers = 0;
        for (int rank = 0; rank < kWorld; ++rank) {
          if (!Announces(rank, pass, p)) continue;
          sum += ValueOf(rank, pass, p);
          ++announcers;
        }
        if (p % 2 == 0 && announcers > 0) {
          sum *= 1.0f / static_cast<float>(announcers);
        }
        const bool gave = Announces(device.rank(), pass, p);
        EXPECT_THAT(Reached(device, p), Each(gave ? sum : 0))
            << "rank " << device.rank() << ", pass " << pass << ", p" << p;
        EXPECT_EQ(verdict->contributed[p], announcers > 0);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace lockstep::gradient
