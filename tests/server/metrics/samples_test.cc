// What is measured, as samples.

#include "server/metrics/samples.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::metrics {
namespace {

using testing::Contains;
using testing::IsSupersetOf;
using testing::Not;

core::JobMeasurements JobNamed(const std::string& name) {
  return {.name = {name}, .state = JobState::kRunning};
}

MetricSample Of(const std::string& job, const std::string& what, double value) {
  return {{absl::StrCat("lockstep_job_", what), {{"job_name", job}}}, value};
}

// Whether any sample has that metric.
auto HasMetric(const std::string& name) {
  return Contains(
      testing::Field(&MetricSample::id, testing::Field(&MetricId::name, name)));
}

TEST(SamplesTest, AJobIsMeasuredByItsName) {
  core::JobMeasurements job = JobNamed("digits");
  job.epoch = {3};
  job.steps = 412;
  job.stepped_at = absl::UnixEpoch() + absl::Milliseconds(1500);
  job.workers = 7;
  job.workers_wanted = 8;
  job.stalls = 1;
  job.paused = true;
  job.checkpoint_step = 400;
  job.checkpoint_at = absl::UnixEpoch() + absl::Seconds(1);
  job.saves_failed = 2;
  EXPECT_THAT(
      SamplesOf(core::Measurements{.living = {job}}),
      IsSupersetOf(
          {MetricSample{{"lockstep_job_state",
                         {{"job_name", "digits"}, {"state", "running"}}},
                        1},
           Of("digits", "epoch", 3), Of("digits", "step", 412),
           Of("digits", "last_step_timestamp_seconds", 1.5),
           Of("digits", "workers", 7), Of("digits", "workers_wanted", 8),
           Of("digits", "stalled_workers", 1), Of("digits", "paused", 1),
           Of("digits", "checkpoint_step", 400),
           Of("digits", "checkpoint_timestamp_seconds", 1),
           Of("digits", "saves_failed_total", 2)}));
}

TEST(SamplesTest, WhatIsNotKnownIsNotThere) {
  const auto samples =
      SamplesOf(core::Measurements{.living = {JobNamed("digits")}});
  EXPECT_THAT(samples,
              Not(HasMetric("lockstep_job_last_step_timestamp_seconds")));
  EXPECT_THAT(samples, Not(HasMetric("lockstep_job_checkpoint_step")));
  EXPECT_THAT(samples,
              Not(HasMetric("lockstep_job_checkpoint_timestamp_seconds")));
  EXPECT_THAT(samples, HasMetric("lockstep_job_step"));
}

TEST(SamplesTest, OnlySoManyJobsHaveMetricsOfTheirOwn) {
  core::Measurements measured;
  for (size_t i = 0; i < kJobsMax + 5; ++i) {
    measured.living.push_back(JobNamed(absl::StrCat("job-", i)));
  }
  const auto samples = SamplesOf(measured);
  EXPECT_THAT(samples,
              Contains(MetricSample{{"lockstep_jobs_without_metrics"}, 5}));
  EXPECT_THAT(samples, Contains(Of("job-999", "step", 0)));
  EXPECT_THAT(samples, Not(Contains(Of("job-1000", "step", 0))));
}

TEST(SamplesTest, StatesAreCountedAlsoThoseOfNoJob) {
  EXPECT_THAT(SamplesOf(core::Measurements{
                  .jobs = {{JobState::kRunning, 2}, {JobState::kFailed, 0}}}),
              IsSupersetOf(
                  {MetricSample{{"lockstep_jobs", {{"state", "running"}}}, 2},
                   MetricSample{{"lockstep_jobs", {{"state", "failed"}}}, 0}}));
}

TEST(SamplesTest, LimitsHaveTheirRefusals) {
  const std::vector<LimitUse> limits = {
      {.name = "jobs", .value = 10, .used = 4, .refused = 2},
      {.name = "message_bytes", .value = 99}};
  const auto of = [](const char* name, const char* limit, double value) {
    return MetricSample{{name, {{"limit", limit}}}, value};
  };
  EXPECT_THAT(SamplesOf(limits),
              testing::ElementsAre(
                  of("lockstep_limit", "jobs", 10),
                  of("lockstep_limit_used", "jobs", 4),
                  of("lockstep_limit_refused_total", "jobs", 2),
                  of("lockstep_limit", "message_bytes", 99),
                  of("lockstep_limit_refused_total", "message_bytes", 0)));
}

}  // namespace
}  // namespace lockstep::metrics
