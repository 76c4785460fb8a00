// What a job is: the values that every worker of it must agree on.
//
// A spec is written as YAML or JSON (docs/spec.md; spec/spec_text.h reads it)
// or filled in here. The coordinator keeps the first it is given; a worker that
// brings another is refused with the differing fields named.

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

// Who decides when a gradient moves: the plan alone, or the coordinator for
// graphs that change from step to step. kReduceScatter: the plan, and each rank
// gets the reduced gradients of its slice of the parameters only, updates that,
// and gathers the others' (the ZeRO-1 way).
enum class SyncMode : uint8_t {
  kStatic = 1,
  kNegotiated = 2,
  kReduceScatter = 3
};

// What happens to a worker that is alive and makes no progress.
enum class OnStuck : uint8_t { kReport = 1, kEvict = 2 };

// Parameters that no rank, or only some of their ranks, submit.
enum class OnUnsubmitted : uint8_t { kWarn = 1, kIgnore = 2 };

// What happens when a rank has no more data: it contributes nothing until all
// are out, or all stop with the first.
enum class Uneven : uint8_t { kJoin = 1, kStop = 2 };

// Who runs a step's communication on the host: the training thread, in Finish;
// a helper thread, beside the backward pass; or whichever is measured to take
// less time.
enum class Overlap : uint8_t { kAuto = 1, kInline = 2, kThread = 3 };

// When buckets are cut anew, in the order in which gradients become ready:
// after the first step and when an operator asks, or only then.
enum class Rebuild : uint8_t { kOnce = 1, kOnDemand = 2 };

struct BucketPolicy {
  // Upper bounds of a bucket's bytes, with the padding between gradients. A
  // rank's first bucket is smaller, so that its first transfer starts early. A
  // parameter larger than the bound has a bucket of its own.
  int64_t first_bytes_max = 1 << 20;
  int64_t bytes_max = 25 << 20;
  Rebuild rebuild = Rebuild::kOnce;
  // f32 and f64 gradients travel as this type: kBF16, kF16, or as they are.
  std::optional<DType> wire_dtype;
  // What the cast took from a gradient is added to the next step's.
  bool error_feedback = false;
  bool operator==(const BucketPolicy&) const = default;
};

// Gradients that have the same bits whatever the number of ranks: each step's
// gradients come in so many leaves, which are summed in one tree.
struct ReproducibleSpec {
  static constexpr int kLeavesMax = 1024;
  int leaves = 0;  // a power of two, up to kLeavesMax; 0: no such sums
  bool operator==(const ReproducibleSpec&) const = default;
};

// Whole milliseconds; so is JobLimits::restart_window.
struct JobTimeouts {
  // From the first worker's arrival until all must be there.
  absl::Duration join = absl::Minutes(5);
  // Silence after which a worker is presumed dead.
  absl::Duration lease = absl::Seconds(10);
  // How long a worker whose stream broke may take to resume.
  absl::Duration resume = absl::Seconds(1);
  // Heartbeats without progress after which a worker is called stuck.
  absl::Duration progress = absl::Minutes(1);
  // Connecting the data plane.
  absl::Duration connect = absl::Seconds(30);
  // Silence on a connection of the data plane, while something is owed there,
  // after which it is given up.
  absl::Duration link = absl::Seconds(10);

  // What holds of `link`: at most half of `progress`, so that a link that is
  // cut is named before ranks that it holds up are called stuck.
  absl::Duration LinkSilence() const {
    return link < progress / 2 ? link : progress / 2;
  }
  bool operator==(const JobTimeouts&) const = default;
};

struct JobLimits {
  int64_t parameters_max = 1'000'000;  // of one worker
  int max_restarts = 0;                // within restart_window
  absl::Duration restart_window = absl::Minutes(10);
  bool operator==(const JobLimits&) const = default;
};

struct JobSpec {
  // 1 to 63 letters, digits, '.', '_' and '-', first a letter or a digit; so
  // are the workers' names.
  std::string name;
  Mesh mesh;
  // The names that may join, one for each rank; empty: any name, as many as the
  // mesh has ranks.
  std::vector<std::string> workers;
  SyncMode sync = SyncMode::kStatic;
  // The data plane: "auto", "gloo", "shm" (one host) or "nccl" (GPUs).
  // Auto is for hosts without GPUs: shared memory on each of them, and gloo
  // between.
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
  uint64_t seed = 0;  // of the samples of each step: lockstep/samples.h

  bool operator==(const JobSpec&) const = default;
};

// One line of a spec as text: {"buckets.bytes_max", "25MiB"}.
struct SpecField {
  std::string name;
  std::string value;
  bool operator==(const SpecField&) const = default;
};

// Every field, in a fixed order, with its canonical text. The only listing of a
// spec's fields: comparison, printing and the text form all follow it.
LOCKSTEP_EXPORT std::vector<SpecField> FieldsOf(const JobSpec& spec);

// The fields in which two specs differ: name, value in `a`, value in `b`.
struct SpecDifference {
  std::string field;
  std::string a;
  std::string b;
};
LOCKSTEP_EXPORT std::vector<SpecDifference> Differences(const JobSpec& a,
                                                        const JobSpec& b);

// InvalidArgument names the first field that is out of its domain, its value
// and the domain.
LOCKSTEP_EXPORT absl::Status Validate(const JobSpec& spec);

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_JOB_SPEC_H_
