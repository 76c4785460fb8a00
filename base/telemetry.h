// Metrics: one sink that drops everything, and one that records it for tests.
//
//   Counter* ended = metrics->GetCounter(
//       {"lockstep_epochs_ended_total", {{"cause", "stopped"}}});
//   ended->Add();
//
// Names follow Prometheus: lockstep_ first, the unit and _total last. Equal
// names and labels are the same metric; metrics of one name have one kind.
//
// Threads:   all methods from any thread; Add, Set and Observe do not block for
//            long and may be used on a hot path.
// Ownership: metrics belong to the sink and live as long.

#ifndef LOCKSTEP_BASE_TELEMETRY_H_
#define LOCKSTEP_BASE_TELEMETRY_H_

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace lockstep {

// --- Metrics ----------------------------------------------------------------

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double amount = 1) = 0;  // not negative
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

struct MetricId {
  std::string name;
  std::map<std::string, std::string> labels;
  auto operator<=>(const MetricId&) const = default;
};

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual Counter* GetCounter(const MetricId& id) = 0;
  virtual Gauge* GetGauge(const MetricId& id) = 0;
  virtual Histogram* GetHistogram(const MetricId& id) = 0;
};

class NullMetrics final : public MetricSink {
 public:
  Counter* GetCounter(const MetricId& id) override;
  Gauge* GetGauge(const MetricId& id) override;
  Histogram* GetHistogram(const MetricId& id) override;
};

// Records all values, for tests.
class RecordingMetrics final : public MetricSink {
 public:
  RecordingMetrics();
  ~RecordingMetrics() override;
  Counter* GetCounter(const MetricId& id) override;
  Gauge* GetGauge(const MetricId& id) override;
  Histogram* GetHistogram(const MetricId& id) override;

  // A counter's sum, or a gauge's value; 0 for an unknown metric.
  double Value(const MetricId& id) const;
  std::vector<double> Observations(const MetricId& id) const;

 private:
  class Recorded;
  Recorded* Get(const MetricId& id, int kind);

  mutable Mutex mutex_;
  std::map<MetricId, std::unique_ptr<Recorded>> metrics_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TELEMETRY_H_
