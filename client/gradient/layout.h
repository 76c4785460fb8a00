// The state of a rank's gradients that depends on the revision of the plan, and
// is replaced as a whole: the location of each gradient, and the program that
// reduces them.
//
//   plan ─┬─ store     the buckets' memory
//         ├─ program   the rank's units (executor/program.h)
//         └─ as owner of the gradient lane: operands and local operations of
//            its transfers
//
// A mean with a norm behind it, over a communicator that multiplies by 1 /
// ranks in a pass of its own (nccl), is lowered to a plain sum, and the pass of
// the norm multiplies:
//
//   plan      all-reduce mean                     | read-flags, norm
//   lowered   all-reduce sum ──▶ [flags] ──▶ [ScaleAndCheck]──┐ side stream
//                                                             ▼
//   verdict                                    comm stream waits, then [record]
//
// The plan does not say so: what is sent, the means and the norm have the same
// bits either way, and each rank decides for itself. The reduced flags are then
// read before they are multiplied; only whether they are 0 counts. Views hold
// means once the record of the step is written: the update waits for the
// verdict, which is behind it.
//
// Communicators and the comm queue are not part of it; they do not change.
//
// Threads: as BucketStore; as owner of a lane, as in lane_owner.h. Everything
//          else is fixed after MakeProgram.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LAYOUT_H_
#define LOCKSTEP_CLIENT_GRADIENT_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/executor/executor.h"
#include "client/gradient/bucket_store.h"
#include "kernels/finite_check.h"
#include "lockstep/arena.h"
#include "plan/ir.h"
#include "plan/shard.h"

namespace lockstep::gradient {

class ParameterStore;

class Layout final : public executor::LaneOwner {
 public:
  // The gather of the parameters of one sharded bucket.
  struct Gather {
    int bucket = -1;
    int communicator = -1;
    plan::TransferRef transfer;
    plan::Slice slice;  // sent by this rank
  };

