#include "server/metrics/samples.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace lockstep::metrics {
namespace {

using Samples = std::vector<MetricSample>;

// Seconds since the epoch, as Prometheus has times.
double Timestamp(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

void Add(const core::JobMeasurements& job, Samples* samples) {
  const auto add = [&](const char* name, double value) {
    samples->push_back({{name, {{"job_name", job.name.value}}}, value});
  };
  samples->push_back({{"lockstep_job_state",
                       {{"job_name", job.name.value},
                        {"state", std::string(Name(job.state))}}},
                      1});
  add("lockstep_job_epoch", static_cast<double>(job.epoch.value));
  add("lockstep_job_step", static_cast<double>(job.steps));
  if (job.stepped_at != absl::InfinitePast()) {
    add("lockstep_job_last_step_timestamp_seconds", Timestamp(job.stepped_at));
  }
  add("lockstep_job_workers", job.workers);
  add("lockstep_job_workers_wanted", job.workers_wanted);
  add("lockstep_job_stalled_workers", job.stalls);
  add("lockstep_job_paused", job.paused ? 1 : 0);
  if (job.checkpoint_step) {
    add("lockstep_job_checkpoint_step",
        static_cast<double>(*job.checkpoint_step));
  }
  if (job.checkpoint_at != absl::InfinitePast()) {
    add("lockstep_job_checkpoint_timestamp_seconds",
        Timestamp(job.checkpoint_at));
  }
  add("lockstep_job_saves_failed_total", static_cast<double>(job.saves_failed));
}

}  // namespace

std::vector<MetricSample> SamplesOf(const core::Measurements& measured) {
  Samples samples = SamplesOf(measured.limits);
  for (const auto& [state, jobs] : measured.jobs) {
    samples.push_back({{"lockstep_jobs", {{"state", std::string(Name(state))}}},
                       static_cast<double>(jobs)});
  }
  const size_t shown = std::min(measured.living.size(), kJobsMax);
  samples.push_back({{"lockstep_jobs_without_metrics"},
                     static_cast<double>(measured.living.size() - shown)});
  for (size_t i = 0; i < shown; ++i) Add(measured.living[i], &samples);
  return samples;
}

std::vector<MetricSample> SamplesOf(const std::vector<LimitUse>& limits) {
  Samples samples;
  for (const LimitUse& limit : limits) {
    const auto add = [&](const char* name, int64_t value) {
      samples.push_back(
          {{name, {{"limit", limit.name}}}, static_cast<double>(value)});
    };
    add("lockstep_limit", limit.value);
    if (limit.used) add("lockstep_limit_used", *limit.used);
    add("lockstep_limit_refused_total", limit.refused);
  }
  return samples;
}

}  // namespace lockstep::metrics
