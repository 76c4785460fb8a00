#include "client/gradient/wire_cast.h"

namespace lockstep::gradient {

absl::StatusOr<WireCast> WireCast::Create(
    const plan::Bucket& bucket, DType dtype,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  const auto take = [&](ArenaBuffer* to, int64_t elements, DType dtype) {
    if (elements == 0) return absl::OkStatus();  // only empty gradients
    absl::StatusOr<ArenaBuffer> buffer = allocate(elements * SizeOf(dtype));
    if (buffer.ok()) *to = *std::move(buffer);
    return buffer.status();
  };
  WireCast cast;
  cast.dtype_ = dtype;
  absl::Status taken = take(&cast.wire_, bucket.total, dtype);
  if (taken.ok() && bucket.error_feedback) {
    taken = take(&cast.residual_, bucket.flags_offset, bucket.dtype);
    if (taken.ok()) {
      taken = take(&cast.next_, bucket.flags_offset, bucket.dtype);
    }
  }
  if (!taken.ok()) return taken;
  return cast;
}

void WireCast::ToWire(KernelQueue& kernel_queue, const plan::Bucket& bucket,
                      const std::byte* gradients, const plan::LocalOp& op) {
  kernel_queue.CastScale(
      gradients + op.offset * SizeOf(bucket.dtype), bucket.dtype, 1,
      wire_.data() + op.offset * SizeOf(dtype_), dtype_, op.count);
}

void WireCast::FromWire(KernelQueue& kernel_queue, const plan::Bucket& bucket,
                        std::byte* gradients, const plan::LocalOp& op) {
  kernel_queue.CastScale(wire_.data() + op.offset * SizeOf(dtype_), dtype_, 1,
                         gradients + op.offset * SizeOf(bucket.dtype),
                         bucket.dtype, op.count);
}

void WireCast::ToWireWithFeedback(KernelQueue& kernel_queue,
                                  const plan::Bucket& bucket,
                                  const std::byte* gradients,
                                  std::span<const uint8_t> given) {
  kernel_queue.CastFeedback(gradients, residual_.data(), bucket.dtype,
                            wire_.data(), dtype_, next_.data(),
                            bucket.flags_offset);
  for (size_t i = 0; i < bucket.slots.size(); ++i) {
    const plan::Slot& slot = bucket.slots[i];
    if (given[i] != 0 || slot.count == 0) continue;
    const size_t size = SizeOf(bucket.dtype);
    const size_t on_wire = SizeOf(dtype_);
    kernel_queue.Zero(wire_.data() + slot.offset * on_wire,
                      slot.count * on_wire);
    kernel_queue.Copy(residual_.data() + slot.offset * size,
                      next_.data() + slot.offset * size, slot.count * size);
  }
}

}  // namespace lockstep::gradient
