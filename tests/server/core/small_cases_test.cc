// Every order of events of a small job, up to a depth: two workers that join,
// lose their streams, resume, train, leave; and time that passes. In every
// state the promises hold, and following the protocol completes the job.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/core/sim_cluster.h"
#include "tests/support/sanitizers.h"

namespace lockstep::core {
namespace {

enum class WorkerEvent {
  kAdvances,
  kLosesStream,
  kGreetsAgain,
  kLeaves,
  kFails
};
constexpr WorkerEvent kAll[] = {
    WorkerEvent::kAdvances, WorkerEvent::kLosesStream,
    WorkerEvent::kGreetsAgain, WorkerEvent::kLeaves, WorkerEvent::kFails};

struct Choice {  // one move: a worker's event, or (-1) time passes
  int worker = -1;
  WorkerEvent event = WorkerEvent::kAdvances;
};

class SmallHistory {
 public:
  explicit SmallHistory(const std::vector<WorkerEvent>& allowed)
      : allowed_(allowed) {
    JobSpec spec = SpecOf(2, "small");
    spec.limits.max_restarts = 100;
    cluster_.StartJob(spec);
  }

  std::vector<Choice> Possible() {
    std::vector<Choice> moves;
    for (int i = 0; i < 2; ++i) {
      const Actor& actor = cluster_.actors()[i];
      const bool has_stream = actor.session.value != 0;
      for (const WorkerEvent event : allowed_) {
        if (event != WorkerEvent::kAdvances && !has_stream) continue;
        moves.push_back({i, event});
      }
    }
    if (cluster_.core().NextWake() < absl::InfiniteFuture()) {
      moves.push_back({});
    }
    return moves;
  }

  void Apply(const Choice& move) {
    if (move.worker < 0) {
      cluster_.Pass(cluster_.core().NextWake() - cluster_.now());
      return cluster_.WakeIfDue();
    }
    Actor& actor = cluster_.actors()[move.worker];
    switch (move.event) {
      case WorkerEvent::kAdvances: return cluster_.Move(actor);
      case WorkerEvent::kLosesStream: return cluster_.CutStream(actor);
      case WorkerEvent::kGreetsAgain: return cluster_.Greet(actor);
      case WorkerEvent::kLeaves:
        return cluster_.Post(actor, protocol::Leave{.clean = false});
      case WorkerEvent::kFails:
        return cluster_.Post(actor, protocol::LocalFailure{.call = "Submit"});
    }
  }

  void Finish() {
    for (int round = 0; round < 100 && !cluster_.JobIsOver(); ++round) {
      cluster_.Pass(absl::Milliseconds(20));
      cluster_.WakeIfDue();
      for (Actor& actor : cluster_.actors()) cluster_.Move(actor);
    }
    EXPECT_TRUE(cluster_.JobIsOver()) << "it never ends";
  }

  const SimCluster& cluster() const { return cluster_; }

 private:
  const std::vector<WorkerEvent> allowed_;
  SimCluster cluster_{2, /*steps=*/1};
};

// Runs every sequence of `depth` moves after `opening`; returns their number.
int ExploreAll(const std::vector<WorkerEvent>& allowed,
               std::vector<Choice> moves, int depth) {
  SmallHistory history(allowed);
  for (const Choice& move : moves) history.Apply(move);
  if (testing::Test::HasFailure()) {
    ADD_FAILURE() << history.cluster().LastEvents();
    return 0;
  }
  if (depth == 0) {
    history.Finish();
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << history.cluster().LastEvents();
    }
    return 1;
  }
  int explored = 0;
  for (const Choice& move : history.Possible()) {
    if (testing::Test::HasFailure()) break;
    moves.push_back(move);
    explored += ExploreAll(allowed, moves, depth - 1);
    moves.pop_back();
  }
  return explored;
}

// Sanitized builds skip the deepest moves.
constexpr int kShallower = kUnderSanitizer ? 1 : 0;

TEST(SmallCasesTest, EveryOrderFromTheFirstHello) {
  const int explored =
      ExploreAll({WorkerEvent::kAdvances, WorkerEvent::kLosesStream,
                  WorkerEvent::kGreetsAgain},
                 {}, 6 - kShallower);
  EXPECT_GT(explored, 1000);
  RecordProperty("histories", explored);
}

TEST(SmallCasesTest, EveryOrderFromAnEpochThatHasJustFormed) {
  const int explored = ExploreAll({std::begin(kAll), std::end(kAll)},
                                  {{0}, {1}}, 4 - kShallower);
  EXPECT_GT(explored, 500);
  RecordProperty("histories", explored);
}

TEST(SmallCasesTest, EveryOrderFromARunningEpoch) {
  std::vector<Choice> opening;
  for (int stage = 0; stage < 5; ++stage) {
    opening.push_back({0});
    opening.push_back({1});
  }
  const int explored =
      ExploreAll({std::begin(kAll), std::end(kAll)}, opening, 4 - kShallower);
  EXPECT_GT(explored, 500);
  RecordProperty("histories", explored);
}

}  // namespace
}  // namespace lockstep::core
