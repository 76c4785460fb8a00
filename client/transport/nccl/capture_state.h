// A graph, from the beginning of its capture until it is destroyed.
//
//   open ──▶ captured ──▶ destroyed: by its owner, or before its communicators
//     └─ failed ────────▶ end
//
// The program destroys a graph of its own, and its communicators are freed
// after that, whenever it is.
//
// Threads: any. While it is open, the launcher's order guards it (launcher.h).

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_CAPTURE_STATE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_CAPTURE_STATE_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/transport/nccl/comm_state.h"
#include "client/transport/nccl/cuda_api.h"

namespace lockstep::transport::nccl {

// The time that a graph of the program exists: CUDA tells its end.
//
// Threads: any.
class GraphLifetime {
 public:
  void End() {
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  bool ended() const {
    MutexLock lock(&mutex_);
    return ended_;
  }
  bool AwaitEnd(absl::Duration timeout) const {
    const Deadline deadline(timeout);
    MutexLock lock(&mutex_);
    while (!ended_ && !deadline.Passed()) {
      changed_.WaitFor(&mutex_, deadline.Left());
    }
    return ended_;
  }
  void AwaitEnd() const {
    MutexLock lock(&mutex_);
    while (!ended_) changed_.Wait(&mutex_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class CaptureState {
 public:
  CaptureState() = default;
  // For a graph of the program.
  explicit CaptureState(std::shared_ptr<const GraphLifetime> lifetime)
      : lifetime_(std::move(lifetime)) {}

  // The communicators whose operations it contains: fixed once it is captured.
  std::vector<std::shared_ptr<CommState>> members;
  CommState::LaunchSlot launch_slot;  // inside the capture

  bool Has(const CommState& member) const {
    return std::any_of(members.begin(), members.end(),
                       [&](const auto& one) { return one.get() == &member; });
  }

  // The end of the capture. `graph` null: `status` says why.
  void Captured(CudaGraphHandle graph, CudaGraphExecHandle exec,
                const absl::Status& status) {
    MutexLock lock(&mutex_);
    graph_ = graph;
    exec_ = exec;
    status_ = status;
  }
  // Why it cannot be launched.
  absl::Status status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

  // A launch: the graph is not destroyed meanwhile.
  absl::StatusOr<CudaGraphExecHandle> BeginLaunch() {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    launches_ += 1;
    return exec_;
  }
  void EndLaunch() {
    MutexLock lock(&mutex_);
    launches_ -= 1;
    launched_.NotifyAll();
  }

  bool is_of_program() const { return lifetime_ != nullptr; }
  bool is_destroyed_by_program() const {
    return lifetime_ != nullptr && lifetime_->ended();
  }

  // Waits for calls that launch it, and frees the handles. A launch that runs
  // continues; later ones fail with `why`, an error. Waits until the program
  // has destroyed a graph of its own.
  void Destroy(CudaApi& cuda, const absl::Status& why) {
    if (lifetime_ != nullptr) return lifetime_->AwaitEnd();
    CudaGraphHandle graph = nullptr;
    CudaGraphExecHandle exec = nullptr;
    {
      MutexLock lock(&mutex_);
      if (status_.ok()) status_ = why;
      while (launches_ > 0) launched_.Wait(&mutex_);
      graph = std::exchange(graph_, nullptr);
      exec = std::exchange(exec_, nullptr);
    }
    if (exec != nullptr) cuda.GraphExecDestroy(exec);
    if (graph != nullptr) cuda.GraphDestroy(graph);
  }

 private:
  const std::shared_ptr<const GraphLifetime> lifetime_;
  mutable Mutex mutex_;
  CondVar launched_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  CudaGraphHandle graph_ ABSL_GUARDED_BY(mutex_) = nullptr;
  CudaGraphExecHandle exec_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int launches_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The graphs of a device: those of a communicator are destroyed before it.
//
// Threads: any.
class GraphList {
 public:
  void Add(std::shared_ptr<CaptureState> graph) {
    MutexLock lock(&mutex_);
    graphs_.push_back(std::move(graph));
  }
  void Remove(const CaptureState& graph) {
    MutexLock lock(&mutex_);
    std::erase_if(graphs_,
                  [&](const auto& one) { return one.get() == &graph; });
  }
  // Whether the program has a graph with operations of the communicator.
  bool ProgramHas(const CommState& member) {
    MutexLock lock(&mutex_);
    std::erase_if(graphs_, [](const auto& one) {
      return one->is_destroyed_by_program();
    });
    return std::any_of(graphs_.begin(), graphs_.end(), [&](const auto& one) {
      return one->is_of_program() && one->Has(member);
    });
  }
  void DestroyThoseOf(const CommState& member, CudaApi& cuda,
                      const absl::Status& why) {
    std::vector<std::shared_ptr<CaptureState>> taken;
    {
      MutexLock lock(&mutex_);
      std::erase_if(graphs_, [&](const auto& one) {
        if (!one->Has(member)) return false;
        taken.push_back(one);
        // The other communicators of a graph of the program wait for it, too.
        return !one->is_of_program();
      });
    }
    for (const auto& graph : taken) graph->Destroy(cuda, why);
  }

 private:
  Mutex mutex_;
  std::vector<std::shared_ptr<CaptureState>> graphs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_CAPTURE_STATE_H_
