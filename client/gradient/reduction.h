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
// Ownership: owns the communicators; the plan and the store must outlive it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_
#define LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/gradient/ballot.h"
#include "client/gradient/bucket_store.h"
#include "client/gradient/owned.h"
#include "client/gradient/pending.h"
#include "lockstep/communicator.h"
#include "plan/ir.h"

namespace lockstep::gradient {

class Reduction {
 public:
  // `on_failure` gets the error of a bucket's reduction, and in which
  // communicator it was; on the comm stream.
  Reduction(const plan::Plan& plan, int rank,
            std::vector<std::unique_ptr<Communicator>> communicators,
            BucketStore* store,
            std::function<void(int, const absl::Status&)> on_failure);
  // Waits for the comm stream: abort first if peers may not come.
  ~Reduction() = default;

  // Lays out the rank's launches by the plan. InvalidArgument for a transfer
  // that is not the all-reduce of a bucket.
  absl::Status Prepare();

  int items() const { return static_cast<int>(items_.size()); }
  int ItemOfBucket(int bucket) const { return item_of_bucket_[bucket]; }
  // How many gradients each item waits for.
  std::vector<int> PendingByItem() const;

  absl::Status LaunchBucket(int item);

  // `stamp` says which step it is once all before it has run; `judge` gets what
  // all ranks said, or why they could not.
  absl::Status LaunchVerdict(
      std::shared_ptr<PendingVerdict::State> verdict,
      std::function<StepStamp()> stamp,
      std::function<void(absl::StatusOr<Verdict>)> judge);

  // Could the verdict not be exchanged?
  bool WorldFailed() const { return !communicators_[0]->status().ok(); }

  // Ends every communicator, the verdict's first.
  void Abort(const absl::Status& cause);

 private:
  struct Item {
    int bucket = -1;
    int communicator = -1;
    std::vector<OwnedRange> owned;
  };

  absl::Status TakeNorm(const Item& item);
  Ballot TakeBallot(const FinishOptions& options);

  const plan::Plan& plan_;
  const int rank_;
  const std::vector<std::unique_ptr<Communicator>> communicators_;
  BucketStore* const store_;
  const std::function<void(int, const absl::Status&)> on_failure_;
  std::vector<Item> items_;
  std::vector<int> item_of_bucket_;

  // Of the step in progress; only on the comm stream.
  double norm_squared_ = 0;
  int64_t nonfinite_ = 0;

  HostStream stream_{"ls-comm"};  // last: its work uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_REDUCTION_H_
