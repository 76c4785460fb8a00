#include "kernels/verdict_gate.h"

#include <cstring>

#include "kernels/pack.h"

namespace lockstep::kernels {

void CommitCopy(const VerdictScalars* verdict, const void* from, void* to,
                size_t bytes) {
  if (MayUpdate(*verdict) && bytes > 0) std::memcpy(to, from, bytes);
}

void CommitUnpack(const VerdictScalars* verdict, const void* bucket,
                  std::span<const TensorSlot> slots, DType dtype) {
  if (MayUpdate(*verdict)) UnpackScaled(bucket, slots, dtype, verdict->clip);
}

}  // namespace lockstep::kernels
