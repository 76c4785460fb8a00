// A rank that destroys its GradientSync while the others train on, in each
// mode.

#include <string>

#include "absl/time/clock.h"
#include "tests/client/gradient/negotiated_job.h"

namespace lockstep::gradient {
namespace {

using testing::HasSubstr;

constexpr int kQuits = 1;  // this rank
constexpr int kSteps = 2;  // before it quits

class WithdrawalJob : public NegotiatedJob,
                      public testing::WithParamInterface<SyncMode> {
 protected:
  WithdrawalJob() { spec_.sync = GetParam(); }

  absl::Status Step(Device& device) {
    GradientSync& sync = device.sync;
    if (GetParam() == SyncMode::kReduceScatter) {
      LOCKSTEP_TEST_TRY(sync.GatherParameters());
      LOCKSTEP_TEST_TRY(sync.AwaitParameter(device.ids[0]));
    }
    if (GetParam() == SyncMode::kNegotiated) {
      LOCKSTEP_TEST_TRY(sync.BeginPass(device.ids));
    }
    LOCKSTEP_TEST_TRY(sync.Submit(device.ids[0]));
    return sync.Finish().status();
  }

  // The rank's program does something else until the epoch ends.
  static absl::Status Withdraw(Device& device) {
    device.owner.reset();
    while (device.session.status().ok()) absl::SleepFor(absl::Milliseconds(1));
    return device.session.status();
  }
};

TEST_P(WithdrawalJob, EndsTheEpochOfAllAndIsNamed) {
  const auto one = [](int) -> std::vector<ParameterOptions> {
    return {{.name = "w", .shape = {30}, .op = ReduceOp::kSum}};
  };
  const auto program = [this](Device& device) -> absl::Status {
    for (int step = 0;; ++step) {
      if (step == kSteps && device.rank() == kQuits) return Withdraw(device);
      LOCKSTEP_TEST_TRY(Step(device));
    }
  };
  for (const absl::Status& ended : Run(3, one, program)) {
    EXPECT_THAT(std::string(ended.message()),
                HasSubstr("destroyed its GradientSync after 2 steps"));
  }
}

// All ranks have run the same steps, so the others do not fail.
TEST_P(WithdrawalJob, AfterTheSameStepsOnEveryRankIsNoFailure) {
  const auto one = [](int) -> std::vector<ParameterOptions> {
    return {{.name = "w", .shape = {30}, .op = ReduceOp::kSum}};
  };
  RunWell(3, one, [this](Device& device) -> absl::Status {
    for (int step = 0; step < kSteps; ++step) {
      LOCKSTEP_TEST_TRY(Step(device));
    }
    device.owner.reset();
    if (device.rank() == kQuits) absl::SleepFor(absl::Milliseconds(300));
    return absl::OkStatus();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Each, WithdrawalJob,
    testing::Values(SyncMode::kStatic, SyncMode::kNegotiated,
                    SyncMode::kReduceScatter),
    [](const auto& info) {
      return std::string(info.param == SyncMode::kStatic       ? "static"
                         : info.param == SyncMode::kNegotiated ? "negotiated"
                                                               : "slices");
    });

}  // namespace
}  // namespace lockstep::gradient
