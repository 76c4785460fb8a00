// A training by captured steps detects no error in the engine, and every fault
// that is injected.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/gradient/capture_rank.h"
#include "tests/client/gradient/device_faults.h"
#include "tests/support/case_name.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

// Three launches; the second has a gradient that is not a number.
class CaptureDrill {
 public:
  CaptureDrill(ComputeFault fault, uint64_t seed)
      : backend_(seed), job_(&backend_, OptionsFor(fault)) {}

  std::string Run() {
    job_.Run([this](int rank, Engine&) { Train(rank); });
    for (const std::string& violation : backend_.violations()) Post(violation);
    return said_;
  }

 private:
  BackendJob::Options OptionsFor(ComputeFault fault) {
    return {.parameters = kThree,
            .decorate =
                [fault](int, std::unique_ptr<transport::DeviceContext> inner) {
                  return Spoil(fault, std::move(inner));
                },
            .on_failure =
                [this](int, const absl::Status& error) {
                  Post("failed: " + std::string(error.message()));
                  job_.AbortAll(error);
                }};
  }

  void Post(const std::string& what) {
    MutexLock lock(&mutex_);
    said_ += what + "\n";
  }

  void Train(int rank) {
    CaptureRank mine(&job_, rank);
    if (!mine.Capture().ok()) return Post("not captured");
    float sum = 0;
    for (int step = 0; step < 3; ++step) {
      mine.Load(step == 1 && rank == 1 ? NAN : 1);
      const auto verdict = mine.Launch({.samples = 1.0 + step});
      if (!verdict.ok()) return;
      if (step != 1) sum += 2;
      if (verdict->samples != 2 + 2 * step) Post("the samples are wrong");
      (void)mine.stream().Synchronize();
      if (mine.weights()[0] != sum) Post("a weight is not what it should be");
    }
  }

  Mutex mutex_;
  std::string said_ ABSL_GUARDED_BY(mutex_);
  FakeGpuBackend backend_;
  BackendJob job_;
};

TEST(CaptureDrillTest, FindsNothingInTheEngine) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(CaptureDrill(ComputeFault::kNone, seed).Run(), "") << seed;
  }
}

struct CaptureMistake {
  const char* name;
  ComputeFault fault;
  const char* sign;
};

class CaptureMistakeTest : public testing::TestWithParam<CaptureMistake> {};

TEST_P(CaptureMistakeTest, IsNoticed) {
  if (kUnderThreadSanitizer) {
    GTEST_SKIP() << "the mistakes are found without it, and some are races";
  }
  const CaptureMistake& mistake = GetParam();
  bool noticed = false;
  std::string said;
  for (uint64_t seed = 1; seed <= 20 && !noticed; ++seed) {
    said = CaptureDrill(mistake.fault, seed).Run();
    noticed = !said.empty() && said.find(mistake.sign) != std::string::npos;
  }
  EXPECT_TRUE(noticed) << said;
}

INSTANTIATE_TEST_SUITE_P(
    Captured, CaptureMistakeTest,
    testing::Values(
        CaptureMistake{"a launch says what the first one said",
                       ComputeFault::kSaysWhatTheFirstStepSaid,
                       "has ended the epoch in step"},
        CaptureMistake{"scalars commit, whatever the gate says",
                       ComputeFault::kAlwaysCommits, "a weight is not"},
        CaptureMistake{"a launch runs nothing", ComputeFault::kLaunchesNothing,
                       "did not decide"},
        CaptureMistake{"the norm is not cleared",
                       ComputeFault::kKeepsTheLastNorm, "a weight is not"},
        CaptureMistake{"the verdict does not wait for the norms beside it",
                       ComputeFault::kEverythingAside, ""}),
    [](const auto& info) { return CaseName(info.param.name); });

}  // namespace
}  // namespace lockstep::gradient
