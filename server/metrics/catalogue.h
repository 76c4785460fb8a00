// The metrics that lockstepd exports: docs/metrics.md has the same list.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_METRICS_CATALOGUE_H_
#define LOCKSTEP_SERVER_METRICS_CATALOGUE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lockstep::metrics {

enum class MetricType : uint8_t { kCounter = 1, kGauge, kHistogram };

struct MetricDescription {
  absl::string_view name;
  MetricType kind;
  absl::string_view help;
  absl::Span<const double> buckets = {};  // of histograms: upper bounds
};

absl::Span<const MetricDescription> AllMetrics();

// nullptr: there is none of that name.
const MetricDescription* FindMetric(absl::string_view name);

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_SERVER_METRICS_CATALOGUE_H_
