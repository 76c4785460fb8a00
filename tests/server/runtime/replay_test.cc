#include "server/runtime/replay.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/journal/memory_journal.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::runtime {
namespace {

// In place of the codec: the text of a record is its number.
class ReplayTest : public testing::Test {
 protected:
  void Keep(const record::Record& record) {
    records_[absl::StrCat(record.number)] = record;
    journal::MemoryJournal journal(&store_);
    ASSERT_TRUE(journal.Load().ok());
    journal.Append(absl::StrCat(record.number),
                   [](absl::Status status) { EXPECT_TRUE(status.ok()); });
  }
  absl::StatusOr<int> Replayed() {
    journal::MemoryJournal journal(&store_);
    const JournalCodec codec = {
        .parse_record =
            [this](absl::string_view bytes) -> absl::StatusOr<record::Record> {
          const auto found = records_.find(std::string(bytes));
          if (found != records_.end()) return found->second;
          return absl::InvalidArgumentError("no record");
        },
        .parse_snapshot =
            [this](const std::vector<std::string>&) { return snapshot_; }};
    const auto replayed = Replay(&journal, codec, &coordinator_);
    if (!replayed.ok()) return replayed.status();
    return replayed->records;
  }
  void Compact() {
    journal::MemoryJournal journal(&store_);
    ASSERT_TRUE(journal.Load().ok());
    journal.Compact([] { return std::vector<std::string>{"the snapshot"}; });
  }

  const record::Record created_{
      .number = 1,
      .job = {"digits"},
      .body = record::JobCreated{.spec = SpecOf("digits", 2)}};
  journal::MemoryStore store_;
  std::map<std::string, record::Record> records_;
  absl::StatusOr<record::StateSnapshot> snapshot_;
  core::Coordinator coordinator_{{}};
};

TEST_F(ReplayTest, AnEmptyJournalIsANewBeginning) {
  EXPECT_EQ(Replayed().value(), 0);
}

TEST_F(ReplayTest, BringsTheJobsBack) {
  Keep(created_);
  EXPECT_EQ(Replayed().value(), 1);
  ASSERT_EQ(coordinator_.Jobs().size(), 1u);
  EXPECT_EQ(coordinator_.Jobs()[0].name.value, "digits");
}

TEST_F(ReplayTest, ARecordThatCannotBeReadIsNamed) {
  Keep(created_);
  records_.clear();
  const absl::Status status = Replayed().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("record 1 of 1"), std::string::npos);
}

TEST_F(ReplayTest, ARecordThatCannotFollowIsNamed) {
  Keep({.number = 1,
        .job = {"digits"},
        .body = record::EpochBegan{.epoch = {1}}});  // of no job
  EXPECT_EQ(Replayed().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ReplayTest, ASnapshotStandsForTheRecordsBeforeIt) {
  Keep(created_);
  Compact();
  Keep({.number = 2,
        .job = {"digits"},
        .body = record::GenerationAssigned{{"w"}, {1}}});
  core::Coordinator before{{}};
  ASSERT_TRUE(before.Replay(created_).ok());
  snapshot_ = core::SnapshotOf(before.durable());
  EXPECT_EQ(Replayed().value(), 1);
  EXPECT_EQ(coordinator_.Jobs().size(), 1u);
  EXPECT_EQ(coordinator_.durable().records, 2u);
}

TEST_F(ReplayTest, ASnapshotOfOtherRecordsIsRefused) {
  Keep(created_);
  Compact();
  snapshot_ = record::StateSnapshot{.records = 7};
  EXPECT_EQ(Replayed().status().code(), absl::StatusCode::kDataLoss);
  snapshot_ = absl::FailedPreconditionError("version 9");
  EXPECT_EQ(Replayed().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ReplayTest, ADamagedJournalIsNotReplayed) {
  Keep(created_);
  Keep({.number = 2,
        .job = {"digits"},
        .body = record::GenerationAssigned{{"w"}, {1}}});
  store_.frames[0][store_.frames[0].size() / 2] ^= 1;
  EXPECT_EQ(Replayed().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(coordinator_.Jobs().empty());
}

}  // namespace
}  // namespace lockstep::runtime
