// What runs on the comm stream: the buckets' reductions, the norms of what came
// out, and the verdict's exchange.
//
//   comm stream   [all-reduce 0][norm 0][all-reduce 1][norm 1] ... [verdict]
//
// The norm of a bucket is taken right after its reduction, while the next one
// is still being filled.
//
// Threads: Launch calls come one at a time, in the lane's order; callbacks run
//          on the comm stream's thread; Abort from any thread.
// Ownership: owns the communicators, which outlive every layout: a layout is
//          needed until the verdict behind its buckets has been judged.

#ifndef LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_
#define LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "client/gradient/ballot.h"
#include "client/gradient/layout.h"
#include "client/gradient/pending.h"
#include "lockstep/communicator.h"

namespace lockstep::gradient {

// How a rank takes part in one reduction of negotiated mode.
struct Share {
  int announcers = 0;  // ranks that give a gradient
  bool gives = false;  // this one does; else it gives zeros, and keeps zeros
};

class Reduction {
 public:
  // By index in the plan; null where this rank is not a member. `on_failure`
  // gets the error of a bucket's reduction, and in which communicator it was;
  // on the comm stream.
  Reduction(std::vector<std::unique_ptr<Communicator>> communicators,
            std::function<void(int, const absl::Status&)> on_failure);
  // Waits for the comm stream: abort first if peers may not come.
  ~Reduction() = default;

  absl::Status LaunchBucket(Layout& layout, int item);

  // The same in negotiated mode, for a bucket of one parameter. A mean is over
  // those who announced: the sum times 1 / announcers; in f16 and bf16, where
  // the sum may overflow, the mean over the group times size / announcers.
  absl::Status LaunchShared(Layout& layout, int item, const Share& share);

  // Does `work` when the comm stream gets there.
  void Run(absl::AnyInvocable<void()> work);

  // `enter` says which step it is once all before it has run, and adds to the
  // ballot what only its owner knows; `judge` gets what all ranks said, or why
  // they could not.
  absl::Status LaunchVerdict(
      std::shared_ptr<PendingVerdict::State> verdict,
      std::function<StepStamp(Ballot*)> enter,
      std::function<void(absl::StatusOr<Verdict>)> judge);

  // Could the verdict not be exchanged?
  bool WorldFailed() const { return !communicators_[0]->status().ok(); }

  // Ends every communicator, the verdict's first.
  void Abort(const absl::Status& cause);

 private:
  static void Rescale(Layout& layout, int bucket, double factor);
  absl::Status TakeNorm(const Layout& layout, const Layout::Item& item);
  Ballot TakeBallot(const FinishOptions& options);

  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const std::function<void(int, const absl::Status&)> on_failure_;

  // Of the step in progress; only on the comm stream.
  double norm_squared_ = 0;
  int64_t nonfinite_ = 0;

  HostStream stream_{"ls-comm"};  // last: its work uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_
