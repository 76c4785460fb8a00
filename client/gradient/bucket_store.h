// The gradients' memory: one arena buffer per bucket, and what is done in it.
//
//   bucket   [grad a |grad b |grad c |flags]   the transport's memory: only a
//               ▲ Pack, Zero            ▲  │   Site (compute.h) touches it
//   host                     WriteFlags ┘  └▶ ReadFlags ─▶ Contributed
//
// Only the buckets of communicators that this rank is a member of have memory.
// The flags say who gave a gradient; between steps they are the host's, and
// they are sent with their bucket. A bucket that is reduced in another dtype is
// sent as a copy (wire_cast.h), one of halves that is summed in pairs as the
// sums of its leaves (leaf_sums.h).
//
// Threads: different parameters may be packed and flagged at the same time; one
//          by one thread. The rest is for when nobody does.

#ifndef LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
#define LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/executor/lane_owner.h"
#include "client/gradient/leaf_sums.h"
#include "client/gradient/wire_cast.h"
#include "client/transport/device_context.h"
#include "client/transport/transport.h"
#include "lockstep/arena.h"
#include "plan/ir.h"

namespace lockstep::gradient {

class BucketStore {
 public:
  // Where a parameter's gradient lies.
  struct Place {
    int bucket = -1;
    int slot = -1;
  };

  using KernelQueue = transport::DeviceContext::KernelQueue;
  // As Transport::Enlist.
  using Enlist =
      std::function<absl::StatusOr<std::unique_ptr<transport::Enlistment>>(
          Communicator&, const ArenaBuffer&)>;

  BucketStore() = default;

  // `parameters` are the rank's own, as indices of plan.parameters; the store
  // speaks of them by position in that list. Plan and compute must outlive it;
  // what `allocate` gives is memory that the compute works on.
  static absl::StatusOr<BucketStore> Create(
      const plan::Plan& plan, int rank, const std::vector<int>& parameters,
      transport::DeviceContext* compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // Tells each bucket's communicator of the memory that travels, in the order
  // of the buckets that this rank has.
  absl::Status EnlistBuckets(absl::FunctionRef<Communicator*(int)> communicator,
                             const Enlist& enlist);

  // How each of what was enlisted is reached.
  void AddReaches(std::vector<transport::Reach>* reaches) const {
    for (const auto& one : enlistments_) reaches->push_back(one->reach());
  }

  Place PlaceOf(int parameter) const { return places_[parameter]; }
  const plan::Bucket& bucket(int b) const { return plan_->buckets[b]; }
  std::byte* BucketData(int b) const { return memory_[b].data(); }

  // The parameter's gradient, wherever the memory is.
  absl::Span<std::byte> View(int parameter) const;

  // bucket = or += gradient * weight; sizes were checked.
  void Pack(KernelQueue& kernel_queue, int parameter, const void* gradient,
            double weight, bool add);
  void Zero(KernelQueue& kernel_queue, int parameter);

  // Reproducible sums: how many leaves of a parameter this rank gives in a
  // step; else 0.
  int LeavesOf(int parameter) const;
  // The parameter's next leaf: `gradient` * `weight`, or what the view holds,
  // as it is, if that is null.
  void AddLeaf(KernelQueue& kernel_queue, int parameter, const void* gradient,
               double weight);
  // The step has no more for the parameter, of which there was nothing before
  // (`any` false) or too little: the rest is zeros.
  void Complete(KernelQueue& kernel_queue, int parameter, bool any);

  // Takes over the gradients of a store of the same parameters, cut otherwise,
  // and what their casts have lost; they are there when it returns.
  absl::Status CopyGradients(const BucketStore& from);

  // Says that this rank did, or did not, contribute to the parameter.
  void SetFlag(int parameter, bool contributed);
  // As SetFlag said.
  bool Gave(int parameter) const;
  // Once the reduced flags were read, did any rank contribute? No, if the
  // bucket was not reduced since SetFlag.
  bool Contributed(int parameter) const;

  // Does any bucket keep what its casts lose?
  bool FeedsBack() const;

  // What is sent: bucket(b).total elements of a dtype.
  struct Wire {
    std::byte* data = nullptr;
    DType dtype = DType::kF32;
  };
  Wire OnWire(int b) const;
  // The bucket must have leaves.
  const LeafSums& sums(int b) const { return *sums_[b]; }

  // How many ranks announced the bucket's parameter in this pass, and whether
  // this one is among them (plan::Bucket::announced).
  struct Share {
    int announcers = 0;
    bool gives = true;
  };
  void SetShare(int b, const Share& share) { shares_[b] = share; }
  int announcers(int b) const { return shares_[b].announcers; }

  // One local operation of the bucket's transfers, but kNorm. `side` as
  // plan::LocalOp says: where it reads and writes. `is_back`: a cast has
  // brought back what was reduced.
  absl::Status Apply(KernelQueue& kernel_queue, int b, const plan::LocalOp& op,
                     executor::Side side, bool is_back);

  // The step passed and may update: what its casts lost is added next time.
  void KeepResiduals();

 private:
  // What the transfers of a bucket read and write: whole, of the same sizes on
  // all ranks.
  std::vector<const ArenaBuffer*> Travelling(int b) const;
  const plan::Slot& SlotOf(int parameter) const;
  // The parameter's part of something that is laid out like its bucket.
  absl::Span<std::byte> PartOf(std::byte* bucket, int parameter) const;
  std::byte* FlagsOnWire(int b) const;
  void Cast(KernelQueue& kernel_queue, int b, const plan::LocalOp& op,
            executor::Side side);
  // Null if what it lost is not kept.
  std::byte* ResidualOf(int parameter) const;

  // What the host knows of a bucket's flags, one for each slot.
  struct Flags {
    std::vector<uint8_t> own;  // as SetFlag said
    ArenaBuffer fetched;       // staging: as they came out of the reduction
  };

  const plan::Plan* plan_ = nullptr;
  transport::DeviceContext* compute_ = nullptr;
  std::vector<Place> places_;        // by parameter
  std::vector<ArenaBuffer> memory_;  // by bucket; empty where not a member
  std::vector<Flags> flags_;         // likewise
  std::vector<std::optional<WireCast>> casts_;  // likewise, of another dtype
  std::vector<std::optional<LeafSums>> sums_;   // likewise, with leaves
  std::vector<Share> shares_;                   // likewise, of this pass
  std::vector<LeafSums::Progress> added_;       // in this step, by parameter
  // Before the memory goes.
  std::vector<std::unique_ptr<transport::Enlistment>> enlistments_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
