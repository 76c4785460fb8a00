// Checkpoints: opening the directory, saves and their outcome, restarts of the
// coordinator, and an operator's request to save.

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/checkpoint_tracker.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/describe.h"
#include "tests/server/core/effect_matchers.h"
#include "tests/server/core/savers.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Status kNoSpace = absl::ResourceExhaustedError("no space: w");

class CheckpointsTest : public testing::Test {
 protected:
  explicit CheckpointsTest(int world = 3) : fixture_(SpecOf(world)) {
    fixture_.RunAll();
  }
  std::string LastEvent() { return LinesOf(fixture_).back(); }

  CoordinatorFixture fixture_;
  Savers ranks_{&fixture_};
};

// --- Saves ------------------------------------------------------------------

TEST_F(CheckpointsTest, ASaveIsRecordedBeforeTheMemberAndTheOutcomeAreTold) {
  ranks_.Open();
  for (const int rank : {0, 1, 2}) ranks_.Writes(rank, 1, 20);
  EXPECT_THAT(ranks_.Wrote(2, 1, 20), NoEffects());
  EXPECT_THAT(ranks_.Wrote(0, 1, 20), NoEffects());
  fixture_.Pass(3);
  const std::string prepared = Describe(ranks_.Wrote(1, 1, 20).effects);
  const size_t recorded = prepared.find("prepared save 1 of step 20 attempt 5");
  ASSERT_NE(recorded, std::string::npos) << prepared;
  EXPECT_LT(recorded, prepared.find(" prepared 1:"));
  EXPECT_EQ(ranks_.Member(), 0);
  EXPECT_THAT(ranks_.news[0].prepared->part_hashes,
              ElementsAre(Savers::HashOf(0, 1), Savers::HashOf(1, 1),
                          Savers::HashOf(2, 1)));
  const std::string committed =
      Describe(ranks_.Commits(0, absl::OkStatus()).effects);
  EXPECT_LT(committed.find("committed save 1 of step 20 attempt 5"),
            committed.find("decided 1"));
  for (const auto& news : ranks_.news) {
    EXPECT_EQ(news.decided, 1u);
    EXPECT_THAT(news.faults, IsEmpty());
    EXPECT_FALSE(news.prepared);
  }
  EXPECT_EQ(LastEvent(),
            "checkpoint of step 20 committed (attempt 5, 3.0 MiB in 3.0 s)");
  EXPECT_THAT(ranks_.Says(0), NoEffects()) << "a repetition";
  for (const int rank : {0, 1, 2}) ranks_.Wrote(rank, 2, 30);
  EXPECT_THAT(ranks_.news[0].prepared->number, 2u);
  ranks_.Commits(0, absl::OkStatus());
  EXPECT_EQ(fixture_.durable_job().checkpoint->name,
            (CheckpointName{30, 1, 6}));
  const auto job = fixture_.core().Measure(fixture_.now()).living[0];
  EXPECT_EQ(job.checkpoint_step, 30);
  EXPECT_EQ(job.checkpoint_at, fixture_.now());
  EXPECT_EQ(job.saves_failed, 0u);
}

TEST_F(CheckpointsTest, AFailureIsDecidedWhenNoRankWritesAnyMore) {
  ranks_.Open();
  ranks_.Writes(0, 1, 20);
  ranks_.Fails(1, 1, 20, kNoSpace);
  EXPECT_EQ(ranks_.news[1].decided, 0u);
  ranks_.Wrote(0, 1, 20);
  EXPECT_EQ(ranks_.news[1].decided, 0u) << "rank 2 has not begun";
  ranks_.Wrote(2, 1, 20);
  for (const auto& news : ranks_.news) {
    EXPECT_EQ(news.decided, 1u);
    EXPECT_THAT(news.faults,
                ElementsAre(protocol::CheckpointFault{1, kNoSpace}));
  }
  EXPECT_EQ(LastEvent(),
            "checkpoint of step 20 failed: rank 1: RESOURCE_EXHAUSTED: no "
            "space: w");
  EXPECT_EQ(fixture_.core().Measure(fixture_.now()).living[0].saves_failed, 1u);
  for (const int rank : {0, 1, 2}) ranks_.Wrote(rank, 2, 30);
  EXPECT_EQ(ranks_.Member(), 0) << "the next save is another matter";
}

