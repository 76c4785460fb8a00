// Which GPU each worker of a demonstration gets.
//
//   2 GPUs, 4 workers    worker-0 GPU 0, worker-1 GPU 1, worker-2 GPU 0, ...
//
// NCCL refuses two ranks on one GPU of one host. Where there are more workers
// than GPUs each says that it is a host of its own (NCCL_HOSTID): then they
// talk over sockets, which shows that it works and not how fast.

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
  // `gpus`: their names, as CUDA_VISIBLE_DEVICES has them; at least one.
  GpuPlaces(std::vector<std::string> gpus, int workers)
      : gpus_(std::move(gpus)), workers_(workers) {}

  // Those of this machine. FailedPrecondition, and why in one line, where there
  // is no GPU or no NCCL.
  static absl::StatusOr<GpuPlaces> Find(int workers);

  // What the worker's environment must have beside.
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
