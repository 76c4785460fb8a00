// The catalogue follows Prometheus' conventions, and docs/metrics.md has it.

#include "server/metrics/catalogue.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"

namespace lockstep::metrics {
namespace {

TEST(CatalogueTest, NamesAreThoseOfPrometheus) {
  std::set<std::string> names;
  for (const MetricDescription& metric : AllMetrics()) {
    const std::string name(metric.name);
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    EXPECT_TRUE(absl::StartsWith(name, "lockstep_")) << name;
    EXPECT_EQ(absl::EndsWith(name, "_total"),
              metric.kind == MetricType::kCounter)
        << name;
    if (metric.kind == MetricType::kHistogram) {
      EXPECT_TRUE(absl::EndsWith(name, "_seconds")) << name;
    }
    EXPECT_FALSE(metric.help.empty()) << name;
  }
}

TEST(CatalogueTest, HistogramsHaveAscendingBuckets) {
  for (const MetricDescription& metric : AllMetrics()) {
    EXPECT_EQ(metric.buckets.empty(), metric.kind != MetricType::kHistogram)
        << metric.name;
    EXPECT_TRUE(std::is_sorted(metric.buckets.begin(), metric.buckets.end()))
        << metric.name;
  }
}

TEST(CatalogueTest, FindsByName) {
  for (const MetricDescription& metric : AllMetrics()) {
    EXPECT_EQ(FindMetric(metric.name), &metric);
  }
  EXPECT_EQ(FindMetric("lockstep_"), nullptr);
}

std::string Name(MetricType kind) {
  switch (kind) {
    case MetricType::kCounter: return "counter";
    case MetricType::kGauge: return "gauge";
    case MetricType::kHistogram: return "histogram";
  }
  return "";
}

// "| `name` | kind | labels | meaning |"
TEST(CatalogueTest, TheManualHasEachMetricWithItsKindAndNoOther) {
  std::vector<std::string> documented;
  const std::vector<std::string> lines =
      absl::StrSplit(ReadSource("docs/metrics.md"), '\n');
  for (const std::string& line : lines) {
    if (!absl::StartsWith(line, "| `lockstep_")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    ASSERT_EQ(cells.size(), 4u) << line;
    documented.push_back(cells[0].substr(3, cells[0].size() - 4) + " " +
                         cells[1]);
  }
  std::vector<std::string> known;
  for (const MetricDescription& metric : AllMetrics()) {
    known.push_back(std::string(metric.name) + " " + Name(metric.kind));
  }
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(known));
}

}  // namespace
}  // namespace lockstep::metrics
