// One worker of the digits job as a pipeline.
//
//   worker 0  conv1 conv2 ─▶ worker 1  conv3 dense ...     replica 0
//   worker 2  conv1 conv2 ─▶ worker 3  conv3 dense ...     replica 1
//
// Each replica trains on its share of every step's samples, micro-batch by
// micro-batch; the gradients of a stage are summed over the replicas.
//
// If the mesh has the axis domain, the images of a replica are cut over rows
// (row_domain.h): each stage is computed by all ranks of a domain.
//
// With a device, activations and gradients are in device memory. The layers are
// still computed on the host, which copies what they need (ThroughHost): a test
// of pipelines over NCCL, not of speed.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PIPE_WORKER_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PIPE_WORKER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/device/device.h"
#include "examples/digits/save_options.h"
#include "examples/digits/trainer.h"
#include "examples/digits/weights_file.h"
#include "lockstep/session.h"

namespace lockstep::digits {

struct PipeWorkerOptions {
  Recipe recipe;
  Device* device = nullptr;    // null: host memory only
  bool without_halos = false;  // in a domain: SessionDomainOptions
  SaveOptions save;            // without a device
  // Called with the loss of a step, as if all replicas had the same, on one
  // rank only.
  std::function<void(int64_t step, double loss)> after_update;
};

// Trains in the session, whose spec has a pipeline. Returns the weights of this
// rank's stages.
absl::StatusOr<std::vector<NamedWeights>> TrainPipe(
    const PipeWorkerOptions& options, Session& session);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PIPE_WORKER_H_
