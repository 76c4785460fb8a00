// Every order of events of a small job, up to a depth: two workers that join,
// lose their streams, resume, train, leave; and time that passes. In every
// state the promises hold, and following the protocol completes the job.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/core/sim_cluster.h"
#include "tests/support/slow.h"

namespace lockstep::core {
namespace {

enum class Happens { kGoesOn, kIsCut, kGreetsAnew, kLeaves, kFails };
constexpr Happens kAll[] = {Happens::kGoesOn, Happens::kIsCut,
                            Happens::kGreetsAnew, Happens::kLeaves,
                            Happens::kFails};

struct Turnout {  // one move: a worker's event, or (-1) time passes
  int actor = -1;
  Happens what = Happens::kGoesOn;
};

class Play {
 public:
  explicit Play(const std::vector<Happens>& repertoire)
      : repertoire_(repertoire) {
    JobSpec spec = SpecOf(2, "small");
    spec.limits.max_restarts = 100;
    theatre_.StartJob(spec);
  }

  std::vector<Turnout> Possible() {
    std::vector<Turnout> moves;
    for (int i = 0; i < 2; ++i) {
      const Actor& actor = theatre_.actors()[i];
      const bool has_stream = actor.session.value != 0;
      for (const Happens what : repertoire_) {
        if (what != Happens::kGoesOn && !has_stream) continue;
        moves.push_back({i, what});
      }
    }
    if (theatre_.core().NextWake() < absl::InfiniteFuture()) {
      moves.push_back({});
    }
    return moves;
  }

  void Make(const Turnout& move) {
    if (move.actor < 0) {
      theatre_.Pass(theatre_.core().NextWake() - theatre_.now());
      return theatre_.WakeIfDue();
    }
    Actor& actor = theatre_.actors()[move.actor];
    switch (move.what) {
      case Happens::kGoesOn: return theatre_.Move(actor);
      case Happens::kIsCut: return theatre_.CutStream(actor);
      case Happens::kGreetsAnew: return theatre_.Greet(actor);
      case Happens::kLeaves:
        return theatre_.Post(actor, protocol::Leave{.clean = false});
      case Happens::kFails:
        return theatre_.Post(actor, protocol::LocalFailure{.call = "Submit"});
    }
  }

  void Calm() {
    for (int round = 0; round < 100 && !theatre_.JobIsOver(); ++round) {
      theatre_.Pass(absl::Milliseconds(20));
      theatre_.WakeIfDue();
      for (Actor& actor : theatre_.actors()) theatre_.Move(actor);
    }
    EXPECT_TRUE(theatre_.JobIsOver()) << "it never ends";
  }

  const SimCluster& theatre() const { return theatre_; }

 private:
  const std::vector<Happens> repertoire_;
  SimCluster theatre_{2, /*steps=*/1};
};

// Runs every sequence of `depth` moves after `opening`; returns their number.
int PlayAll(const std::vector<Happens>& repertoire, std::vector<Turnout> moves,
            int depth) {
  Play play(repertoire);
  for (const Turnout& move : moves) play.Make(move);
  if (testing::Test::HasFailure()) {
    ADD_FAILURE() << play.theatre().LastEvents();
    return 0;
  }
  if (depth == 0) {
    play.Calm();
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << play.theatre().LastEvents();
    }
    return 1;
  }
  int played = 0;
  for (const Turnout& move : play.Possible()) {
    if (testing::Test::HasFailure()) break;
    moves.push_back(move);
    played += PlayAll(repertoire, moves, depth - 1);
    moves.pop_back();
  }
  return played;
}

// Sanitized builds skip the deepest moves.
constexpr int kShallower = kIsSlow ? 1 : 0;

TEST(SmallCasesTest, EveryOrderFromTheFirstHello) {
  const int played =
      PlayAll({Happens::kGoesOn, Happens::kIsCut, Happens::kGreetsAnew}, {},
              6 - kShallower);
  EXPECT_GT(played, 1000);
  RecordProperty("histories", played);
}

TEST(SmallCasesTest, EveryOrderFromAnEpochThatHasJustFormed) {
  const int played =
      PlayAll({std::begin(kAll), std::end(kAll)}, {{0}, {1}}, 4 - kShallower);
  EXPECT_GT(played, 500);
  RecordProperty("histories", played);
}

TEST(SmallCasesTest, EveryOrderFromARunningEpoch) {
  std::vector<Turnout> opening;
  for (int stage = 0; stage < 5; ++stage) {
    opening.push_back({0});
    opening.push_back({1});
  }
  const int played =
      PlayAll({std::begin(kAll), std::end(kAll)}, opening, 4 - kShallower);
  EXPECT_GT(played, 500);
  RecordProperty("histories", played);
}

}  // namespace
}  // namespace lockstep::core
