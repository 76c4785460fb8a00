// Metrics in a registry of prometheus-cpp, and as the text that Prometheus
// reads.
//
// A metric that is not in the catalogue, or of another kind, is a mistake of
// the program, which ends.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_METRICS_PROMETHEUS_METRICS_H_
#define LOCKSTEP_SERVER_METRICS_PROMETHEUS_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/telemetry.h"
#include "server/metrics/samples.h"

namespace lockstep::metrics {

class PrometheusMetrics final : public MetricSink {
 public:
  PrometheusMetrics();
  ~PrometheusMetrics() override;

  Counter* GetCounter(const MetricId& id) override;
  Gauge* GetGauge(const MetricId& id) override;
  Histogram* GetHistogram(const MetricId& id) override;

  // All of these, and `samples`, in the text format 0.0.4. Samples are of other
  // names.
  std::string Text(const std::vector<MetricSample>& samples) const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_SERVER_METRICS_PROMETHEUS_METRICS_H_
