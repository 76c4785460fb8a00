// The memory of the gradients: one arena buffer per bucket, and its operations.
//
//   bucket   [grad a |grad b |grad c |flags]   the transport's memory, accessed
//               ▲ Pack, Zero            ▲  │   only by a KernelQueue
//   host                     WriteFlags ┘  └▶ ReadFlags ─▶ Contributed
//
// Only buckets of communicators that include this rank have memory. The flags
// state which parameters got a gradient; the host owns them between steps, and
// they are sent with their bucket. A bucket that is reduced in another dtype is
// sent as a copy (wire_cast.h). A bucket of halves that is summed in pairs is
// sent as its leaf sums (leaf_sums.h).
//
// Threads: different parameters may be packed and flagged concurrently, each by
//          one thread. All other calls need exclusive access.

#ifndef LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
#define LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
  // The location of a parameter's gradient.
  struct SlotRef {
    int bucket = -1;
    int slot = -1;
  };

  using KernelQueue = transport::DeviceContext::KernelQueue;
  // As Transport::RegisterBuffer.
  using RegisterFn = std::function<
      absl::StatusOr<std::unique_ptr<transport::BufferRegistration>>(
          Communicator&, const ArenaBuffer&)>;

  BucketStore() = default;

  // `parameters` are the rank's parameters, as indices of plan.parameters; the
  // store identifies them by position in that list. Plan and compute must
  // outlive it; `allocate` must return memory that `compute` can access.
  static absl::StatusOr<BucketStore> Create(
      const plan::Plan& plan, int rank, const std::vector<int>& parameters,
      transport::DeviceContext* compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // Registers the memory that is sent with each bucket's communicator, in order
  // of the buckets that this rank has.
  absl::Status RegisterBuckets(
      absl::FunctionRef<Communicator*(int)> communicator,
      const RegisterFn& register_buffer);

  // Appends how transfers access each registered buffer.
  void AddRegistrationKinds(
      std::vector<transport::RegistrationKind>* kinds) const {
    for (const auto& one : registrations_) kinds->push_back(one->kind());
  }

  SlotRef PlaceOf(int parameter) const { return places_[parameter]; }
  const plan::Bucket& bucket(int b) const { return plan_->buckets[b]; }
  std::byte* BucketData(int b) const { return memory_[b].data(); }

  // The parameter's gradient, in host or device memory.
  absl::Span<std::byte> View(int parameter) const;

  // bucket = or += gradient * weight. The caller has checked the sizes.
  void Pack(KernelQueue& kernel_queue, int parameter, const void* gradient,
            double weight, bool add);
  // The same at once for several parameters of one bucket, in any order: bucket
  // = gradient * weight.
  struct PackedGradient {
    int parameter;
    const void* gradient;
  };
  void PackTogether(KernelQueue& kernel_queue,
                    std::span<const PackedGradient> gradients, double weight);
  void Zero(KernelQueue& kernel_queue, int parameter);

  // Reproducible sums: how many leaves of a parameter this rank adds per step;
  // else 0.
  int LeavesOf(int parameter) const;
  // Adds the parameter's next leaf: `gradient` * `weight`, or the unweighted
  // content of the view if `gradient` is null.
  void AddLeaf(KernelQueue& kernel_queue, int parameter, const void* gradient,
               double weight);
  // Fills with zeros what the step did not submit for the parameter: the whole
  // gradient (`any` false) or the missing leaves.
  void Complete(KernelQueue& kernel_queue, int parameter, bool any);

  // Copies the gradients and cast residuals of a store that has the same
  // parameters in other buckets. Returns when the copies are complete.
  absl::Status CopyGradients(const BucketStore& from);

  // Memory for a copy of each bucket, which no transfer reaches: a step that is
  // launched before the host knows of the one before leaves its reduced
  // gradients there. Errors of `allocate`.
  absl::Status MakeCopies(
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);
  // Copies the bucket there, if `may` commits.
  void KeepCopy(KernelQueue& kernel_queue, int b, const VerdictScalars* may);
  // Copies all buckets back. Returns when that is done.
  absl::Status RestoreCopies();

  // Records whether this rank contributed to the parameter in this step.
  void SetFlag(int parameter, bool contributed);
  // The value passed to SetFlag.
  bool Gave(int parameter) const;
  // Whether any rank contributed; valid once the reduced flags were read. False
  // if the bucket was not reduced since SetFlag.
  bool Contributed(int parameter) const;

  // Whether any bucket keeps the residuals of its casts.
  bool FeedsBack() const;

  // What is sent: bucket(b).total elements of a dtype.
  struct WireBuffer {
    std::byte* data = nullptr;
    DType dtype = DType::kF32;
  };
  WireBuffer OnWire(int b) const;
  // The bucket must have leaves.
  const LeafSums& sums(int b) const { return *sums_[b]; }

  // How many ranks announced the bucket's parameter in this pass, and whether
  // this rank is one of them (plan::Bucket::announced).
  struct Share {
    int announcers = 0;
    bool gives = true;
  };
  void SetShare(int b, const Share& share) { shares_[b] = share; }
  int announcers(int b) const { return shares_[b].announcers; }

  // Runs one local operation of the bucket's transfers, except kNorm. `side`
  // selects where it reads and writes, as in plan::LocalOp. `is_back`: a cast
  // has already converted the reduced values back.
  absl::Status Apply(KernelQueue& kernel_queue, int b, const plan::LocalOp& op,
                     executor::Side side, bool is_back);

  // Call after a step that passed: its residuals are added in the next step.
  void KeepResiduals();

 private:
  // The buffers that the transfers of a bucket read and write. Whole buffers,
  // of the same sizes on all ranks.
  std::vector<const ArenaBuffer*> SentBuffers(int b) const;
  const plan::Slot& SlotOf(int parameter) const;
  kernels::TensorSlot TensorSlotOf(int parameter, const void* gradient) const;
  // The parameter's part of a buffer that has the bucket's layout.
  absl::Span<std::byte> PartOf(std::byte* bucket, int parameter) const;
  std::byte* FlagsOnWire(int b) const;
  void Cast(KernelQueue& kernel_queue, int b, const plan::LocalOp& op,
            executor::Side side);
  // Null if residuals are not kept.
  std::byte* ResidualOf(int parameter) const;

  // The host's copies of a bucket's flags, one for each slot.
  struct Flags {
    std::vector<uint8_t> own;  // as set by SetFlag
    ArenaBuffer fetched;       // staging: the reduced flags
  };

  const plan::Plan* plan_ = nullptr;
  transport::DeviceContext* compute_ = nullptr;
  std::vector<SlotRef> places_;      // by parameter
  std::vector<ArenaBuffer> memory_;  // by bucket; empty where not a member
  std::vector<ArenaBuffer> copies_;  // likewise; none before MakeCopies
  std::vector<Flags> flags_;         // likewise
  std::vector<std::optional<WireCast>> casts_;  // likewise, of another dtype
  std::vector<std::optional<LeafSums>> sums_;   // likewise, with leaves
  std::vector<Share> shares_;                   // likewise, of this pass
  std::vector<LeafSums::SlotProgress> added_;   // in this step, by parameter
  // Declared last: deregistered before the memory is freed.
  std::vector<std::unique_ptr<transport::BufferRegistration>> registrations_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
