// The launch thread's state of a graph, from the beginning of its capture until
// it is destroyed.
//
//   open ──▶ captured ──▶ destroyed: by its owner, or before its communicators
//     └─ failed ────────▶ end
//
// Threads: owned by the launch thread. While it is open, the capturing thread
//          sets the graph handles, before it closes the capture.

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
  // The communicators whose operations it contains.
  std::vector<std::shared_ptr<CommState>> members;
  CommState::LaunchSlot launch_slot;  // inside the capture

  // After the capture. Not OK: why it cannot be launched (any more).
  absl::Status status;
  CudaGraphHandle graph = nullptr;
  CudaGraphExecHandle exec = nullptr;
  CudaStreamHandle stream = nullptr;  // owned; the graph is launched on it

  bool Has(const CommState& member) const {
    return std::any_of(members.begin(), members.end(),
                       [&](const auto& one) { return one.get() == &member; });
  }

  // Frees the handles. A running launch continues; later ones fail with `why`,
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
