// Everything of a rank's gradients that depends on the revision of the plan,
// and so is replaced as one thing: where each gradient lies, which transfers
// there are, in which order, and what waits for what.
//
//   plan ─┬─ store     the buckets' memory
//         ├─ items     this rank's reductions in launch order, what it counts
//         │            of each in the norm; before them its gathers
//         └─ pending   how many gradients each transfer waits for
//
// Communicators and the comm stream are not in it: they stay.
//
// Threads: as BucketStore; everything else is fixed.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LAYOUT_H_
#define LOCKSTEP_CLIENT_GRADIENT_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/executor/enqueue.h"
#include "client/gradient/bucket_store.h"
#include "lockstep/arena.h"
#include "plan/ir.h"
#include "plan/shard.h"

namespace lockstep::gradient {

class Layout {
 public:
  // What this rank counts in the norm of a leaf (leaf_norms.h).
  struct OwnedPart {
    int leaf = 0;
    std::vector<kernels::ElementRange> ranges;
    ArenaBuffer scratch;  // for counting them
  };
  // One reduction of this rank: of a bucket.
  struct Item {
    int bucket = -1;
    int communicator = -1;
    // The plan's: what brings the gradients, as one operation, and before it,
    // of a bucket with leaves, the exchange of its sums.
    std::vector<executor::PlannedTransfer> transfers;
    std::optional<executor::PlannedTransfer> exchange;
    plan::Slice slice;  // of the bucket, whose sum this rank gets
    std::vector<kernels::ElementRange> owned;  // counted here in the norm
    bool owns_slice = false;           // all that this rank folds, or has
    ArenaBuffer scratch;               // for counting them
    std::vector<OwnedPart> of_leaves;  // instead, if it has leaves
    // Transfers of other lanes that must be over before it begins.
    std::vector<plan::TransferRef> before;
  };
  // One gather, of the parameters of a sharded bucket.
  struct Gather {
    int bucket = -1;
    int communicator = -1;
    const plan::Transfer* transfer = nullptr;  // the plan's
    plan::Slice slice;                         // that this rank gives
  };

  // `names` are the rank's parameters in registration order; the layout speaks
  // of them by position in that list. The memory is zeroed. InvalidArgument if
  // the plan does not have the parameters, or asks of this rank's gradient lane
  // what it cannot do; errors of `allocate`. `sums_in_pairs` as BucketStore's.
  static absl::StatusOr<std::unique_ptr<Layout>> Create(
      plan::Plan plan, int rank, const std::vector<std::string>& names,
      transport::Compute* compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate,
      const std::vector<bool>& sums_in_pairs = {});

  Revision revision() const { return plan_.revision; }
  // Of the same parameters and communicators?
  bool IsRevisionOf(const Layout& other) const {
    return plan_.parameters == other.plan_.parameters &&
           plan_.communicators == other.plan_.communicators;
  }
  const plan::Bucket& bucket(int b) const { return plan_.buckets[b]; }
  // Of every bucket of the job; 0: none.
  int leaves() const {
    return plan_.buckets.empty() ? 0 : plan_.buckets[0].leaves;
  }
  BucketStore& store() { return store_; }
  const BucketStore& store() const { return store_; }

  DType DTypeOf(int parameter) const {
    return bucket(store_.PlaceOf(parameter).bucket).dtype;
  }
  ReduceOp OpOf(int parameter) const {
    return bucket(store_.PlaceOf(parameter).bucket).op;
  }
  // Its index in the plan, the same in every revision.
  uint32_t PlanIndexOf(int parameter) const { return parameters_[parameter]; }

  const std::vector<Item>& items() const { return items_; }
  // In launch order, before all items.
  const std::vector<Gather>& gathers() const { return gathers_; }
  // The item that the parameter travels in.
  int ItemOf(int parameter) const {
    return item_of_bucket_[store_.PlaceOf(parameter).bucket];
  }
  std::vector<int> PendingByItem() const;
  // The last of a pipeline stage's gradients; -1 if there are none of its own.
  int LastItemOfStage(int stage) const;

  // Tells each bucket's communicator of its memory, in the plan's order: on all
  // ranks alike, between steps.
  absl::Status Enlist(absl::FunctionRef<Communicator*(int)> communicator,
                      const BucketStore::Enlist& enlist) {
    return store_.EnlistBuckets(communicator, enlist);
  }

  // Brings every gradient of another revision, of the same rank, over.
  absl::Status CopyGradients(const Layout& from) {
    return store_.CopyGradients(from.store_);
  }

 private:
  explicit Layout(plan::Plan plan) : plan_(std::move(plan)) {}
  absl::Status LayOutLaunches(int rank, transport::Compute* compute);
  // False for a transfer that is no part of a reduction.
  bool LayOut(int lane, const plan::Transfer& transfer, int rank);
  int PositionIn(int bucket, int rank) const;
  plan::Slice SliceOn(int bucket, int rank) const;
  // Where an item's transfer reads and writes: in place, but for the exchange.
  executor::PlannedTransfer Planned(const Item& item,
                                    const plan::Transfer& transfer) const;

  const plan::Plan plan_;
  std::vector<int> parameters_;  // the rank's own, in the plan
  BucketStore store_;
  std::vector<Item> items_;
  std::vector<Gather> gathers_;
  std::vector<int> item_of_bucket_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LAYOUT_H_
