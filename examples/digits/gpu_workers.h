// Assigns a GPU to each worker of a demonstration.
//
//   2 GPUs, 4 workers    worker-0 GPU 0, worker-1 GPU 1, worker-2 GPU 0, ...
//
// NCCL refuses two ranks on one GPU of one host. With more workers than GPUs
// each worker claims to be on a different host (NCCL_HOSTID). Then they
// communicate over sockets: a test of correctness, not of speed.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_GPU_WORKERS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_GPU_WORKERS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::digits {

class GpuPlaces {
 public:
  GpuPlaces() = default;
  // `gpus`: names as in CUDA_VISIBLE_DEVICES; at least one.
  GpuPlaces(std::vector<std::string> gpus, int workers)
      : gpus_(std::move(gpus)), workers_(workers) {}

  // The GPUs of this machine. FailedPrecondition, with a one-line reason,
  // without a GPU or NCCL.
  static absl::StatusOr<GpuPlaces> Find(int workers);

  // Adds the variables of this worker to its environment.
  void AddTo(
      int worker,
      std::vector<std::pair<std::string, std::string>>* environment) const;

  // " on 1 GPU, 4 to each: ..."
  std::string Describe() const;

 private:
  bool shares() const { return workers_ > static_cast<int>(gpus_.size()); }

  std::vector<std::string> gpus_;
  int workers_ = 0;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_GPU_WORKERS_H_
