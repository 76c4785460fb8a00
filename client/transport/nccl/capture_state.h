// A graph's life as the launch thread knows it: from the beginning of its
// capture until it is destroyed.
//
//   open ──▶ captured ──▶ destroyed: by its owner, or before its communicators
//     └─ failed ────────▶ end
//
// Threads: the launch thread's own while it is open, and from then on; what was
//          captured is put in by who captures, before it is closed.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CAPTURE_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CAPTURE_STATE_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/nccl/comm_state.h"
#include "client/transport/nccl/cuda_api.h"

namespace lockstep::transport::nccl {

struct CaptureState {
  // Whose operations it has.
  std::vector<std::shared_ptr<CommState>> members;
  CommState::LaunchSlot launch_slot;  // inside the capture

  // Once captured. Not OK: it cannot be launched (any more), and why.
  absl::Status status;
  CudaGraphHandle graph = nullptr;
  CudaGraphExecHandle exec = nullptr;
  CudaStreamHandle stream = nullptr;  // its own, that it is launched on

  bool Has(const CommState& member) const {
    return std::any_of(members.begin(), members.end(),
                       [&](const auto& one) { return one.get() == &member; });
  }

  // Frees what it holds. A launch that runs goes on, the next one gets `why`,
  // an error.
  void Destroy(CudaApi& cuda, const absl::Status& why) {
    if (status.ok()) status = why;
    if (exec != nullptr) cuda.GraphExecDestroy(std::exchange(exec, nullptr));
    if (graph != nullptr) cuda.GraphDestroy(std::exchange(graph, nullptr));
    if (stream != nullptr) cuda.StreamDestroy(std::exchange(stream, nullptr));
  }
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CAPTURE_STATE_H_