  // `names` are the rank's parameters in registration order; the layout
  // identifies them by position in that list. The memory is zeroed.
  // InvalidArgument if the plan lacks one of the parameters, or has operations
  // on this rank's gradient lane that are not supported; errors of `allocate`.
  static absl::StatusOr<std::unique_ptr<Layout>> Create(
      std::shared_ptr<const plan::Plan> plan, int rank,
      const std::vector<std::string>& names, transport::DeviceContext* compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The objects that a program of this layout refers to.
  struct Surroundings {
    executor::Executor* executor = nullptr;
    executor::LaneOwner* verdict = nullptr;
    // The accumulator of norms: of the rank (-1), or of a leaf of the job.
    std::function<kernels::FiniteCheck*(int leaf)> norm;
    ParameterStore* values = nullptr;  // null unless buckets are sharded
    // Whether the coordinator decides the order.
    bool is_decided = false;
    std::function<void(int communicator, const absl::Status&)> on_failure;
  };
  // Errors of Program::Create.
  absl::Status MakeProgram(Surroundings surroundings);
  std::shared_ptr<const executor::Program> program() const { return program_; }

  Revision revision() const { return plan_->revision; }
  const plan::Plan& plan() const { return *plan_; }
  // Whether both have the same parameters and communicators.
  bool IsRevisionOf(const Layout& other) const {
    return plan_->parameters == other.plan_->parameters &&
           plan_->communicators == other.plan_->communicators;
  }
  const plan::Bucket& bucket(int b) const { return plan_->buckets[b]; }
  // Leaves of every bucket of the job; 0: none.
  int leaves() const {
    return plan_->buckets.empty() ? 0 : plan_->buckets[0].leaves;
  }
  BucketStore& store() { return store_; }
  const BucketStore& store() const { return store_; }

  DType DTypeOf(int parameter) const {
    return bucket(store_.PlaceOf(parameter).bucket).dtype;
  }
  ReduceOp OpOf(int parameter) const {
    return bucket(store_.PlaceOf(parameter).bucket).op;
  }
  // The parameter's index in the plan, the same in every revision.
  uint32_t PlanIndexOf(int parameter) const { return parameters_[parameter]; }

  // The transfer that waits for the parameter's gradient.
  plan::TransferRef TransferOf(int parameter) const {
    return first_of_bucket_[store_.PlaceOf(parameter).bucket];
  }
  // Whether the plan orders that transfer after transfers of other lanes.
  bool FollowsOthers(int parameter) const;
  // The transfer that ends the step; the first of its group.
  plan::TransferRef verdict() const { return verdict_; }
  // In launch order, before all reductions.
  const std::vector<Gather>& gathers() const { return gathers_; }
  // The bucket's elements whose sum this rank gets.
  plan::Slice SliceOf(int bucket) const;

  // Registers each bucket's memory with its communicator, in the plan's order;
  // all ranks call it together, between steps.
  absl::Status RegisterBuffer(
      absl::FunctionRef<Communicator*(int)> communicator,
      const BucketStore::RegisterFn& register_buffer) {
    return store_.RegisterBuckets(communicator, register_buffer);
  }

  // Copies every gradient from another revision of the same rank.
  absl::Status CopyGradients(const Layout& from) {
    return store_.CopyGradients(from.store_);
  }

  // From now on each reduced bucket is copied, if `may` commits
  // (BucketStore::KeepCopy); null: no longer.
  void KeepReduced(const VerdictScalars* may) { may_keep_ = may; }

  // The number of the gathers that are marked ready next (parameter_store.h);
  // called on the thread that marks them.
  void SetGather(uint64_t number) { gather_ = number; }

 private:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // Element ranges of a transfer whose norms are added to one total.
  struct Norm {
    int leaf = -1;
    std::vector<kernels::ElementRange> ranges;
    ArenaBuffer scratch;  // for computing them
  };

  Layout(std::shared_ptr<const plan::Plan> plan, int rank)
      : plan_(std::move(plan)), rank_(rank) {}
  absl::Status FindTransfers();
  absl::Status CollectNorms(transport::DeviceContext* compute);
  int PendingOf(const plan::Lane& lane, const plan::Transfer& transfer) const;
  void AddNorms(KernelQueue& kernel_queue, const plan::Transfer& transfer);
  // The same for a transfer that ScalesMean: also multiplies its result.
  void ScaleAndAddNorm(KernelQueue& kernel_queue,
                       const plan::Transfer& transfer);
  // The elements of the bucket that the transfer reduces on this rank.
  kernels::ElementRange ResultOf(const plan::Transfer& transfer) const;

  executor::Operands OperandsOf(plan::TransferRef ref,
                                const plan::Transfer& transfer) override;
  int DivisorOf(const plan::Transfer& transfer) override;
  std::vector<transport::CheckedPart> ChecksOf(
      const plan::Transfer& transfer) override;
  bool ScalesMean(const plan::Transfer& transfer) override;
  absl::Status Apply(KernelQueue& kernel_queue, const plan::Transfer& transfer,
                     executor::Side side, bool has_norms) override;
  void Failed(const plan::Transfer&, int communicator,
              const absl::Status& error) override {
    around_.on_failure(communicator, error);
  }

  const std::shared_ptr<const plan::Plan> plan_;
  const int rank_;
  std::vector<int> parameters_;  // the rank's, as indices of the plan
  BucketStore store_;
  std::vector<Gather> gathers_;
  std::vector<plan::TransferRef> first_of_bucket_;
  std::vector<const plan::Transfer*> last_of_bucket_;
  plan::TransferRef verdict_;
  absl::flat_hash_map<const plan::Transfer*, std::vector<Norm>> norms_;
  Surroundings around_;
  uint64_t gather_ = 0;
  const VerdictScalars* may_keep_ = nullptr;
  std::shared_ptr<const executor::Program> program_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LAYOUT_H_
