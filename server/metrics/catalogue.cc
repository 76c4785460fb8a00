#include "server/metrics/catalogue.h"

#include <algorithm>

namespace lockstep::metrics {
namespace {

using enum MetricType;

// An event takes microseconds; one that takes 0.1 s delays all jobs.
constexpr double kEventSeconds[] = {1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10};
// A disk takes milliseconds, etcd tens of them.
constexpr double kCommitSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                     0.1,   0.25,   0.5,   1,    2.5,   10};

constexpr MetricDescription kMetrics[] = {
    // --- The coordinator ---
    {"lockstep_build_info", kGauge, "1; the version is a label"},
    {"lockstep_leader", kGauge,
     "1 if this coordinator leads and serves; 0 while it waits until it leads"},
    {"lockstep_term", kGauge, "The term in which this coordinator leads"},
    {"lockstep_sessions", kGauge, "Open streams of workers"},
    {"lockstep_messages_received_total", kCounter, "Messages of workers"},
    {"lockstep_messages_sent_total", kCounter, "Messages to workers"},
    {"lockstep_event_seconds", kHistogram,
     "How long the state machine took for one event", kEventSeconds},
    {"lockstep_certificate_expiry_timestamp_seconds", kGauge,
     "When the first certificate of a file of --tls or --etcd_tls expires"},
    // --- The journal ---
    {"lockstep_journal_commit_seconds", kHistogram,
     "From a record's append until it was durable", kCommitSeconds},
    {"lockstep_journal_waits_for_room", kGauge,
     "1 if the journal's disk is full"},
    // --- Limits ---
    {"lockstep_limit", kGauge, "The value of a limit"},
    {"lockstep_limit_used", kGauge, "How much of a limit is used now"},
    {"lockstep_limit_refused_total", kCounter,
     "How often something was refused for a limit"},
    // --- All jobs ---
    {"lockstep_jobs", kGauge, "Jobs in a state"},
    {"lockstep_jobs_without_metrics", kGauge,
     "Living jobs beyond those that have metrics of their own"},
    {"lockstep_jobs_created_total", kCounter, "Jobs that were created"},
    {"lockstep_jobs_adopted_total", kCounter,
     "Running jobs that were adopted from their workers"},
    {"lockstep_jobs_ended_total", kCounter,
     "Jobs that ended, by their outcome"},
    {"lockstep_epochs_begun_total", kCounter, "Epochs that were formed"},
    {"lockstep_epochs_ended_total", kCounter,
     "Epochs that ended, by the cause"},
    {"lockstep_saves_committed_total", kCounter,
     "Checkpoints that were committed"},
    // --- Each living job ---
    {"lockstep_job_state", kGauge, "1; the state of the job is a label"},
    {"lockstep_job_epoch", kGauge, "The job's newest epoch"},
    {"lockstep_job_step", kGauge, "The steps that the job has committed"},
    {"lockstep_job_last_step_timestamp_seconds", kGauge,
     "When a worker first reported the newest step"},
    {"lockstep_job_workers", kGauge, "Connected workers"},
    {"lockstep_job_workers_wanted", kGauge, "The ranks of the job's mesh"},
    {"lockstep_job_stalled_workers", kGauge,
     "Workers that the others wait for longer than usual"},
    {"lockstep_job_paused", kGauge, "1 if an operator has paused the job"},
    {"lockstep_job_checkpoint_step", kGauge,
     "The step of the newest committed checkpoint"},
    {"lockstep_job_checkpoint_timestamp_seconds", kGauge,
     "When the newest checkpoint was committed"},
    {"lockstep_job_saves_failed_total", kCounter, "Saves that failed"},
};

}  // namespace

absl::Span<const MetricDescription> AllMetrics() { return kMetrics; }

const MetricDescription* FindMetric(absl::string_view name) {
  const auto* const found = std::find_if(
      std::begin(kMetrics), std::end(kMetrics),
      [&](const MetricDescription& metric) { return metric.name == name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

}  // namespace lockstep::metrics
