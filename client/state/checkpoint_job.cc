#include "client/state/checkpoint_job.h"

namespace lockstep::state {

uint64_t BytesOf(const CheckpointJob& job, const StatePart& part) {
  uint64_t bytes = SizeOf(job.tensors[part.tensor].type.dtype);
  for (const int64_t extent : part.box.shape) {
    bytes *= static_cast<uint64_t>(extent);
  }
  return bytes;
}

}  // namespace lockstep::state
