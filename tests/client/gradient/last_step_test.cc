// How a whole job ends after its last verdict, for a program with further steps
// in flight.

#include <future>
#include <vector>

#include "tests/client/gradient/negotiated_job.h"

namespace lockstep::gradient {
namespace {

class LastStepTest : public NegotiatedJob {
 protected:
  LastStepTest() { spec_.sync = SyncMode::kStatic; }
};

// Three steps, all begun before the first has passed.
absl::Status RunPastTheLast(Device& device) {
  std::promise<void> begun;
  HostStream stream("test-stream");
  stream.Enqueue([begun = begun.get_future()]() mutable {
    begun.wait();
    return absl::OkStatus();
  });
  std::vector<absl::StatusOr<PendingVerdict>> steps;
  for (int step = 0; step < 3; ++step) {
    steps.push_back(device.sync.FinishAsync({.more_data = false}, 1, stream));
  }
  begun.set_value();
  for (auto& step : steps) LOCKSTEP_TEST_TRY(step.status());
  const absl::StatusOr<Verdict> last = steps[0]->Wait();
  LOCKSTEP_TEST_TRY(last.status());
  EXPECT_TRUE(last->IsLast());
  for (int step : {1, 2}) {
    const absl::Status given_up = steps[step]->Wait().status();
    EXPECT_TRUE(absl::IsCancelled(given_up)) << given_up;
    EXPECT_THAT(given_up.message(), testing::HasSubstr("was the last"));
  }
  EXPECT_FALSE(stream.Synchronize().ok());
  return absl::OkStatus();
}

TEST_F(LastStepTest, StepsInFlightBehindItAreNoFailure) {
  RunWell(
      2, [](int) { return std::vector<ParameterOptions>{{.name = "w"}}; },
      RunPastTheLast);
  EXPECT_EQ(server_.Describe("job")->state, JobState::kCompleted);
}

}  // namespace
}  // namespace lockstep::gradient
