// The specification of a job: the values on which all its workers must agree.
//
// A spec is written as YAML or JSON (docs/spec.md; spec/spec_text.h parses it)
// or filled in here. The coordinator keeps the first spec of a job; a worker
// that joins with another one is refused with an error that names the differing
// fields.

#ifndef LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_JOB_SPEC_H_
#define LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_JOB_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/dtype.h"
#include "lockstep/export.h"
#include "lockstep/mesh.h"
#include "lockstep/pipeline_spec.h"

namespace lockstep {

// What determines the order in which gradients are reduced: the plan
// (kStatic), or the coordinator, for graphs that change from step to step
// (kNegotiated). kReduceScatter: the plan, and each rank gets the reduced
// gradients of its slice of the parameters only, updates that slice, and
// gathers the others (ZeRO-1).
enum class SyncMode : uint8_t {
  kStatic = 1,
  kNegotiated = 2,
  kReduceScatter = 3
};

// What happens to a worker that sends heartbeats but makes no progress: it is
// reported, or removed.
enum class OnStuck : uint8_t { kReport = 1, kEvict = 2 };

// Whether to warn about parameters that no rank, or only some of their ranks,
// submit.
enum class OnUnsubmitted : uint8_t { kWarn = 1, kIgnore = 2 };

// What happens when a rank has no more data: it contributes zeros until all
// ranks are out of data (kJoin), or all ranks stop (kStop).
enum class Uneven : uint8_t { kJoin = 1, kStop = 2 };

// The thread that runs a step's communication on the host: the training thread,
// in Finish (kInline); a helper thread, during the backward pass (kThread); or
// the faster of the two, as measured (kAuto).
enum class Overlap : uint8_t { kAuto = 1, kInline = 2, kThread = 3 };

// When buckets are cut again, in the order in which gradients become ready:
// after the first step and at an operator's request (kOnce), or only at an
// operator's request (kOnDemand).
enum class Rebuild : uint8_t { kOnce = 1, kOnDemand = 2 };

struct BucketPolicy {
  // Upper bounds of a bucket's bytes, including the padding between gradients.
  // A rank's first bucket is smaller, so that its first transfer starts early.
  // A parameter larger than the bound has a bucket of its own.
  int64_t first_bytes_max = 1 << 20;
  int64_t bytes_max = 25 << 20;
  Rebuild rebuild = Rebuild::kOnce;
  // The type in which f32 and f64 gradients are sent: kBF16, kF16, or unset for
  // their own type.
  std::optional<DType> wire_dtype;
  // Adds the rounding error of the cast to the gradient of the next step.
  bool error_feedback = false;
  bool operator==(const BucketPolicy&) const = default;
};

// Gradients with the same bits for any number of ranks: the batch of each step
// is divided into `leaves`, whose gradients are summed in one tree.
struct ReproducibleSpec {
  static constexpr int kLeavesMax = 1024;
  int leaves = 0;  // a power of two, up to kLeavesMax; 0: not reproducible
  bool operator==(const ReproducibleSpec&) const = default;
};

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
  bool operator==(const JobLimits&) const = default;
};

struct JobSpec {
  // 1 to 63 letters, digits, '.', '_' and '-'; begins with a letter or digit.
  // Workers' names follow the same rule.
  std::string name;
  Mesh mesh;
  // The names of the workers that may join, one per rank. Empty: any names.
  std::vector<std::string> workers;
  SyncMode sync = SyncMode::kStatic;
  // The data plane: "auto", "gloo", "shm" (one host) or "nccl" (GPUs).
  // "auto" is for hosts without GPUs: shared memory on each host, and Gloo
  // between hosts.
  std::string transport = "auto";
  BucketPolicy buckets;
  ReproducibleSpec reproducible;
  PipelineSpec pipeline;  // schedule kNone: no pipeline
  JobTimeouts timeouts;
  JobLimits limits;
  OnStuck on_stuck = OnStuck::kReport;
  OnUnsubmitted on_unsubmitted = OnUnsubmitted::kWarn;
  Uneven uneven = Uneven::kStop;
  Overlap overlap = Overlap::kAuto;
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

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_JOB_SPEC_H_
