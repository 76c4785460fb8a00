// One stage of a model in a pipeline: the interface that a program implements.
//
//   Forward        input ─▶ output
//   BackwardInput  gradient of the output ─▶ gradient of the input
//   BackwardWeight gradient of the output ─▶ added to the weights' gradients
//
//   class Layers : public PipelineStage { ... };
//
// A number identifies each micro-batch of a step. From Forward to
// BackwardWeight a stage keeps what it needs for the backward pass (its own
// activations) under that number. `input` and `output_gradient` stay unchanged
// for as long: a stage may keep the spans instead of copies.
//
// Threads: one call at a time, on the thread that runs the pipeline.
// Errors:  a status that is not OK ends the step on every rank; all ranks get
//          the stage, the micro-batch and the message.

#ifndef LOCKSTEP_PIPELINE_STAGE_H_
#define LOCKSTEP_PIPELINE_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/export.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

// A typed, row-major view of memory that it does not own.
struct TensorView {
  void* data = nullptr;
  TensorType type;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : type.shape) count *= extent;
    return count;
  }
  // T must have the dtype's size.
  template <typename T>
  absl::Span<T> as() const {
    return {static_cast<T*>(data), static_cast<size_t>(elements())};
  }
};

// The parts of an activation, or of its gradient.
using TensorViews = absl::Span<const TensorView>;

class LOCKSTEP_EXPORT PipelineStage {
 public:
  virtual ~PipelineStage() = default;

  // Writes `output`. The first stage has no input: it selects its samples by
  // the micro-batch. The output of the last stage is passed to PipelineLoss.
  virtual absl::Status Forward(int micro_batch, TensorViews input,
                               TensorViews output) = 0;

  // Writes `input_gradient`; the first stage has none. Called after Forward.
  virtual absl::Status BackwardInput(int micro_batch,
                                     TensorViews output_gradient,
                                     TensorViews input_gradient) = 0;

  // Adds to the gradients of the weights. Called after BackwardInput,
  // immediately or much later, depending on the schedule. The last call for a
  // micro-batch.
  virtual absl::Status BackwardWeight(int micro_batch,
                                      TensorViews output_gradient) = 0;
};

// Returns the loss of one micro-batch, and writes its unweighted gradient with
// respect to the last stage's output into `gradient`. The pipeline multiplies
// both by the micro-batch's weight.
class LOCKSTEP_EXPORT PipelineLoss {
 public:
  virtual ~PipelineLoss() = default;
  virtual absl::StatusOr<double> Loss(int micro_batch, TensorViews output,
                                      TensorViews gradient) = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PIPELINE_STAGE_H_
