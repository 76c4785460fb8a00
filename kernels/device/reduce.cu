#include "kernels/device/reduce.cuh"
#include "kernels/device/reduce.h"

namespace lockstep::kernels::device {

Launched ReduceRows(const void* inputs, int rows, void* out, size_t count,
                    DType dtype, ReduceOp op, Stream stream) {
  Check(rows > 0, "a reduction of no ranks has no value");
  Check(op != ReduceOp::kMean || IsFloat(dtype), "integers have no mean");
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = LaunchReduce(static_cast<const T*>(inputs), rows,
                            static_cast<T*>(out), count, op, stream);
  });
  return launched;
}

}  // namespace lockstep::kernels::device
