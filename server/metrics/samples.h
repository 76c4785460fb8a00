// The metrics that are computed when they are asked for, of one moment.
//
// Those of a job are there while it is not over, so a job that ends leaves no
// label value behind.
//
// Pure. Threads: none.

#ifndef LOCKSTEP_SERVER_METRICS_SAMPLES_H_
#define LOCKSTEP_SERVER_METRICS_SAMPLES_H_

#include <cstddef>
#include <vector>

#include "base/telemetry.h"
#include "protocol/limit_use.h"
#include "server/core/measurements.h"

namespace lockstep::metrics {

// So many jobs have metrics of their own; the first by name.
inline constexpr size_t kJobsMax = 1000;

struct MetricSample {
  MetricId id;  // of a counter or a gauge of the catalogue
  double value = 0;
  bool operator==(const MetricSample&) const = default;
};

std::vector<MetricSample> SamplesOf(const core::Measurements& measured);
std::vector<MetricSample> SamplesOf(const std::vector<LimitUse>& limits);

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_SERVER_METRICS_SAMPLES_H_
