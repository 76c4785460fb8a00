#include "server/metrics/prometheus_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"
#include "server/metrics/catalogue.h"

namespace lockstep::metrics {
namespace {

const MetricDescription& DescriptionOf(const MetricId& id) {
  const MetricDescription* const found = FindMetric(id.name);
  if (found == nullptr) {
    Fatal(absl::StrCat("the catalogue of metrics has no ", id.name).c_str());
  }
  return *found;
}

// For a metric of this kind.
const MetricDescription& DescriptionOf(const MetricId& id, MetricType kind) {
  const MetricDescription& found = DescriptionOf(id);
  if (found.kind != kind) {
    Fatal(absl::StrCat("the metric ", id.name, " is of another kind").c_str());
  }
  return found;
}

struct OneCounter final : Counter {
  explicit OneCounter(prometheus::Counter* counter) : counter(counter) {}
  void Add(double amount) override { counter->Increment(amount); }
  prometheus::Counter* const counter;
};

struct OneGauge final : Gauge {
  explicit OneGauge(prometheus::Gauge* gauge) : gauge(gauge) {}
  void Set(double value) override { gauge->Set(value); }
  prometheus::Gauge* const gauge;
};

struct OneHistogram final : Histogram {
  explicit OneHistogram(prometheus::Histogram* histogram)
      : histogram(histogram) {}
  void Observe(double value) override { histogram->Observe(value); }
  prometheus::Histogram* const histogram;
};

// The metric with these labels, of the library's kind for which `builder` is.
template <typename Builder, typename... Buckets>
auto* Register(Builder builder, const MetricDescription& description,
               const MetricId& id, prometheus::Registry* registry,
               Buckets... buckets) {
  auto& family = builder.Name(std::string(description.name))
                     .Help(std::string(description.help))
                     .Register(*registry);
  return &family.Add({id.labels.begin(), id.labels.end()}, buckets...);
}

prometheus::ClientMetric MetricOf(const MetricSample& sample, MetricType kind) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : sample.id.labels) {
    metric.label.push_back({name, value});
  }
  (kind == MetricType::kCounter ? metric.counter.value : metric.gauge.value) =
      sample.value;
  return metric;
}

std::vector<prometheus::MetricFamily> FamiliesOf(
    const std::vector<MetricSample>& samples) {
  std::map<std::string, prometheus::MetricFamily> families;
  for (const MetricSample& sample : samples) {
    const MetricDescription& description = DescriptionOf(sample.id);
    Check(description.kind != MetricType::kHistogram,
          "a sample is a counter or a gauge");
    prometheus::MetricFamily& family = families[sample.id.name];
    if (family.name.empty()) {
      family.name = sample.id.name;
      family.help = std::string(description.help);
      family.type = description.kind == MetricType::kCounter
                        ? prometheus::MetricType::Counter
                        : prometheus::MetricType::Gauge;
    }
    family.metric.push_back(MetricOf(sample, description.kind));
  }
  std::vector<prometheus::MetricFamily> all;
  for (auto& [name, family] : families) all.push_back(std::move(family));
  return all;
}

}  // namespace

struct PrometheusMetrics::Parts {
  prometheus::Registry registry;
  Mutex mutex;
  std::map<MetricId, std::unique_ptr<OneCounter>> counters
      ABSL_GUARDED_BY(mutex);
  std::map<MetricId, std::unique_ptr<OneGauge>> gauges ABSL_GUARDED_BY(mutex);
  std::map<MetricId, std::unique_ptr<OneHistogram>> histograms
      ABSL_GUARDED_BY(mutex);
};

PrometheusMetrics::PrometheusMetrics() : parts_(std::make_unique<Parts>()) {}
PrometheusMetrics::~PrometheusMetrics() = default;

Counter* PrometheusMetrics::GetCounter(const MetricId& id) {
  const MetricDescription& description =
      DescriptionOf(id, MetricType::kCounter);
  MutexLock lock(&parts_->mutex);
  auto& counter = parts_->counters[id];
  if (counter == nullptr) {
    counter = std::make_unique<OneCounter>(Register(
        prometheus::BuildCounter(), description, id, &parts_->registry));
  }
  return counter.get();
}

Gauge* PrometheusMetrics::GetGauge(const MetricId& id) {
  const MetricDescription& description = DescriptionOf(id, MetricType::kGauge);
  MutexLock lock(&parts_->mutex);
  auto& gauge = parts_->gauges[id];
  if (gauge == nullptr) {
    gauge = std::make_unique<OneGauge>(
        Register(prometheus::BuildGauge(), description, id, &parts_->registry));
  }
  return gauge.get();
}

Histogram* PrometheusMetrics::GetHistogram(const MetricId& id) {
  const MetricDescription& description =
      DescriptionOf(id, MetricType::kHistogram);
  MutexLock lock(&parts_->mutex);
  auto& histogram = parts_->histograms[id];
  if (histogram == nullptr) {
    histogram = std::make_unique<OneHistogram>(Register(
        prometheus::BuildHistogram(), description, id, &parts_->registry,
        prometheus::Histogram::BucketBoundaries(description.buckets.begin(),
                                                description.buckets.end())));
  }
  return histogram.get();
}

std::string PrometheusMetrics::Text(
    const std::vector<MetricSample>& samples) const {
  std::vector<prometheus::MetricFamily> families = parts_->registry.Collect();
  for (prometheus::MetricFamily& family : FamiliesOf(samples)) {
    families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace lockstep::metrics
