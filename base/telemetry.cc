#include "base/telemetry.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lockstep {
namespace {

enum MetricKind { kCounter, kGauge, kHistogram };

class Nothing final : public Counter, public Gauge, public Histogram {
 public:
  void Add(double) override {}
  void Set(double) override {}
  void Observe(double) override {}
};

Nothing* TheNothing() {
  static Nothing nothing;
  return &nothing;
}

}  // namespace

// --- NullMetrics -------------------------------------------------------------

Counter* NullMetrics::GetCounter(const MetricId&) { return TheNothing(); }
Gauge* NullMetrics::GetGauge(const MetricId&) { return TheNothing(); }
Histogram* NullMetrics::GetHistogram(const MetricId&) { return TheNothing(); }

// --- RecordingMetrics --------------------------------------------------------

class RecordingMetrics::Recorded final : public Counter,
                                         public Gauge,
                                         public Histogram {
 public:
  explicit Recorded(int kind) : kind_(kind) {}

  void Add(double amount) override {
    Check(amount >= 0, "a counter only counts up");
    MutexLock lock(&mutex_);
    value_ += amount;
  }
  void Set(double value) override {
    MutexLock lock(&mutex_);
    value_ = value;
  }
  void Observe(double value) override {
    MutexLock lock(&mutex_);
    observations_.push_back(value);
  }

  int kind() const { return kind_; }
  double value() const {
    MutexLock lock(&mutex_);
    return value_;
  }
  std::vector<double> observations() const {
    MutexLock lock(&mutex_);
    return observations_;
  }

 private:
  const int kind_;
  mutable Mutex mutex_;
  double value_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<double> observations_ ABSL_GUARDED_BY(mutex_);
};

RecordingMetrics::RecordingMetrics() = default;
RecordingMetrics::~RecordingMetrics() = default;

RecordingMetrics::Recorded* RecordingMetrics::Get(const MetricId& id,
                                                  int kind) {
  MutexLock lock(&mutex_);
  std::unique_ptr<Recorded>& metric = metrics_[id];
  if (metric == nullptr) metric = std::make_unique<Recorded>(kind);
  Check(metric->kind() == kind, "one name is a metric of one kind");
  return metric.get();
}

Counter* RecordingMetrics::GetCounter(const MetricId& id) {
  return Get(id, kCounter);
}
Gauge* RecordingMetrics::GetGauge(const MetricId& id) {
  return Get(id, kGauge);
}
Histogram* RecordingMetrics::GetHistogram(const MetricId& id) {
  return Get(id, kHistogram);
}

double RecordingMetrics::Value(const MetricId& id) const {
  MutexLock lock(&mutex_);
  const auto found = metrics_.find(id);
  return found == metrics_.end() ? 0 : found->second->value();
}

std::vector<double> RecordingMetrics::Observations(const MetricId& id) const {
  MutexLock lock(&mutex_);
  const auto found = metrics_.find(id);
  return found == metrics_.end() ? std::vector<double>{}
                                 : found->second->observations();
}

}  // namespace lockstep
