// The contract of every MetricSink, for sinks that a default constructor makes.

#ifndef LOCKSTEP_TESTS_BASE_METRIC_SINK_CONTRACT_H_
#define LOCKSTEP_TESTS_BASE_METRIC_SINK_CONTRACT_H_

#include <thread>
#include <vector>

#include "base/telemetry.h"
#include "gtest/gtest.h"

namespace lockstep {

template <typename Sink>
class MetricSinkContract : public testing::Test {
 protected:
  Sink sink_;
};
TYPED_TEST_SUITE_P(MetricSinkContract);

TYPED_TEST_P(MetricSinkContract, TheSameIdIsTheSameMetric) {
  const MetricId id{"lockstep_epochs_ended_total", {{"cause", "left"}}};
  EXPECT_EQ(this->sink_.GetCounter(id), this->sink_.GetCounter(id));
  EXPECT_EQ(this->sink_.GetGauge({"lockstep_sessions"}),
            this->sink_.GetGauge({"lockstep_sessions"}));
  EXPECT_EQ(this->sink_.GetHistogram({"lockstep_event_seconds"}),
            this->sink_.GetHistogram({"lockstep_event_seconds"}));
}

TYPED_TEST_P(MetricSinkContract, TakesNumbersFromManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 1000; ++i) {
        this->sink_.GetCounter({"lockstep_messages_sent_total"})->Add();
        this->sink_.GetGauge({"lockstep_sessions"})->Set(i);
        this->sink_.GetHistogram({"lockstep_event_seconds"})->Observe(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

REGISTER_TYPED_TEST_SUITE_P(MetricSinkContract, TheSameIdIsTheSameMetric,
                            TakesNumbersFromManyThreads);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_BASE_METRIC_SINK_CONTRACT_H_
