// The kernels that the adapter launches beside NCCL's, as a table of functions:
// the host twins' signatures (kernels/), and the stream.
//
// Threads: the launch thread.
// Memory:  of the device; must live until the stream has run past the kernel.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_API_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_API_H_

#include <cstddef>

#include "client/transport/nccl/cuda_api.h"
#include "lockstep/dtype.h"

namespace lockstep::transport::nccl {

class KernelApi {
 public:
  virtual ~KernelApi() = default;

  // kernels/cast_scale.h: data[i] *= factor.
  virtual CudaResult Scale(void* data, DType dtype, double factor, size_t count,
                           CudaStreamHandle stream) = 0;

  // kernels/reduce.h over `rows` inputs that lie behind each other, `count`
  // elements each. In rank order; min and max propagate NaN, which NCCL's do
  // not.
  virtual CudaResult ReduceRows(const void* inputs, int rows, void* out,
                                size_t count, DType dtype, ReduceOp op,
                                CudaStreamHandle stream) = 0;
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_KERNEL_API_H_
