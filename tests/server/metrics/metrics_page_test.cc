// The page, over a loop in this process.

#include "server/metrics/metrics_page.h"

#include <future>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/coordinator.h"
#include "tests/server/runtime/fakes.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/manual_clock.h"
#include "tests/support/plans_as_text.h"

namespace lockstep::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

class MetricsPageTest : public testing::Test {
 protected:
  MetricsPageTest()
      : page_(*MetricsPage::Make("1.2.3", /*folders=*/{},
                                 absl::Milliseconds(20))),
        loop_({.coordinator = &coordinator_,
               .journal = std::make_unique<runtime::FakeJournal>(&disk_),
               .codec = {.record_bytes =
                             [](const record::Record&) { return ""; }},
               .plans = PlansAsText(),
               .clock = &clock_,
               .events = &log_,
               .metrics = page_->sink(),
               .on_journal_failure = [](const absl::Status&) {}}) {}

  void Show() {
    page_->Show({.term = {7}, .loop = &loop_, .limits = [] {
                   return std::vector<LimitUse>{
                       {.name = "connections", .value = 5}};
                 }});
  }
  void Create(const std::string& job) {
    std::promise<absl::Status> created;
    loop_.CreateJob(SpecOf(job, 1), {}, [&](const absl::Status& status) {
      created.set_value(status);
    });
    EXPECT_TRUE(created.get_future().get().ok());
  }
  std::string TextAt(double seconds) {
    const auto text = page_->Text(At(seconds));
    return text.ok() ? **text : text.status().ToString();
  }

  std::unique_ptr<MetricsPage> page_;
  core::Coordinator coordinator_{{}};
  ManualClock clock_;
  runtime::SlowDisk disk_;
  runtime::RecordingLog log_;
  runtime::CoordinatorLoop loop_;
};

TEST_F(MetricsPageTest, BeforeItLeadsACoordinatorHasNoJobs) {
  const std::string text = TextAt(0);
  EXPECT_THAT(text, HasSubstr("lockstep_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_leader 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_jobs{")));
}

TEST_F(MetricsPageTest, HasWhatTheLoopTheServerAndTheSinkKnow) {
  Show();
  Create("digits");
  const std::string text = TextAt(0);
  EXPECT_THAT(text, HasSubstr("lockstep_leader 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_term 7\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_jobs{state=\"forming\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_limit{limit=\"jobs\"} 1000\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_limit{limit=\"connections\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_limit{limit=\"hello_seconds\"} "));
  EXPECT_THAT(text, HasSubstr("lockstep_jobs_created_total 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_journal_commit_seconds_count 1\n"));
}

TEST_F(MetricsPageTest, ManyScrapesCostOneMeasurementASecond) {
  Show();
  const std::string first = TextAt(0);
  Create("digits");
  EXPECT_EQ(TextAt(0.9), first);
  EXPECT_NE(TextAt(1), first);
  EXPECT_NE(TextAt(0.5), first) << "a clock that was set back";
}

TEST_F(MetricsPageTest, AfterHideTheLoopIsNotAsked) {
  Show();
  EXPECT_THAT(TextAt(0), HasSubstr("lockstep_jobs{"));
  page_->Hide();
  loop_.Stop();
  const std::string text = TextAt(0.1);
  EXPECT_THAT(text, HasSubstr("lockstep_leader 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep_jobs{")));
}

TEST_F(MetricsPageTest, ALoopThatIsStuckIsAnError) {
  Show();
  std::promise<void> free;
  loop_.Measure([&](const auto&) { free.get_future().wait(); });
  const auto text = page_->Text(At(0));
  EXPECT_EQ(text.status().code(), absl::StatusCode::kDeadlineExceeded);
  free.set_value();
  EXPECT_THAT(TextAt(1), HasSubstr("lockstep_jobs{"));
}

}  // namespace
}  // namespace lockstep::metrics
