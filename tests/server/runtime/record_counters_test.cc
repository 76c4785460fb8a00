#include "server/runtime/record_counters.h"

#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using protocol::CauseKind;

class RecordCountersTest : public testing::Test {
 protected:
  void Add(record::Body body) {
    counters_.Add({.number = 1, .job = {"digits"}, .body = std::move(body)});
  }
  double Ended(const std::string& cause) const {
    return metrics_.Value({"lockstep_epochs_ended_total", {{"cause", cause}}});
  }

  RecordingMetrics metrics_;
  RecordCounters counters_{&metrics_};
};

TEST_F(RecordCountersTest, CountsWhatTheRecordsSay) {
  Add(record::JobCreated{});
  Add(record::JobAdopted{});
  Add(record::EpochBegan{});
  Add(record::EpochBegan{});
  Add(record::EpochFinished{.cause = {.kind = CauseKind::kProcessDied}});
  Add(record::SavePrepared{});
  Add(record::SaveCommitted{});
  Add(record::JobEnded{.outcome = record::JobOutcome::kFailed});
  Add(record::JobDeleted{});
  EXPECT_EQ(metrics_.Value({"lockstep_jobs_created_total"}), 1);
  EXPECT_EQ(metrics_.Value({"lockstep_jobs_adopted_total"}), 1);
  EXPECT_EQ(metrics_.Value({"lockstep_epochs_begun_total"}), 2);
  EXPECT_EQ(Ended("process_died"), 1);
  EXPECT_EQ(Ended("stopped"), 0);
  EXPECT_EQ(metrics_.Value({"lockstep_saves_committed_total"}), 1);
  EXPECT_EQ(
      metrics_.Value({"lockstep_jobs_ended_total", {{"outcome", "failed"}}}),
      1);
}

TEST_F(RecordCountersTest, EachCauseHasALabelOfItsOwn) {
  std::set<std::string_view> labels;
  for (int kind = 0; kind <= static_cast<int>(CauseKind::kGrown); ++kind) {
    Add(record::EpochFinished{.cause = {.kind = static_cast<CauseKind>(kind)}});
    const std::string_view label = LabelOf(static_cast<CauseKind>(kind));
    EXPECT_TRUE(labels.insert(label).second) << label;
    EXPECT_EQ(Ended(std::string(label)), 1) << label;
  }
  EXPECT_EQ(labels.count("unknown"), 0u);
}

}  // namespace
}  // namespace lockstep::runtime
