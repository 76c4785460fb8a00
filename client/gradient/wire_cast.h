// A bucket's gradients on the wire: as halves, cast when they leave and when
// they are back.
//
//   bucket    f32 [grad a |grad b |..]          ┌─▶ [reduced a |reduced b |..]
//                   │ (+) residual              │
//   wire     bf16 [ Out ─ round ] ─ reduction ─ In
//   next      f32   └─ what rounding took: the residual once Keep was called
//
// With error feedback the residual belongs to the step: Out leaves it as it is
// and prepares the next, which takes its place once the step has passed and was
// finite. A step that is given up, or whose gradients overflowed and so update
// nothing, leaves no trace in it. Of a gradient that this rank does not give in
// a step, the residual waits for the next one that it gives.
//
// Memory: the wire's, half of the bucket's; with error feedback twice the
//         bucket's more.
// Threads: as BucketStore; Keep with no Out or In at the same time.

#ifndef LOCKSTEP_CLIENT_GRADIENT_WIRE_CAST_H_
#define LOCKSTEP_CLIENT_GRADIENT_WIRE_CAST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/transport/compute.h"
#include "lockstep/arena.h"
#include "plan/ir.h"
#include "plan/shard.h"

namespace lockstep::gradient {

class WireCast {
 public:
  using Site = transport::Compute::Site;

  // Of a bucket that has a wire dtype. Errors of `allocate`, which gives zeros.
  static absl::StatusOr<WireCast> Create(
      const plan::Bucket& bucket,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // What travels: bucket.total elements of the wire dtype.
  std::byte* data() const { return wire_.data(); }
  const ArenaBuffer& wire() const { return wire_; }

  // All but the flags. `given`, by slot: this rank gives a gradient; else zeros
  // travel.
  void Out(Site& site, const plan::Bucket& bucket, const std::byte* gradients,
           std::span<const uint8_t> given);
  // The slice that came back.
  void In(Site& site, const plan::Bucket& bucket, std::byte* gradients,
          const plan::Slice& slice);

  // The step that Out was called for counts.
  void Keep() { std::swap(residual_, next_); }

  // What is to be added in the next step, like the bucket; null without error
  // feedback.
  std::byte* residual() const { return residual_.data(); }

 private:
  ArenaBuffer wire_;
  ArenaBuffer residual_;
  ArenaBuffer next_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_WIRE_CAST_H_
