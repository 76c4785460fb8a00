// A worker's proof, step by step, that gradients which travelled as halves are
// those of one process, but for rounding.
//
//   network ── its values ──▶ a copy ── every rank's samples in turn ──▶ g_r
//      │ reduced gradient                                                 │
//      └──────────────── |difference| <= WireBound ───────────────────────┘
//
// Compared are gradients from equal parameters, since of those a bound can be
// derived (wire_bound.h). What many steps make of differences is training's
// own: no bound on it follows from the wire.
//
// It costs the computation of all ranks. Threads: as its network.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_GRADIENT_AUDIT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_GRADIENT_AUDIT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/trainer.h"
#include "lockstep/job_spec.h"

namespace lockstep::digits {

// What a rank trains on in a step.
using SamplesOfRank =
    std::function<std::vector<int64_t>(int64_t step, int rank)>;

template <typename T>
class GradientAudit {
 public:
  // `buckets` has a wire dtype.
  GradientAudit(const BucketPolicy& buckets, int ranks, const Recipe& recipe,
                const TrainingSet& training_set, SamplesOfRank samples);

  // Compares the part of each gradient that this process updates. `network` has
  // the reduced gradients of `step` and not been updated with them. Of every
  // step, in order, whose gradients are finite. Internal names the first
  // element that rounding does not explain.
  absl::Status Check(int64_t step, const Network<T>& network);

  // The largest error yet, as a part of its bound: 0 to 1.
  double worst() const { return worst_; }

 private:
  // By rank: the gradient of each parameter.
  using Gradients = std::vector<std::vector<T>>;

  std::vector<Gradients> Compute(int64_t step, const Network<T>& network);
  absl::Status Compare(size_t parameter, size_t element, double reduced,
                       const std::vector<Gradients>& gradients);

  const BucketPolicy buckets_;
  const int ranks_;
  const SamplesOfRank samples_;
  Network<T> copy_;
  int computed_ = 0;  // the rank whose samples are computed
  Trainer<T> trainer_;
  // By rank, parameter and element: what feedback carries is no larger.
  std::vector<std::vector<std::vector<double>>> carried_;
  double worst_ = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_GRADIENT_AUDIT_H_
