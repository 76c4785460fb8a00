// A part of a model, as a pipeline runs it: what a user writes.
//
//   Forward        input ─▶ output
//   BackwardInput  gradient of the output ─▶ gradient of the input
//   BackwardWeight gradient of the output ─▶ added to the weights' gradients
//
//   class Layers : public PipelineStage { ... };
//
// A micro-batch is known by its number: what a stage needs again for the
// backward pass (its own activations) it keeps under that number from Forward
// until BackwardWeight. `input` and `output_gradient` stay as they are for as
// long: a stage may keep the spans instead of copies.
//
// Threads: one call at a time, on the thread that runs the pipeline.
// Errors:  a status that is not OK ends the step on every rank, which is told
//          stage, micro-batch and message.

#ifndef LOCKSTEP_PIPELINE_STAGE_H_
#define LOCKSTEP_PIPELINE_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/export.h"
#include "lockstep/pipeline_spec.h"

namespace lockstep {

// Memory with a type; not owned. Row-major.
struct TensorView {
  void* data = nullptr;
  TensorType type;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : type.shape) count *= extent;
    return count;
  }
  // T must be of the dtype's size.
  template <typename T>
  absl::Span<T> as() const {
    return {static_cast<T*>(data), static_cast<size_t>(elements())};
  }
};

// The parts of an activation, or those of its gradient.
using TensorViews = absl::Span<const TensorView>;

class LOCKSTEP_EXPORT PipelineStage {
 public:
  virtual ~PipelineStage() = default;

  // Writes `output`. The first stage has no input: it knows its samples by the
  // micro-batch. The last one's output is what PipelineLoss is given.
  virtual absl::Status Forward(int micro_batch, TensorViews input,
                               TensorViews output) = 0;

  // Writes `input_gradient`: none for the first stage. Comes after Forward.
  virtual absl::Status BackwardInput(int micro_batch,
                                     TensorViews output_gradient,
                                     TensorViews input_gradient) = 0;

  // Adds to the gradients of the weights. Comes after BackwardInput, at once
  // or much later, as the schedule says; the micro-batch is over with it.
  virtual absl::Status BackwardWeight(int micro_batch,
                                      TensorViews output_gradient) = 0;
};

// The loss of one micro-batch, and its true gradient with respect to the last
// stage's output, which is written into `gradient`. The pipeline multiplies
// both by the micro-batch's weight.
class LOCKSTEP_EXPORT PipelineLoss {
 public:
  virtual ~PipelineLoss() = default;
  virtual absl::StatusOr<double> Loss(int micro_batch, TensorViews output,
                                      TensorViews gradient) = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PIPELINE_STAGE_H_
