// The copy of a bucket's gradients that is sent in another dtype: cast before
// the reduction, and cast back after it.
//
//   bucket    f32 [grad a |grad b |..]          ┌─▶ [reduced a |reduced b |..]
//                   │ (+) residual              │
//   wire     bf16 [ ToWire, round ]─ reduction ─┘ FromWire
//   next      f32   └─ rounding error: the residual once Keep was called
//
// With error feedback the residual belongs to the step: the cast does not
// change it but prepares the next one, which replaces it once the step has
// passed and was finite. A step that is given up, or that updates nothing
// because its gradients overflowed, does not change the residual. If this rank
// does not submit a gradient in a step, its residual is kept for the next step
// in which it does.
//
// Memory: the copy, half of the bucket's size; with error feedback also twice
//         the bucket's size.
// Threads: as BucketStore; Keep must not run concurrently with a cast.

#ifndef LOCKSTEP_CLIENT_GRADIENT_WIRE_CAST_H_
#define LOCKSTEP_CLIENT_GRADIENT_WIRE_CAST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/transport/device_context.h"
#include "lockstep/arena.h"
#include "plan/ir.h"

namespace lockstep::gradient {

class WireCast {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // Allocates the copy that is sent, in `dtype`, and with error feedback both
  // residuals. `allocate` must return zeros; returns its errors.
  static absl::StatusOr<WireCast> Create(
      const plan::Bucket& bucket, DType dtype,
      absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate);

  // The copy that is sent: bucket.total elements of `dtype`.
  std::byte* data() const { return wire_.data(); }
  DType dtype() const { return dtype_; }
  const ArenaBuffer& wire() const { return wire_; }

  // plan::LocalKind::kCast of `count` elements from `offset`: from the
  // gradients to the wire, and back.
  void ToWire(KernelQueue& kernel_queue, const plan::Bucket& bucket,
              const std::byte* gradients, const plan::LocalOp& op);
  void FromWire(KernelQueue& kernel_queue, const plan::Bucket& bucket,
                std::byte* gradients, const plan::LocalOp& op);
  // kCastFeedback, for all gradients of the bucket. Sends zeros for slots that
  // are 0 in `given`: this rank did not submit them.
  void ToWireWithFeedback(KernelQueue& kernel_queue, const plan::Bucket& bucket,
                          const std::byte* gradients,
                          std::span<const uint8_t> given);

  // The step of the newest cast was committed: its residual becomes current.
  void Keep() { std::swap(residual_, next_); }

  // Added to the gradients of the next step; laid out like the bucket. Null
  // without error feedback.
  std::byte* residual() const { return residual_.data(); }

 private:
  DType dtype_ = DType::kF32;
  ArenaBuffer wire_;
  ArenaBuffer residual_;
  ArenaBuffer next_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_WIRE_CAST_H_
