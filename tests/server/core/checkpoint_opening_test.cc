// Opening the checkpoints' directory, and opening one again after ranks could
// not.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/checkpoint_tracker.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"
#include "tests/server/core/savers.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointOpeningTest : public testing::Test {
 protected:
  CheckpointOpeningTest() : fixture_(SpecOf(3)) { fixture_.RunAll(); }

  CoordinatorFixture fixture_;
  Savers ranks_{&fixture_};
};

TEST_F(CheckpointOpeningTest,
       TheNonceIsSentToAllRanksAndOpeningNamesWhoCannotRead) {
  for (const int rank : {1, 2}) ranks_.Says(rank);
  EXPECT_FALSE(ranks_.news[1].directory);
  ranks_.reports[0].directory = {.path = "/shared/run",
                                 .nonce = std::string(32, '7')};
  ranks_.reports[0].access = absl::OkStatus();
  ranks_.Says(0);
  for (const auto& news : ranks_.news) {
    EXPECT_EQ(news.directory, ranks_.reports[0].directory);
  }
  ranks_.reports[2].access = absl::NotFoundError("no such file");
  ranks_.Says(2);
  EXPECT_FALSE(ranks_.news[0].opened);
  ranks_.reports[1].access = absl::OkStatus();
  ranks_.Says(1);
  for (const auto& news : ranks_.news) {
    EXPECT_TRUE(news.opened);
    EXPECT_THAT(news.access_faults,
                ElementsAre(protocol::CheckpointFault{
                    2, absl::NotFoundError("no such file")}));
  }
  EXPECT_THAT(ranks_.Says(1), NoEffects()) << "a repetition";
}

// Ranks that the first opening failed for, as sessions report them.
class ReopeningTest : public CheckpointOpeningTest {
 protected:
  static protocol::CheckpointDirectory Directory(char digit) {
    return {.path = "/shared/run", .nonce = std::string(32, digit)};
  }
  void Begins(int rank) {
    ranks_.reports[rank] = {};
    ranks_.Says(rank);
  }
  void Tries(int rank, char digit, const absl::Status& access) {
    ranks_.reports[rank].directory = Directory(digit);
    ranks_.reports[rank].access = access;
    ranks_.Says(rank);
  }
  void Fail(char digit) {
    for (const int rank : {0, 1, 2}) {
      Tries(rank, digit, rank == 2 ? kNoFile : absl::OkStatus());
    }
  }
  const absl::Status kNoFile = absl::NotFoundError("no such file");
};

TEST_F(ReopeningTest, ADirectoryIsOpenedAgainOnceAllRanksBegin) {
  Fail('1');
  ASSERT_TRUE(ranks_.news[1].opened);
  Begins(2);
  Begins(0);
  Tries(0, '2', absl::OkStatus());
  for (const auto& news : ranks_.news) {
    EXPECT_TRUE(news.opened) << "rank 1 may still have to learn it";
    EXPECT_EQ(news.directory, Directory('1'));
    EXPECT_EQ(news.access_faults.size(), 1u);
  }
  Begins(1);
  for (const auto& news : ranks_.news) {
    EXPECT_FALSE(news.opened);
    EXPECT_EQ(news.directory, Directory('2'));
    EXPECT_THAT(news.access_faults, IsEmpty());
  }
  Tries(1, '2', absl::OkStatus());
  EXPECT_FALSE(ranks_.news[0].opened);
  Tries(2, '2', absl::OkStatus());
  for (const auto& news : ranks_.news) {
    EXPECT_TRUE(news.opened);
    EXPECT_THAT(news.access_faults, IsEmpty());
  }
  for (const int rank : {0, 1, 2}) ranks_.Wrote(rank, 1, 20);
  EXPECT_EQ(ranks_.Member(), 0);
}

// The ranks repeat their reports to a coordinator that does not know of the
// first opening.
TEST_F(ReopeningTest, AResultWithTheFirstDirectoryIsNoneWithTheSecond) {
  std::vector<int> order = {0, 1, 2};
  do {
    SCOPED_TRACE(absl::StrCat("order ", order[0], order[1], order[2]));
    CoordinatorFixture fixture(SpecOf(3));
    fixture.RunAll();
    Savers ranks(&fixture);
    const auto tries = [&](int rank, char digit) {
      ranks.reports[rank].directory = Directory(digit);
      ranks.reports[rank].access = absl::OkStatus();
      ranks.Says(rank);
    };
    tries(1, '1');
    ranks.reports[2] = {};
    tries(0, '2');
    ranks.Restart(order);
    for (const auto& news : ranks.news) {
      EXPECT_FALSE(news.opened);
      EXPECT_EQ(news.directory, Directory('2'));
    }
    tries(2, '2');
    EXPECT_FALSE(ranks.news[0].opened) << "rank 1 has not tried it";
    tries(1, '2');
    EXPECT_TRUE(ranks.news[0].opened);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ReopeningTest, ARankThatDoesNotOpenAgainIsAwaited) {
  Fail('1');
  EXPECT_THAT(fixture_.View().waits, IsEmpty());
  for (const int rank : {0, 2}) Begins(rank);
  Tries(0, '2', absl::OkStatus());
  const auto waits = [](const std::string& waiter, const std::string& why) {
    return AllOf(testing::Field(&WaitView::waiter, WorkerName{waiter}),
                 testing::Field(&WaitView::waited_for, WorkerName{"w-2"}),
                 testing::Field(&WaitView::why, HasSubstr(why)));
  };
  EXPECT_THAT(
      fixture_.View().waits,
      ElementsAre(waits("w-1", "has not opened the checkpoints' directory"),
                  waits("w-3", "has not opened the checkpoints' directory")));
}

}  // namespace
}  // namespace lockstep::core
