#include "client/transport/nccl/cuda_device_state.h"

#include <iterator>
#include <utility>

namespace lockstep::transport::nccl {

void CudaDeviceState::Retire(RetiredMessage message) {
  MutexLock lock(&retired_mutex);
  retired.push_back(std::move(message));
}

void CudaDeviceState::Reclaim() {
  std::vector<RetiredMessage> asked;
  {
    MutexLock lock(&retired_mutex);
    asked.swap(retired);
  }
  std::erase_if(asked,
                [](RetiredMessage& one) { return one.readers.Passed(); });
  MutexLock lock(&retired_mutex);
  retired.insert(retired.end(), std::move_iterator(asked.begin()),
                 std::move_iterator(asked.end()));
}

}  // namespace lockstep::transport::nccl