TEST_F(CheckpointsTest, ARankThatLeavesWithoutSavingFailsTheSave) {
  ranks_.Open();
  ranks_.Wrote(0, 1, 20);
  ranks_.Wrote(1, 1, 20);
  ranks_.Leaves(2);
  ASSERT_EQ(ranks_.news[0].decided, 1u);
  ASSERT_EQ(ranks_.news[0].faults.size(), 1u);
  EXPECT_EQ(ranks_.news[0].faults[0].rank, 2);
  EXPECT_THAT(std::string(ranks_.news[0].faults[0].error.message()),
              HasSubstr("left without saving step 20"));
}

TEST_F(CheckpointsTest, OneSaveHasOneStep) {
  ranks_.Open();
  ranks_.Wrote(0, 1, 20);
  ranks_.Wrote(1, 1, 25);
  ranks_.Wrote(2, 1, 20);
  ASSERT_EQ(ranks_.news[0].faults.size(), 1u);
  EXPECT_EQ(ranks_.news[0].faults[0].rank, 1);
  EXPECT_THAT(std::string(ranks_.news[0].faults[0].error.message()),
              AllOf(HasSubstr("step 25"), HasSubstr("rank 0 saved step 20")));
}

TEST_F(CheckpointsTest, ASaveAheadOfTheOutcomeEndsTheEpoch) {
  ranks_.Open();
  ranks_.Wrote(1, 2, 20);
  EXPECT_THAT(fixture_.View().cause.message,
              AllOf(HasSubstr("w-2"), HasSubstr("begins save 2")));
}

class ManyMembersTest : public CheckpointsTest {
 protected:
  ManyMembersTest() : CheckpointsTest(5) {}
};

TEST_F(ManyMembersTest, AnotherMemberWritesTheManifestAtMostThree) {
  ranks_.Open();
  for (int rank = 0; rank < 5; ++rank) ranks_.Wrote(rank, 1, 20);
  EXPECT_EQ(ranks_.Member(), 0);
  ranks_.Commits(0, kNoSpace);
  EXPECT_EQ(ranks_.Member(), 1);
  ranks_.Leaves(1);
  ranks_.news[1].prepared.reset();
  EXPECT_EQ(ranks_.Member(), 2) << "the member has left";
  ranks_.Commits(2, kNoSpace);
  EXPECT_EQ(ranks_.Member(), 3);
  EXPECT_EQ(ranks_.news[3].decided, 0u);
  ranks_.Commits(3, kNoSpace);
  EXPECT_EQ(ranks_.Member(), -1);
  EXPECT_EQ(ranks_.news[4].decided, 1u);
  EXPECT_EQ(ranks_.news[4].faults.size(), 3u);
}

TEST_F(ManyMembersTest, ANewStreamLearnsAllAndTheLowestRankWithOneIsTheMember) {
  ranks_.Open();
  fixture_.Closes(1);
  for (const int rank : {1, 2, 3, 4}) ranks_.Wrote(rank, 1, 20);
  ranks_.Resume(0);
  EXPECT_TRUE(ranks_.news[0].opened);
  fixture_.Closes(101);
  EXPECT_EQ(ranks_.Member(), -1);
  ranks_.Resume(0);
  ranks_.Wrote(0, 1, 20);
  EXPECT_EQ(ranks_.Member(), 0);
}

// --- Restarts of the coordinator --------------------------------------------

