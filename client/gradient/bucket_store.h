// The gradients' memory: one arena buffer per bucket, and what is done in it.
//
// Only the buckets of communicators that this rank is a member of have memory.
//
// Threads: different parameters may be packed at the same time; one by one
//          thread. The rest is for when nobody packs.

#ifndef LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
#define LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
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

  BucketStore() = default;

  // `parameters` are the rank's own, as indices of plan.parameters; the store
  // speaks of them by position in that list. The plan must outlive it.
  static absl::StatusOr<BucketStore> Create(
      const plan::Plan& plan, const std::vector<int>& parameters,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  Place PlaceOf(int parameter) const { return places_[parameter]; }
  const plan::Bucket& bucket(int b) const { return plan_->buckets[b]; }
  std::byte* BucketData(int b) const { return memory_[b].data(); }

  // The parameter's gradient.
  absl::Span<std::byte> View(int parameter) const;

  // bucket = or += gradient * weight; sizes were checked.
  void Pack(int parameter, const void* gradient, double weight, bool add);
  void Zero(int parameter);

  // Takes over the gradients of a store of the same parameters, cut otherwise.
  void CopyGradients(const BucketStore& from);

  // Says that this rank did, or did not, contribute to the parameter.
  void SetFlag(int parameter, bool contributed);
  // After the reduction: did anybody?
  bool Contributed(int parameter) const;

 private:
  const plan::Slot& SlotOf(int parameter) const;

  const plan::Plan* plan_ = nullptr;
  std::vector<Place> places_;        // by parameter
  std::vector<ArenaBuffer> memory_;  // by bucket; empty where not a member
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
