// Proves, step by step on a worker, that gradients that were sent as halves
// differ from those of one process by rounding only.
//
//   network ── its values ──▶ a copy ── every rank's samples in turn ──▶ g_r
//      │ reduced gradient                                                 │
//      └──────────────── |difference| <= WireBound ───────────────────────┘
//
// It compares gradients computed from equal parameters, because a bound for
// these can be derived (wire_bound.h). How differences grow over many steps
// depends on the training: no bound follows from the wire type.
//
// It costs the computation of all ranks. Threads: as its network.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_GRADIENT_AUDIT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_GRADIENT_AUDIT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/trainer.h"
#include "lockstep/job_options.h"

namespace lockstep::digits {

// Returns the samples of a rank in a step.
using SamplesOfRank =
    std::function<std::vector<int64_t>(int64_t step, int rank)>;

template <typename T>
class GradientAudit {
 public:
  // `buckets` must have a wire dtype.
  GradientAudit(const BucketPolicy& buckets, int ranks, const Recipe& recipe,
                const TrainingSet& training_set, SamplesOfRank samples);

  // Compares the part of each gradient that this process updates. `network` has
  // the reduced gradients of `step`, not applied yet. Call it for every step
  // with finite gradients, in order. Internal names the first element that
  // rounding does not explain.
  absl::Status Check(int64_t step, const Network<T>& network);

  // The largest error so far, as a fraction of its bound: 0 to 1.
  double worst() const { return worst_; }

 private:
  // Indexed by rank: the gradient of each parameter.
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
  // Indexed by rank, parameter and element: a bound on the residual of
  // feedback.
  std::vector<std::vector<std::vector<double>>> carried_;
  double worst_ = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_GRADIENT_AUDIT_H_
