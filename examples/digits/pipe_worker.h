// One worker of the digits job as a pipeline.
//
//   worker 0  conv1 conv2 ─▶ worker 1  conv3 dense ...     replica 0
//   worker 2  conv1 conv2 ─▶ worker 3  conv3 dense ...     replica 1
//
// Each replica trains on its share of every step's samples, micro-batch by
// micro-batch; the gradients of a stage are added up over the replicas.
//
// With a device, what travels is in its memory, activations and gradients
// alike; the layers are computed on the host all the same, which copies what
// they need (ThroughHost). It shows that pipelines run over NCCL, not how fast.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PIPE_WORKER_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PIPE_WORKER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/device/device.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "lockstep/session.h"

namespace lockstep::digits {

struct PipeWorkerOptions {
  Recipe recipe;
  Device* device = nullptr;  // null: all is in the host's memory
  // The loss of a step, as if all replicas had the same; on one rank alone.
  std::function<void(int64_t step, double loss)> after_update;
};

// Trains in the session, whose spec has a pipeline; the weights of this rank's
// stages.
absl::StatusOr<std::vector<NamedWeights>> TrainPipe(
    const PipeWorkerOptions& options, Session& session);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PIPE_WORKER_H_
