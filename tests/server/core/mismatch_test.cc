// Ranks that registered differently: before any transfer and within one round
// trip, every rank gets the same error, with each rank's registration.
//
//   what differs  x  which ranks differ  x  which rank registers last

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/rank_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kRanks = 4;

Parameter Weight() {
  return {.name = "model/w", .shape = {128, 64}, .axes = {"data"}};
}

struct Difference {
  std::string what;
  std::function<void(std::vector<Parameter>&)> make;
  std::string said_by_differing;
  std::string said_by_others = "[128,64] f32 mean over data";
};

std::vector<Difference> Differences() {
  using List = std::vector<Parameter>;
  return {
      {"shape",
       [](List& l) {
         l[0].shape = {128, 65};
       },
       "[128,65] f32 mean over data"},
      {"dimensions",
       [](List& l) {
         l[0].shape = {128, 64, 1};
       },
       "[128,64,1] f32 mean over data"},
      {"dtype", [](List& l) { l[0].dtype = DType::kBF16; },
       "[128,64] bf16 mean over data"},
      {"op", [](List& l) { l[0].op = ReduceOp::kSum; },
       "[128,64] f32 sum over data"},
      {"group", [](List& l) { l[0].axes = {}; }, "[128,64] f32 mean"},
      {"owner", [](List& l) { l[0].replicated_over = {"one"}; },
       "[128,64] f32 mean over data replicated over one"},
      {"missing", [](List& l) { l.erase(l.begin()); }, "missing"},
      {"spelling", [](List& l) { l[0].name = "model_1/w"; },
       "missing (it has model_1/w)"},
      {"spelling and shape",
       [](List& l) {
         l[0].name = "model_1/w";
         l[0].shape = {128, 65};
       },
       "missing (it has model_1/w)"},
  };
}

std::vector<std::vector<int>> DifferingRanks() {
  return {{0}, {1}, {3}, {0, 3}, {1, 2}};
}

std::string RanksBut(const std::vector<int>& ranks) {
  std::vector<int> others;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (std::count(ranks.begin(), ranks.end(), rank) == 0) {
      others.push_back(rank);
    }
  }
  return RankList(others);
}

class MismatchTest : public testing::Test {
 protected:
  static JobSpec Spec() {
    JobSpec spec = SpecOf(kRanks);
    spec.mesh.axes = {{"data", kRanks}, {"one", 1}};
    return spec;
  }

  void Begin() {
    stage_ = std::make_unique<CoordinatorFixture>(Spec());
    requested_ = {};
  }

  // All workers register, `last` last. Records the effects of that.
  void Register(const Difference& difference, const std::vector<int>& differing,
                int last) {
    stage_->JoinAll();
    for (int i = 1; i <= kRanks; ++i) {
      const int rank = (last + i) % kRanks;
      std::vector<Parameter> parameters = {Weight(), ParameterNamed("bias")};
      const bool differs =
          std::count(differing.begin(), differing.end(), rank) > 0;
      if (differs) difference.make(parameters);
      EXPECT_THAT(requested_, NoEffects()) << "before all have registered";
      requested_ = stage_->Register(rank + 1, parameters);
    }
  }

  // The epoch ends that were sent, by session.
  std::map<uint64_t, protocol::Cause> Ends() const {
    std::map<uint64_t, protocol::Cause> ends;
    for (const Effect& effect : stage_->effects()) {
      const auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      const auto* ended =
          std::get_if<protocol::EpochEnded>(&send->message.body);
      if (ended != nullptr) ends[send->session.value] = ended->cause;
    }
    return ends;
  }

  std::unique_ptr<CoordinatorFixture> stage_ =
      std::make_unique<CoordinatorFixture>(Spec());
  EffectList requested_;
};

