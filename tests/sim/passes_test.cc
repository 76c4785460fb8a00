// Every order of events of two devices and a coordinator in negotiated mode:
// each device announces any of the parameters in each pass and submits them in
// any order, and every message and every decision arrives at any time. In every
// state the promises hold, and every history can be completed.

#include <cstdio>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/sim/passes_world.h"
#include "tests/support/sanitizers.h"

namespace lockstep::sim {
namespace {

std::shared_ptr<const core::PassGroups> BothInOneGroup() {
  const std::vector<Parameter> both = {{.name = "a", .shape = {2}},
                                       {.name = "b", .shape = {2}}};
  return std::make_shared<const core::PassGroups>(
      *plan::Compile({.mesh = {{{"data", kDevices}}},
                      .sync = SyncMode::kNegotiated,
                      .registrations = {both, both}}));
}

constexpr uint64_t kFewer = kUnderSanitizer ? 1 : 0;

struct HashOf {
  size_t operator()(const PassesWorld& world) const { return world.Hash(); }
};

class Exploration {
 public:
  explicit Exploration(const Bounds& bounds) {
    Visit(PassesWorld(BothInOneGroup(), bounds), "", 0);
    for (size_t i = 0; i < open_.size() && !testing::Test::HasFailure(); ++i) {
      const PassesWorld* const world = open_[i].world;
      auto next = world->Next();
      if (next.empty() && !world->Over()) {
        ADD_FAILURE() << "nothing can happen any more:" << Story(i);
      }
      for (auto& [event, after] : next) {
        ++transitions_;
        if (!after.broken().empty()) {
          ADD_FAILURE() << "broken: " << after.broken() << Story(i) << "\n  "
                        << event;
          break;
        }
        Visit(std::move(after), event, i);
      }
      ends_ += world->Over() ? 1 : 0;
    }
  }

  size_t states() const { return open_.size(); }
  size_t transitions() const { return transitions_; }
  size_t ends() const { return ends_; }

 private:
  struct Step {
    const PassesWorld* world;
    std::string event;
    size_t before;
  };

  void Visit(PassesWorld world, const std::string& event, size_t before) {
    const auto [place, is_new] = seen_.insert(std::move(world));
    if (is_new) open_.push_back({&*place, event, before});
  }

  std::string Story(size_t i) const {
    std::string story;
    for (; i != 0; i = open_[i].before) story = "\n  " + open_[i].event + story;
    return story;
  }

  std::unordered_set<PassesWorld, HashOf> seen_;
  std::vector<Step> open_;  // in the order of their discovery
  size_t transitions_ = 0;
  size_t ends_ = 0;
};

void Explore(const char* what, const Bounds& bounds, size_t states_min) {
  const Exploration exploration(bounds);
  EXPECT_GT(exploration.ends(), 0u);
  EXPECT_GT(exploration.states(), states_min) << "too few to mean much";
  std::printf("%d passes, %s: %zu states, %zu transitions, %zu ends\n",
              static_cast<int>(bounds.passes), what, exploration.states(),
              exploration.transitions(), exploration.ends());
  testing::Test::RecordProperty("states",
                                static_cast<int>(exploration.states()));
}

TEST(PassesTest, EveryOrderOfTwoDevicesThreePassesTwoParameters) {
  Explore("nothing goes wrong", {.passes = 3 - kFewer}, 1000);
}

TEST(PassesTest, EveryOrderWithARestartOfTheCoordinatorAtAnyPoint) {
  Explore("a restart", {.passes = 2 - kFewer, .crashes = 1}, 1000);
}

TEST(PassesTest, EveryOrderWithABrokenStreamAtAnyPoint) {
  Explore("a broken stream", {.passes = 2 - kFewer, .cuts = 1}, 1000);
}

}  // namespace
}  // namespace lockstep::sim
