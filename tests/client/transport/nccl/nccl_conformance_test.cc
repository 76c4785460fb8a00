// Runs the conformance suite on the NCCL adapter over the fake.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fake_world.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using fake::FakeGpuWorld;
using fake::GpuOptions;

// A world that expects no violations.
class CleanWorld final : public conformance::World {
 public:
  explicit CleanWorld(const GpuOptions& options) : world_(options) {}
  ~CleanWorld() override {
    world_.End();
    EXPECT_THAT(world_.gpus().violations(), testing::IsEmpty());
  }

  transport::Transport& at(int rank) override { return world_.at(rank); }
  std::unique_ptr<Stream> MakeStream(int rank,
                                     const std::string& name) override {
    return world_.MakeStream(rank, name);
  }
  void Enqueue(Stream& stream, std::function<void()> work) override {
    world_.Enqueue(stream, std::move(work));
  }

 private:
  FakeGpuWorld world_;
};

// NCCL's ranks do not learn of each other's errors and departure.
constexpr conformance::Promises kNccl = {.rank_order = false,
                                         .sums_in_pairs = false,
                                         .notices_disagreement = false,
                                         .notices_who_goes = false,
                                         .any_order_between_groups = false};

// More than three ranks add threads of the same kinds, and no race that three
// do not have.
std::vector<conformance::Case> AllCases() {
  std::vector<conformance::Case> cases = conformance::Cases(
      [] { return std::make_unique<CleanWorld>(GpuOptions{.seed = 1}); },
      kNccl);
  if (kUnderThreadSanitizer) {
    cases.erase(std::remove_if(cases.begin(), cases.end(),
                               [](const auto& one) { return one.size > 3; }),
                cases.end());
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorConformance,
                         testing::ValuesIn(AllCases()), conformance::CaseName);

// Calls with long progress only make the same threads slower.
std::vector<conformance::Case> SlowCases() {
  std::vector<conformance::Case> cases;
  for (int size : {2, 3}) {
    if (kUnderThreadSanitizer) continue;
    cases.push_back({[] {
                       return std::make_unique<CleanWorld>(
                           GpuOptions{.seed = 2, .polls_max = 40});
                     },
                     size, kNccl});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(SlowNccl, CommunicatorConformance,
                         testing::ValuesIn(SlowCases()), conformance::CaseName);

}  // namespace
}  // namespace lockstep
