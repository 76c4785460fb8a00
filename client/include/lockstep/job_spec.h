// The specification of a job: the values on which all its workers must agree.
//
// A spec is written as YAML or JSON (docs/spec.md; spec/spec_text.h parses it)
// or filled in here. The coordinator keeps the first spec of a job; a worker
// that joins with another one is refused with an error that names the differing
// fields.

#ifndef LOCKSTEP_JOB_SPEC_H_
#define LOCKSTEP_JOB_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/export.h"
#include "lockstep/job_options.h"
#include "lockstep/mesh.h"
#include "lockstep/pipeline_spec.h"

namespace lockstep {

// Whole milliseconds; so is JobLimits::restart_window.
struct JobTimeouts {
  // Time from the first worker's join until all workers must have joined.
  absl::Duration join = absl::Minutes(5);
  // Time without a message after which a worker is presumed dead.
  absl::Duration lease = absl::Seconds(10);
  // Time in which a worker whose stream broke must resume.
  absl::Duration resume = absl::Seconds(1);
  // Time with heartbeats and without progress after which a worker is stuck.
  absl::Duration progress = absl::Minutes(1);
  // Time to connect the data plane.
  absl::Duration connect = absl::Seconds(30);
  // Time without bytes on a connection of the data plane, while bytes are
  // expected, after which the connection has failed.
  absl::Duration link = absl::Seconds(10);

  // The effective value of `link`: at most half of `progress`, so that a broken
  // link is reported before the ranks that wait for it are called stuck.
  absl::Duration LinkSilence() const {
    return link < progress / 2 ? link : progress / 2;
  }
  bool operator==(const JobTimeouts&) const = default;
};

struct JobLimits {
  int64_t parameters_max = 1'000'000;  // per worker
  int max_restarts = 0;                // within restart_window
  absl::Duration restart_window = absl::Minutes(10);
  // Workers beyond the mesh's ranks that may join, and wait: one of them takes
  // the place of a lost worker at once.
  int spares = 0;
  bool operator==(const JobLimits&) const = default;
};

// Whether the job may go on with fewer workers, and may grow again.
struct ElasticSpec {
  // The axis of the mesh that may become smaller than the mesh says, by whole
  // replicas; empty: the job has a fixed size.
  std::string axis;
  // With fewer workers the job waits, for at most timeouts.join; 0: those of
  // one replica.
  int min_workers = 0;
  // Time after a loss in which replacements may join before the job goes on
  // with fewer workers. Whole milliseconds.
  absl::Duration wait = absl::ZeroDuration();
  bool operator==(const ElasticSpec&) const = default;
};

struct JobSpec {
  static constexpr int kRunAheadMax = 2;

  // 1 to 63 letters, digits, '.', '_' and '-'; begins with a letter or digit.
  // Workers' names follow the same rule.
  std::string name;
  Mesh mesh;  // of an elastic job: the largest
  // The names of the workers that may join, one for each rank and each spare.
  // Empty: any names.
  std::vector<std::string> workers;
  SyncMode sync = SyncMode::kStatic;
  // The data plane: "auto", "gloo", "shm" (one host) or "nccl" (GPUs).
  // "auto" is for hosts without GPUs: shared memory on each host, and Gloo
  // between hosts.
  std::string transport = "auto";
  DataPlane data_plane = DataPlane::kLocal;
  BucketPolicy buckets;
  ReproducibleSpec reproducible;
  PipelineSpec pipeline;  // schedule kNone: no pipeline
  ElasticSpec elastic;
  JobTimeouts timeouts;
  JobLimits limits;
  OnStuck on_stuck = OnStuck::kReport;
  OnUnsubmitted on_unsubmitted = OnUnsubmitted::kWarn;
  Uneven uneven = Uneven::kStop;
  Overlap overlap = Overlap::kAuto;
  // Steps that a worker may enqueue before its host has seen the verdict of the
  // one before them: 0 to kRunAheadMax. Only with transport "nccl", whose
  // devices decide verdicts. Buckets take run_ahead + 1 times the memory (one
  // more with buckets.windows), and
  // what a verdict asks of all ranks begins run_ahead steps later
  // (docs/gradients.md).
  int run_ahead = 0;
  // Members of a group compare each collective that they call on it.
  bool checked = false;
  uint64_t seed = 0;  // for the samples of each step: lockstep/samples.h

  bool operator==(const JobSpec&) const = default;
};

// One line of a spec as text: {"buckets.bytes_max", "25MiB"}.
struct SpecField {
  std::string name;
  std::string value;
  bool operator==(const SpecField&) const = default;
};

// All fields, in a fixed order, with their canonical text. This is the only
// list of a spec's fields: comparison, printing and the text form follow it.
LOCKSTEP_EXPORT std::vector<SpecField> FieldsOf(const JobSpec& spec);

// The fields in which two specs differ: name, value in `a`, value in `b`.
struct SpecDifference {
  std::string field;
  std::string a;
  std::string b;
};
LOCKSTEP_EXPORT std::vector<SpecDifference> Differences(const JobSpec& a,
                                                        const JobSpec& b);

// InvalidArgument names the first invalid field, its value and its domain.
LOCKSTEP_EXPORT absl::Status Validate(const JobSpec& spec);

// The mesh of an epoch of `world` workers: the spec's, with the size of the
// elastic axis changed. nullopt if no epoch of the job has so many. `spec` must
// be valid.
LOCKSTEP_EXPORT std::optional<Mesh> MeshOfWorld(const JobSpec& spec, int world);

}  // namespace lockstep

#endif  // LOCKSTEP_JOB_SPEC_H_