// At each point of two saves, the first of which fails; with the ranks in each
// order.
TEST(CheckpointRestartTest, TheRanksReportsAreEnoughAtEveryPoint) {
  for (int point = 0; point < 12; ++point) {
    std::vector<int> order = {0, 1, 2};
    do {
      SCOPED_TRACE(
          absl::StrCat("restarts at ", point, ", first rank ", order[0]));
      CoordinatorFixture fixture(SpecOf(3));
      fixture.RunAll();
      Savers ranks(&fixture);
      int at = 0;
      const auto may_restart = [&] {
        if (at++ == point) ranks.Restart(order);
      };
      ranks.Open(CheckpointName{15, 0, 4});
      may_restart();
      for (uint64_t number = 1; number <= 2; ++number) {
        for (const int rank : {0, 1, 2}) {
          if (number == 1 && rank == 1) {
            ranks.Fails(rank, number, 20, kNoSpace);
          } else {
            ranks.Wrote(rank, number, 20);
          }
          may_restart();
        }
        if (number == 1) {
          ASSERT_EQ(ranks.news[2].decided, 1u);
          continue;
        }
        ASSERT_GE(ranks.Member(), 0);
        ranks.Commits(ranks.Member(), absl::OkStatus());
        may_restart();
      }
      for (const auto& news : ranks.news) {
        EXPECT_EQ(news.decided, 2u);
        EXPECT_THAT(news.faults, IsEmpty());
      }
      EXPECT_EQ(fixture.durable_job().checkpoint->name,
                (CheckpointName{20, 1, 6}));
      EXPECT_EQ(fixture.View().checkpoint.committed,
                (CheckpointName{20, 1, 6}));
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(CheckpointRestartTest, ARankThatLeftHadWrittenWhatWasPrepared) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  Savers ranks(&fixture);
  ranks.Open();
  ranks.Wrote(0, 1, 20);
  ranks.Wrote(1, 1, 20);
  ranks.Leaves(0);
  ranks.news[0].prepared.reset();
  ranks.Restart({1});
  EXPECT_EQ(ranks.Member(), 1);
  ASSERT_TRUE(ranks.news[1].prepared);
  EXPECT_EQ(ranks.news[1].prepared->part_hashes[0], Savers::HashOf(0, 1));
  ranks.Commits(1, absl::OkStatus());
  EXPECT_EQ(ranks.news[1].decided, 1u);
  EXPECT_THAT(ranks.news[1].faults, IsEmpty());
}

// Ranks in any order, with failures, lost streams and restarts: all ranks learn
// the same outcome of each save, and a manifest has the parts of all ranks.
TEST(CheckpointHistoriesTest, AllRanksLearnOneOutcomeOfEachSave) {
  int committed = 0;
  int failed = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const auto one_in = [&](int n) { return random() % n == 0; };
    const int world = 1 + static_cast<int>(random() % 4);
    CoordinatorFixture fixture(SpecOf(world));
    fixture.RunAll();
    Savers ranks(&fixture);
    ranks.Open();
    for (uint64_t number = 1; number <= 4; ++number) {
      const auto step = static_cast<int64_t>(10 * number);
      std::vector<int> written(world);
      bool any_failed = false;
      int turns = 0;
      const auto all_know = [&] {
        return std::all_of(
            ranks.news.begin(), ranks.news.end(),
            [&](const auto& news) { return news.decided >= number; });
      };
      while (!all_know()) {
        ASSERT_LT(++turns, 1000) << "save " << number << " is not decided";
        const int rank = static_cast<int>(random() % world);
        if (one_in(25)) {
          std::vector<int> order(world);
          std::iota(order.begin(), order.end(), 0);
          std::shuffle(order.begin(), order.end(), random);
          ranks.Restart(order);
        } else if (one_in(10)) {
          ranks.Resume(rank);
          ranks.Says(rank);
        } else if (written[rank] == 0 && one_in(2)) {
          ranks.Writes(rank, number, step, random() % 100);
        } else if (written[rank] == 0) {
          written[rank] = 1;
          if (one_in(8)) {
            any_failed = true;
            ranks.Fails(rank, number, step, kNoSpace);
          } else {
            ranks.Wrote(rank, number, step);
          }
        } else if (ranks.news[rank].prepared &&
                   !ranks.reports[rank].save->committed) {
          ASSERT_FALSE(any_failed);
          const auto& prepared = *ranks.news[rank].prepared;
          EXPECT_EQ(prepared.number, number);
          for (int r = 0; r < world; ++r) {
            EXPECT_EQ(prepared.part_hashes[r], Savers::HashOf(r, number));
          }
          ranks.Commits(rank, one_in(3) ? kNoSpace : absl::OkStatus());
        }
      }
      const bool is_committed = ranks.news[0].faults.empty();
      bool any_committed = false;
      for (int r = 0; r < world; ++r) {
        EXPECT_EQ(ranks.news[r].faults, ranks.news[0].faults);
        const auto& done = ranks.reports[r].save->committed;
        any_committed |= done && done->ok();
      }
      EXPECT_EQ(is_committed, any_committed);
      ++(is_committed ? committed : failed);
    }
  }
  EXPECT_GT(committed, 20);
  EXPECT_GT(failed, 20);
}

// --- Stuck ranks ------------------------------------------------------------

TEST_F(CheckpointsTest, BytesAreProgressAndWhoHasWrittenWaits) {
  ranks_.Open();
  ranks_.Wrote(0, 1, 20);
  ranks_.Wrote(2, 1, 20);
  for (uint64_t done = 0; done < 10; ++done) {
    ranks_.Writes(1, 1, 20, done);
    fixture_.WaitWithHeartbeats(20, {1, 2, 3});
  }
  EXPECT_THAT(fixture_.Stalls(), IsEmpty());
  EXPECT_THAT(fixture_.View().waits,
              testing::Contains(testing::Field(
                  &WaitView::why,
                  HasSubstr("has not written its part of the checkpoint"))));
  fixture_.WaitWithHeartbeats(31, {1, 2, 3});
  ASSERT_EQ(fixture_.Stalls().size(), 1u);
  EXPECT_THAT(fixture_.Stalls()[0], HasSubstr("w-2 (rank 1"));
  EXPECT_THAT(LastEvent(), HasSubstr("has not written its part"));
}

// Rank 1 waits for rank 0 in a verdict, rank 0 for rank 1's part.
TEST_F(CheckpointsTest, AWriterIsAtFaultThoughItWaitsInAVerdict) {
  ranks_.Open();
  ranks_.Wrote(0, 1, 20);
  ranks_.Wrote(2, 1, 20);
  ranks_.Writes(1, 1, 20);
  fixture_.Says(1, Stands(20, protocol::Phase::kIdle));
  fixture_.Says(2, Stands(21, protocol::Phase::kVerdict));
  fixture_.Says(3, Stands(21, protocol::Phase::kVerdict));
  fixture_.WaitWithHeartbeats(31, {1, 2, 3});
  EXPECT_THAT(LinesOf(fixture_),
              testing::Contains(AllOf(HasSubstr("w-2 (rank 1"),
                                      HasSubstr("has not written its part"))));
}

// Rank 1 was found to wait before the others were: they wait for its save.
TEST_F(CheckpointsTest, WhoNeverSavesIsAtFaultWheneverItIsDue) {
  ranks_.Open();
  fixture_.Says(2, Stands(21, protocol::Phase::kVerdict));
  fixture_.WaitWithHeartbeats(7, {1, 2, 3});
  ranks_.Wrote(0, 1, 20);
  ranks_.Wrote(2, 1, 20);
  fixture_.Says(1, Stands(20, protocol::Phase::kIdle));
  fixture_.Says(3, Stands(21, protocol::Phase::kVerdict));
  fixture_.WaitWithHeartbeats(31, {1, 2, 3});
  EXPECT_THAT(LinesOf(fixture_),
              testing::Contains(AllOf(HasSubstr("w-2 (rank 1"),
                                      HasSubstr("has not written its part"))));
  ASSERT_EQ(fixture_.Stalls().size(), 1u);
  EXPECT_THAT(fixture_.Stalls()[0], HasSubstr("w-2 (rank 1"));
}

// --- The view ---------------------------------------------------------------

TEST_F(CheckpointsTest, TheViewHasTheSaveInProgressAndTheLastOnes) {
  EXPECT_TRUE(fixture_.View().checkpoint.empty());
  ranks_.Open();
  ranks_.Writes(0, 1, 20, 512 << 10);
  fixture_.Pass(2);
  ranks_.Wrote(1, 1, 20);
  CheckpointView view = fixture_.View().checkpoint;
  EXPECT_TRUE(view.saving);
  EXPECT_EQ(view.saving_step, 20);
  EXPECT_EQ(view.bytes_done, 3u << 19);
  EXPECT_EQ(view.bytes_total, 2u << 20);
  EXPECT_EQ(view.bytes_per_second(), 3 << 18);
  EXPECT_FALSE(view.committed);
  ranks_.Wrote(0, 1, 20);
  ranks_.Wrote(2, 1, 20);
  ranks_.Commits(0, absl::OkStatus());
  for (const int rank : {0, 1, 2}) ranks_.Fails(rank, 2, 30, kNoSpace);
  fixture_.Pass(4);
  view = fixture_.View().checkpoint;
  EXPECT_FALSE(view.saving);
  EXPECT_EQ(view.committed, (CheckpointName{20, 1, 5}));
  EXPECT_EQ(view.committed_ago, absl::Seconds(4));
  EXPECT_EQ(view.failed_step, 30);
  EXPECT_THAT(view.failure, HasSubstr("rank 2"));
  ranks_.Restart({2, 1, 0});
  view = fixture_.View().checkpoint;
  EXPECT_EQ(view.committed, (CheckpointName{20, 1, 5}));
  EXPECT_EQ(view.committed_ago, absl::InfiniteDuration());
}

// --- An operator's request --------------------------------------------------

TEST(SaveCommandTest, CountsBesideTheOtherCommandsInOneEpoch) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.Hello(1);
  EXPECT_THAT(Asks(fixture, JobCommand::kSave),
              Includes(Answers(7, absl::StatusCode::kFailedPrecondition)));
  fixture.Closes(1);
  fixture.RunAll();
  Asks(fixture, JobCommand::kPause, "look");
  EXPECT_THAT(Asks(fixture, JobCommand::kSave),
              EffectsAre(Persists(CommandsWanted({Command::kPause})),
                         Sends(1, DesiredCommands({Command::kPause})),
                         Sends(2, DesiredCommands({Command::kPause})),
                         Answers(7, absl::StatusCode::kOk)));
  EXPECT_EQ(fixture.durable_job().wanted.number, 1u);
  EXPECT_EQ(fixture.durable_job().wanted.saves, 1u);
  Asks(fixture, JobCommand::kDrain);
  Asks(fixture, JobCommand::kSave);
  EXPECT_EQ(fixture.durable_job().wanted.number, 2u);
  EXPECT_EQ(fixture.durable_job().wanted.saves, 2u);
}

TEST(SaveCommandTest, IsForgottenWithTheEpoch) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  Asks(fixture, JobCommand::kSave);
  EXPECT_THAT(fixture.Resume(11, 1), Includes(Sends(11, DesiredCommands({}))));
  fixture.Says(
      2, protocol::LocalFailure{
             .step = 1, .call = "Finish", .code = absl::StatusCode::kInternal});
  ASSERT_FALSE(fixture.durable_job().epoch_lives);
  for (const auto& [session, worker] : {std::pair{11, 1}, {2, 2}}) {
    protocol::Hello again = fixture.HelloOf(worker);
    again.incarnation += 100;
    fixture.Hello(session, again);
  }
  ASSERT_EQ(fixture.durable_job().epoch, EpochId{2});
  EXPECT_EQ(fixture.durable_job().wanted.saves, 0u);
}

}  // namespace
}  // namespace lockstep::core
