// The sinks that drop and that record, and what these have recorded.

#include "base/telemetry.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/metric_sink_contract.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using MetricSinks = testing::Types<NullMetrics, RecordingMetrics>;
INSTANTIATE_TYPED_TEST_SUITE_P(Base, MetricSinkContract, MetricSinks);

// --- Recorded values --------------------------------------------------------

TEST(RecordingMetricsTest, RemembersWhatItWasTold) {
  RecordingMetrics sink;
  const MetricId a{"lockstep_c_total", {{"job", "a"}}};
  const MetricId b{"lockstep_c_total", {{"job", "b"}}};
  sink.GetCounter(a)->Add();
  sink.GetCounter(a)->Add(2.5);
  sink.GetCounter(b)->Add();
  sink.GetGauge({"lockstep_g"})->Set(7);
  sink.GetGauge({"lockstep_g"})->Set(4);
  sink.GetHistogram({"lockstep_h"})->Observe(1);
  sink.GetHistogram({"lockstep_h"})->Observe(2);
  EXPECT_EQ(sink.Value(a), 3.5);
  EXPECT_EQ(sink.Value(b), 1);
  EXPECT_EQ(sink.Value({"lockstep_g"}), 4);
  EXPECT_THAT(sink.Observations({"lockstep_h"}), ElementsAre(1, 2));
  EXPECT_EQ(sink.Value({"lockstep_unknown"}), 0);
  EXPECT_THAT(sink.Observations({"lockstep_unknown"}), IsEmpty());
}

TEST(RecordingMetricsTest, LosesNothingUnderContention) {
  RecordingMetrics sink;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) sink.GetCounter({"lockstep_c"})->Add();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sink.Value({"lockstep_c"}), 4000);
}

TEST(RecordingMetricsDeathTest, OneNameIsOfOneKind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RecordingMetrics sink;
        sink.GetCounter({"lockstep_x"});
        sink.GetGauge({"lockstep_x"});
      },
      "one kind");
}

}  // namespace
}  // namespace lockstep
