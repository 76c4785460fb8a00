// The small parts, each compared with its contract or a slower version.

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/deadlines.h"
#include "server/core/durable_state.h"
#include "server/core/missing_workers.h"
#include "server/core/status_text.h"
#include "server/core/token.h"
#include "server/core/waits.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

using protocol::Phase;
using testing::HasSubstr;

protocol::Member On(const std::string& host, const std::string& name) {
  return {.worker = {name}, .generation = {1}, .process = {.host = host}};
}

// --- Missing workers --------------------------------------------------------

std::string Missing(int world, const std::set<WorkerName>& arrived) {
  return DescribeMissing(SpecOf(world), arrived, {});
}

TEST(MissingTest, InfersNumbersFromThePresent) {
  EXPECT_EQ(Missing(4, {{"w-0"}, {"w-3"}}),
            "2 of 4 workers are missing: w-1, w-2");
  EXPECT_EQ(Missing(4, {{"w-1"}, {"w-4"}}),
            "2 of 4 workers are missing: w-2, w-3");
  EXPECT_EQ(Missing(2, {{"w-1"}}), "1 of 2 workers is missing: w-0");
}

TEST(MissingTest, CountsWhatItCannotName) {
  for (const std::set<WorkerName>& arrived : std::vector<std::set<WorkerName>>{
           {{"alice"}}, {{"w-1"}, {"x-2"}}, {{"w-01"}}, {{"w-7"}}}) {
    EXPECT_THAT(Missing(3, arrived), testing::EndsWith("missing"));
  }
}

TEST(MissingTest, ListsTheSpecsWorkersOrTheFormerMembers) {
  JobSpec spec = SpecOf(3);
  spec.workers = {"alice", "bob", "eve"};
  EXPECT_EQ(DescribeMissing(spec, {{"bob"}}, {}),
            "2 of 3 workers are missing: alice, eve");
  EXPECT_EQ(DescribeMissing(SpecOf(3), {{"bob"}},
                            {On("a", "eve"), On("a", "bob"), On("a", "alice")}),
            "2 of 3 workers are missing: eve, alice");
}

