#include "kernels/device/reduce.cuh"
#include "kernels/device/reduce_any.h"
#include "kernels/reduce_any.h"

namespace lockstep::kernels::device {

Launched ReduceAnyRows(const void* inputs, int rows, void* out, size_t count,
                       DType dtype, ReduceOp op, Stream stream) {
  Check(rows > 0, "a reduction of no rows has no value");
  Check(CanReduceAny(dtype, op), "ReduceAny does not take this dtype and op");
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithOtherType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = LaunchReduce(static_cast<const T*>(inputs), rows,
                            static_cast<T*>(out), count, op, stream);
  });
  return launched;
}

}  // namespace lockstep::kernels::device