TEST_F(MismatchTest, EveryRankLearnsWhatEachRankSaid) {
  for (const Difference& difference : Differences()) {
    for (const std::vector<int>& differing : DifferingRanks()) {
      for (int last = 0; last < kRanks; ++last) {
        SCOPED_TRACE(absl::StrCat(difference.what, " of ", RankList(differing),
                                  ", rank ", last, " comes last"));
        Begin();
        Register(difference, differing, last);
        const auto ends = Ends();
        ASSERT_EQ(ends.size(), size_t{kRanks})
            << testing::PrintToString(requested_);
        for (const auto& [session, cause] : ends) {
          EXPECT_EQ(cause, ends.begin()->second) << "the same for all";
        }
        const protocol::Cause& cause = ends.begin()->second;
        EXPECT_EQ(cause.kind, protocol::CauseKind::kMismatch);
        EXPECT_THAT(cause.message,
                    AllOf(HasSubstr("model/w: "),
                          HasSubstr(absl::StrCat(RankList(differing), ": ",
                                                 difference.said_by_differing)),
                          HasSubstr(absl::StrCat(RanksBut(differing), ": ",
                                                 difference.said_by_others)),
                          Not(HasSubstr("bias"))));
        const MessageMatcher ended = EpochEndedForGood(1, cause.message);
        EXPECT_THAT(requested_,
                    EffectsAre(Persists(EpochFinished(1)),
                               Persists(JobEnded(record::JobOutcome::kFailed)),
                               Sends(1, ended), Sends(2, ended),
                               Sends(3, ended), Sends(4, ended)))
            << "no byte may move";
        EXPECT_EQ(stage_->View().state, JobState::kFailed);
      }
    }
  }
}

TEST_F(MismatchTest, EveryRankOfItsOwnOpinionIsListed) {
  stage_->JoinAll();
  for (int rank = 0; rank < kRanks; ++rank) {
    Parameter parameter = Weight();
    parameter.shape = {rank + 1};
    requested_ = stage_->Register(rank + 1, {parameter});
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(Ends()[1].message,
                HasSubstr(absl::StrCat("rank ", rank, ": [", rank + 1, "]")));
  }
}

// --- Machines ----------------------------------------------------------------

// Workers 1 and 2 are on one machine, 3 on another.
class MachinesTest : public testing::Test {
 protected:
  static void Join(CoordinatorFixture& fixture, const std::string& boot) {
    for (int i = 1; i <= 3; ++i) {
      protocol::Hello hello = fixture.HelloOf(i);
      if (i == 3) hello.process.boot_id = boot;
      if (i == 3) hello.process.host = "b";
      fixture.Hello(i, hello);
    }
  }
};

TEST_F(MachinesTest, DataCrossesNoNetworkThatNobodyTrusts) {
  CoordinatorFixture fixture(SpecOf(3));
  Join(fixture, "another");
  fixture.RegisterAll();
  EXPECT_EQ(fixture.View().state, JobState::kFailed);
  EXPECT_THAT(fixture.View().cause.message,
              AllOf(HasSubstr("the workers are on 2 machines"),
                    HasSubstr("w-3 on b"), HasSubstr("`data_plane: trusted`")));
}

TEST_F(MachinesTest, ATrustedNetworkIsNoObstacle) {
  JobSpec spec = SpecOf(3);
  spec.data_plane = DataPlane::kTrusted;
  CoordinatorFixture fixture(spec);
  Join(fixture, "another");
  fixture.RegisterAll();
  EXPECT_NE(fixture.View().state, JobState::kFailed);
}

// Containers of one machine have names of their own.
TEST_F(MachinesTest, NorAreSeveralHostsOfOneMachine) {
  CoordinatorFixture fixture(SpecOf(3));
  Join(fixture, CoordinatorFixture::ProcessOf(1).boot_id);
  fixture.RegisterAll();
  EXPECT_NE(fixture.View().state, JobState::kFailed);
}

TEST_F(MismatchTest, AnotherWorldIsRefusedAtTheDoor) {
  stage_->Hello(1);
  protocol::Hello other = stage_->HelloOf(2);
  other.spec->mesh.axes[0].size = 8;
  EXPECT_THAT(
      stage_->Hello(2, other),
      Refuses(
          2, StatusCode::kInvalidArgument,
          HasSubstr("mesh: data=4,one=1 in the job, data=8,one=1 from w-2")));
}

}  // namespace
}  // namespace lockstep::core