TEST(MissingTest, DrawsLongRunsTogetherAndStillNamesEveryOne) {
  EXPECT_EQ(Missing(10'000, {{"w-0"}, {"w-7"}, {"w-9998"}}),
            "9997 of 10000 workers are missing: w-1 to w-6, w-8 to w-9997, "
            "w-9999");
}

// --- Deadlines --------------------------------------------------------------

TEST(DeadlinesTest, AgreesWithAPlainMap) {
  std::mt19937 rng(2);
  Deadlines<int> deadlines;
  std::map<int, absl::Time> plain;
  for (int round = 0; round < 20'000; ++round) {
    const int key = static_cast<int>(rng() % 8);
    const absl::Time moment = At(rng() % 20);
    switch (rng() % 4) {
      case 0:
      case 1:
        deadlines.Set(key, moment);
        plain[key] = moment;
        break;
      case 2:
        deadlines.Clear(key);
        plain.erase(key);
        break;
      case 3: {
        std::vector<std::pair<absl::Time, int>> due;
        for (const auto& [k, m] : plain) {
          if (m <= moment) due.push_back({m, k});
        }
        std::sort(due.begin(), due.end());
        std::vector<int> keys;
        for (const auto& [m, k] : due) {
          keys.push_back(k);
          plain.erase(k);
        }
        EXPECT_EQ(deadlines.TakeDue(moment), keys);
      }
    }
    absl::Time next = absl::InfiniteFuture();
    for (const auto& [k, m] : plain) next = std::min(next, m);
    ASSERT_EQ(deadlines.Next(), next);
    ASSERT_EQ(deadlines.Keys().size(), plain.size());
  }
}

// --- Waits ------------------------------------------------------------------

// The rule for two ranks, in one sentence: w needs o if both are present and o
// has not reached what w waits in: among its group for a transfer, among all
// ranks for the verdict.
bool NeedsPlainly(const ProgressTracker& board, const plan::Plan& plan, int w,
                  int o) {
  if (!board.of(w).present || !board.of(o).present) return false;
  const protocol::Position& at = board.of(w).position;
  if (board.of(o).position >= at) return false;
  if (at.phase == Phase::kVerdict) return true;
  if (at.phase != Phase::kTransfer) return false;
  for (const plan::Bucket& bucket : plan.buckets) {
    const auto& ranks = plan.communicators[bucket.communicator].ranks;
    const auto has = [&](int rank) {
      return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    };
    if (has(w) && has(o)) return true;
  }
  return false;
}

TEST(WaitsTest, AgreesWithTheRuleInOneSentence) {
  std::mt19937 rng(3);
  plan::Plan plan{.communicators = {{"world", {0, 1, 2, 3, 4, 5}},
                                    {"a", {0, 2, 4}},
                                    {"b", {1, 3, 5}},
                                    {"c", {4, 5}}},
                  .buckets = {{.communicator = 1},
                              {.communicator = 2},
                              {.communicator = 1},
                              {.communicator = 3}}};
  for (int round = 0; round < 3000; ++round) {
    ProgressTracker board(6, absl::Seconds(1), At(0));
    for (int rank = 0; rank < 6; ++rank) {
      const uint64_t step = 5 + rng() % 2;
      board.Update(rank, Stands(step, static_cast<Phase>(1 + rng() % 5)),
                   At(0));
      if (rng() % 6 == 0) board.Drop(rank);
    }
    const Waits waits = Waits::OfSteps(board, &plan);
    for (int w = 0; w < 6; ++w) {
      std::vector<int> needed;
      std::vector<int> waiters;
      for (int o = 0; o < 6; ++o) {
        if (NeedsPlainly(board, plan, w, o)) needed.push_back(o);
        if (NeedsPlainly(board, plan, o, w)) waiters.push_back(o);
      }
      EXPECT_THAT(waits.For(w, 6), testing::UnorderedElementsAreArray(needed));
      EXPECT_EQ(waits.On(w, 6), waiters);
      EXPECT_EQ(waits.Any(w), !needed.empty());
    }
  }
}

TEST(WaitsTest, SomebodyWaitsForNobody) {
  std::mt19937 rng(4);
  for (int round = 0; round < 1000; ++round) {
    ProgressTracker board(5, absl::Seconds(1), At(0));
    for (int rank = 0; rank < 5; ++rank) {
      board.Update(rank, Stands(rng() % 3, static_cast<Phase>(1 + rng() % 5)),
                   At(0));
    }
    const Waits waits = Waits::OfSteps(board, nullptr);
    bool somebody = false;
    for (int rank = 0; rank < 5; ++rank) somebody |= !waits.Any(rank);
    EXPECT_TRUE(somebody);
  }
}

// --- Tokens -----------------------------------------------------------------

TEST(TokenTest, HashesAsTheStandardSays) {
  EXPECT_EQ(Sha256(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(TokenTest, OpensOnlyWithTheTokenUnlessThereIsNone) {
  EXPECT_TRUE(TokenOpens("secret", HashOfToken("secret")));
  EXPECT_FALSE(TokenOpens("secreT", HashOfToken("secret")));
  EXPECT_FALSE(TokenOpens("", HashOfToken("secret")));
  EXPECT_TRUE(TokenOpens("anything", HashOfToken("")));
}

// --- Status text ------------------------------------------------------------

TEST(SentencesTest, ListNamesShortenLongLists) {
  EXPECT_EQ(NameList(std::vector<std::string>{}), "");
  EXPECT_EQ(NameList({std::string("a")}), "a");
  EXPECT_EQ(NameList(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(NameList(std::vector<std::string>{"a", "b", "c", "d"}, 3),
            "a, b and 2 more");
}

TEST(SentencesTest, DurationsAreShort) {
  EXPECT_EQ(HowLong(absl::Nanoseconds(850'123'456)), "850ms");
  EXPECT_EQ(HowLong(absl::Seconds(12.345)), "12.3s");
  EXPECT_EQ(HowLong(absl::Seconds(245.6)), "4m5s");
  EXPECT_EQ(HowLong(absl::Seconds(7265)), "2h1m");
}

// --- Records ----------------------------------------------------------------

class DurableTest : public testing::Test {
 protected:
  absl::Status Next(record::Body body, const std::string& job = "digits") {
    const absl::Status applied =
        Apply({state_.records + 1, {job}, std::move(body)}, &state_);
    return applied;
  }
  DurableState state_;
};

TEST_F(DurableTest, RefusesWhatCannotFollowAndStaysAsItWas) {
  EXPECT_FALSE(Next(record::GenerationAssigned{W(1), {1}}).ok());
  ASSERT_TRUE(Next(record::JobCreated{SpecOf(1), ""}).ok());
  EXPECT_FALSE(Next(record::JobCreated{SpecOf(1), ""}).ok());
  EXPECT_FALSE(Next(record::PlanAdopted{{1}, {1}, "d"}).ok());
  EXPECT_FALSE(Next(record::EpochFinished{{1}, {}}).ok());
  ASSERT_TRUE(Next(record::GenerationAssigned{W(1), {2}}).ok());
  EXPECT_FALSE(Next(record::GenerationAssigned{W(1), {2}}).ok());
  ASSERT_TRUE(Next(record::GenerationAssigned{W(1), {3}, 7, "hash"}).ok());
  EXPECT_FALSE(Next(record::GenerationAssigned{W(1), {3}, 8, "other"}).ok());
  ASSERT_TRUE(Next(record::GenerationAssigned{W(1), {3}, 7, "other"}).ok())
      << "another secret for the same life";
  EXPECT_FALSE(Next(record::GenerationAssigned{W(1), {2}, 7, "hash"}).ok());
  ASSERT_TRUE(Next(record::EpochBegan{{4}, {}}).ok());
  EXPECT_FALSE(Next(record::EpochBegan{{5}, {}}).ok()) << "the 4th lives";
  ASSERT_TRUE(Next(record::PlanAdopted{{4}, {1}, "d"}).ok());
  EXPECT_FALSE(Next(record::PlanAdopted{{4}, {1}, "d"}).ok());
  EXPECT_FALSE(Next(record::EpochFinished{{3}, {}}).ok());
  ASSERT_TRUE(Next(record::EpochFinished{{4}, {}}).ok());
  EXPECT_FALSE(Next(record::EpochBegan{{4}, {}}).ok()) << "epochs grow";
  ASSERT_TRUE(Next(record::JobEnded{}).ok());
  const DurableState before = state_;
  EXPECT_FALSE(Next(record::GenerationAssigned{W(1), {9}}).ok());
  EXPECT_TRUE(state_ == before);
}

TEST_F(DurableTest, AnAdoptedJobTakesThePlaceOfOneWithoutAnEpoch) {
  const record::JobAdopted adopted{.spec = SpecOf(1),
                                   .epoch = {4},
                                   .members = {{{W(1), {3}, {}}, 7, "hash"}},
                                   .revision = {2},
                                   .digest = "d",
                                   .observed_order = {1, 0},
                                   .wanted = {.number = 5}};
  ASSERT_TRUE(Next(record::JobCreated{SpecOf(1), ""}).ok());
  ASSERT_TRUE(Next(record::GenerationAssigned{W(1), {3}, 8, "other"}).ok());
  record::JobAdopted other = adopted;
  other.token_hash = "t";
  EXPECT_FALSE(Next(other).ok());
  record::JobAdopted adopted_spec = adopted;
  adopted_spec.spec.seed = 4711;
  ASSERT_TRUE(Next(adopted_spec).ok());
  const DurableJob& job = state_.jobs.begin()->second;
  EXPECT_EQ(job.spec.seed, 4711u);
  EXPECT_EQ(job.name_holders.at(W(1)), (NameHolder{{3}, 7, "hash"}));
  EXPECT_TRUE(job.epoch_lives && job.adopted);
  EXPECT_EQ(job.epoch, EpochId{4});
  EXPECT_EQ(job.plan_digest, "d");
  EXPECT_EQ(job.observed_order, (std::vector<uint32_t>{1, 0}));
  EXPECT_EQ(job.wanted.number, 5u);
  EXPECT_FALSE(Next(adopted).ok()) << "it has an epoch";
  ASSERT_TRUE(Next(record::EpochFinished{{4}, {}}).ok());
  EXPECT_FALSE(Next(adopted).ok()) << "it has had one";
}

TEST_F(DurableTest, RefusesAGapInTheNumbers) {
  EXPECT_THAT(
      std::string(
          Apply({2, {"digits"}, record::JobCreated{}}, &state_).message()),
      HasSubstr("record 2 cannot follow record 0"));
}

TEST(ReplayTest, NamesTheRecordThatCannotFollow) {
  Coordinator core({});
  EXPECT_TRUE(absl::IsInvalidArgument(
      core.Replay({1, {"digits"}, record::JobEnded{}})));
}

}  // namespace
}  // namespace lockstep::core
