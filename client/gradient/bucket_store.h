// The gradients' memory: one arena buffer per bucket, and what is done in it.
//
//   bucket   [grad a |grad b |grad c |flags]   the transport's memory: only a
//               ▲ Pack, Zero            ▲  │   Site (compute.h) touches it
//   host                     WriteFlags ┘  └▶ FetchFlags ─▶ Contributed
//
// Only the buckets of communicators that this rank is a member of have memory.
// The flags say who gave a gradient; between steps they are the host's, and
// they travel with their bucket.
//
// Threads: different parameters may be packed and flagged at the same time; one
//          by one thread. The rest is for when nobody does.

#ifndef LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
#define LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/transport/compute.h"
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

  using Site = transport::Compute::Site;

  BucketStore() = default;

  // `parameters` are the rank's own, as indices of plan.parameters; the store
  // speaks of them by position in that list. Plan and compute must outlive it;
  // what `allocate` gives is memory that the compute works on.
  static absl::StatusOr<BucketStore> Create(
      const plan::Plan& plan, const std::vector<int>& parameters,
      transport::Compute* compute,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  Place PlaceOf(int parameter) const { return places_[parameter]; }
  const plan::Bucket& bucket(int b) const { return plan_->buckets[b]; }
  std::byte* BucketData(int b) const { return memory_[b].data(); }

  // The parameter's gradient, wherever the memory is.
  absl::Span<std::byte> View(int parameter) const;

  // bucket = or += gradient * weight; sizes were checked.
  void Pack(Site& site, int parameter, const void* gradient, double weight,
            bool add);
  void Zero(Site& site, int parameter);

  // Takes over the gradients of a store of the same parameters, cut otherwise;
  // they are there when it returns.
  absl::Status CopyGradients(const BucketStore& from);

  // Says that this rank did, or did not, contribute to the parameter.
  void SetFlag(int parameter, bool contributed);
  // Puts what was said into the bucket, before its reduction ...
  void WriteFlags(Site& site, int b);
  // ... and fetches what came out of it.
  void FetchFlags(Site& site, int b);
  // Once that is done, did anybody contribute? No, if the bucket has not
  // travelled since SetFlag.
  bool Contributed(int parameter) const;

 private:
  const plan::Slot& SlotOf(int parameter) const;

  // What the host knows of a bucket's flags, one for each slot.
  struct Flags {
    std::vector<uint8_t> own;  // as SetFlag said
    ArenaBuffer fetched;       // staging: as they came out of the reduction
  };

  const plan::Plan* plan_ = nullptr;
  transport::Compute* compute_ = nullptr;
  std::vector<Place> places_;        // by parameter
  std::vector<ArenaBuffer> memory_;  // by bucket; empty where not a member
  std::vector<Flags> flags_;         // likewise
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_BUCKET_STORE_H_
