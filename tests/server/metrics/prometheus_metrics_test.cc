// Counted values, and their text.

#include "server/metrics/prometheus_metrics.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/metric_sink_contract.h"

namespace lockstep {

INSTANTIATE_TYPED_TEST_SUITE_P(Prometheus, MetricSinkContract,
                               metrics::PrometheusMetrics);

namespace metrics {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;

std::vector<std::string> LinesOf(
    const PrometheusMetrics& sink,
    const std::vector<MetricSample>& samples = {}) {
  return absl::StrSplit(sink.Text(samples), '\n');
}

// Those that begin so, without that.
std::vector<std::string> LinesOf(const PrometheusMetrics& sink,
                                 const std::string& begin) {
  std::vector<std::string> lines;
  for (const std::string& line : LinesOf(sink)) {
    if (absl::StartsWith(line, begin))
      lines.push_back(line.substr(begin.size()));
  }
  return lines;
}

TEST(PrometheusMetricsTest, CountersAddAndGaugesAreSet) {
  PrometheusMetrics sink;
  const MetricId left{"lockstep_epochs_ended_total", {{"cause", "left"}}};
  const MetricId died{"lockstep_epochs_ended_total",
                      {{"cause", "process_died"}}};
  sink.GetCounter(left)->Add();
  sink.GetCounter(left)->Add(2);
  sink.GetCounter(died)->Add(0);
  sink.GetGauge({"lockstep_sessions"})->Set(7);
  sink.GetGauge({"lockstep_sessions"})->Set(4);
  EXPECT_THAT(
      LinesOf(sink),
      IsSupersetOf({"# TYPE lockstep_epochs_ended_total counter",
                    "lockstep_epochs_ended_total{cause=\"left\"} 3",
                    "lockstep_epochs_ended_total{cause=\"process_died\"} 0",
                    "# TYPE lockstep_sessions gauge", "lockstep_sessions 4"}));
}

TEST(PrometheusMetricsTest, BucketsOfAHistogramAreCumulative) {
  PrometheusMetrics sink;
  Histogram* const seconds = sink.GetHistogram({"lockstep_event_seconds"});
  for (const double value : {0.0005, 0.001, 0.5, 100.0}) {
    seconds->Observe(value);
  }
  EXPECT_THAT(
      LinesOf(sink, "lockstep_event_seconds_bucket"),
      ElementsAre("{le=\"1e-05\"} 0", "{le=\"0.0001\"} 0", "{le=\"0.001\"} 2",
                  "{le=\"0.01\"} 2", "{le=\"0.1\"} 2", "{le=\"1\"} 3",
                  "{le=\"10\"} 3", "{le=\"+Inf\"} 4"));
  EXPECT_THAT(LinesOf(sink, "lockstep_event_seconds_count"), ElementsAre(" 4"));
  EXPECT_THAT(LinesOf(sink, "lockstep_event_seconds_sum"),
              ElementsAre(" 100.5015"));
}

TEST(PrometheusMetricsTest, SamplesAreBesideWhatWasCounted) {
  PrometheusMetrics sink;
  sink.GetGauge({"lockstep_sessions"})->Set(1);
  EXPECT_THAT(
      LinesOf(sink,
              {{{"lockstep_job_step", {{"job_name", "a"}}}, 12},
               {{"lockstep_limit_refused_total", {{"limit", "jobs"}}}, 3}}),
      IsSupersetOf({"lockstep_sessions 1", "# TYPE lockstep_job_step gauge",
                    "lockstep_job_step{job_name=\"a\"} 12",
                    "# TYPE lockstep_limit_refused_total counter",
                    "lockstep_limit_refused_total{limit=\"jobs\"} 3"}));
}

// A name could end its label, or its line, and forge another one.
TEST(PrometheusMetricsTest, LabelValuesAreEscaped) {
  PrometheusMetrics sink;
  const MetricSample sample{
      {"lockstep_job_step", {{"job_name", "a\"} 1\nlockstep_leader 0\\"}}}, 12};
  EXPECT_THAT(LinesOf(sink, {sample}),
              Contains("lockstep_job_step{job_name=\"a\\\"} "
                       "1\\nlockstep_leader 0\\\\\"} 12"));
}

TEST(PrometheusMetricsTest, TimesKeepTheirMilliseconds) {
  PrometheusMetrics sink;
  const MetricSample sample{
      {"lockstep_job_last_step_timestamp_seconds", {{"job_name", "a"}}},
      1795806879.125};
  EXPECT_THAT(LinesOf(sink, {sample}),
              Contains("lockstep_job_last_step_timestamp_seconds{job_name="
                       "\"a\"} 1795806879.125"));
}

TEST(PrometheusMetricsDeathTest, AMetricIsInTheCatalogue) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  PrometheusMetrics sink;
  EXPECT_DEATH(sink.GetCounter({"lockstep_unknown_total"}),
               "lockstep_unknown_total");
  EXPECT_DEATH(sink.GetGauge({"lockstep_messages_sent_total"}), "kind");
  EXPECT_DEATH(sink.Text({{{"lockstep_event_seconds"}, 1}}), "a sample is");
}

}  // namespace
}  // namespace metrics
}  // namespace lockstep
