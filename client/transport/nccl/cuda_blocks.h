// A cache of small memory blocks that are taken and returned while the device
// works.
//
// Pinning host memory, and freeing any memory, waits for the device, and so for
// a peer. Returned blocks are therefore kept and reused for the same size.
//
// Threads: any. A block keeps its cache alive.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_BLOCKS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_BLOCKS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/transport/nccl/cuda_api.h"

namespace lockstep::transport::nccl {

class CudaBlocks : public std::enable_shared_from_this<CudaBlocks> {
 public:
  enum class Where { kPinned, kDevice };

  static std::shared_ptr<CudaBlocks> Create(std::shared_ptr<CudaApi> cuda,
                                            Where where) {
    return std::shared_ptr<CudaBlocks>(new CudaBlocks(std::move(cuda), where));
  }
  ~CudaBlocks();

  // Allocates `count` blocks for Take. Call where waiting is harmless.
  absl::Status Reserve(size_t bytes, int count);

  // At least `bytes`, aligned to 256, not zeroed.
  absl::StatusOr<std::shared_ptr<void>> Take(size_t bytes);

 private:
  CudaBlocks(std::shared_ptr<CudaApi> cuda, Where where)
      : cuda_(std::move(cuda)), where_(where) {}

  absl::StatusOr<void*> Make(size_t bytes);

  const std::shared_ptr<CudaApi> cuda_;
  const Where where_;
  Mutex mutex_;
  std::map<size_t, std::vector<void*>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CUDA_BLOCKS_H_
