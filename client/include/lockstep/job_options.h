// The choices of a job spec that more than the spec needs to know
// (lockstep/job_spec.h).

#ifndef LOCKSTEP_JOB_OPTIONS_H_
#define LOCKSTEP_JOB_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "lockstep/dtype.h"

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

// Where the data of workers may go, which is not encrypted: between processes
// of one machine (kLocal), or over a network whose hosts are all trusted.
enum class DataPlane : uint8_t { kLocal = 1, kTrusted = 2 };

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
  // Registers buckets with NCCL, as windows of all ranks where it can, so that
  // it copies less. Only with JobSpec::run_ahead; takes one bucket set more,
  // since an operation that is aborted may write to its peers' windows.
  bool windows = false;
  bool operator==(const BucketPolicy&) const = default;
};

// Gradients with the same bits for any number of ranks: the batch of each step
// is divided into `leaves`, whose gradients are summed in one tree.
struct ReproducibleSpec {
  static constexpr int kLeavesMax = 1024;
  int leaves = 0;  // a power of two, up to kLeavesMax; 0: not reproducible
  bool operator==(const ReproducibleSpec&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_JOB_OPTIONS_H_
