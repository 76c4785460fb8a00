// Runs this rank's stages of a pipeline in the order of the job's plan.
//
//   auto sync = GradientSync::Create(*session);     // spec: pipeline: {...}
//   ... Register the parameters of this rank's stages, axes: {"data"} ...
//   sync->Seal();
//   auto pipeline = Pipeline::Create(*session);
//   for (int stage : (*pipeline)->stages()) ... make a PipelineStage ...
//   for (;;) {
//     auto loss = (*pipeline)->Run({
//         .stages = stages, .loss = &loss_function, .output = output_type,
//         .on_stage_done = [&](int stage) { ... Submit its gradients ... }});
//     auto verdict = sync->Finish({.samples = batch});
//     ...
//   }
//
// A rank calls Run once in each step that it has data for, and then Finish.
//
// Run computes the forward and backward passes of all micro-batches in the
// order of the schedule, while activations and gradients are sent between the
// stages. It returns once all work of this rank in the step is done or, with a
// stream of a device, enqueued. The gradients of a stage are complete when
// on_stage_done is called. If a rank has several stages and registers each
// parameter with its stage (ParameterOptions::stage), on_stage_done is called
// for each stage as soon as it is done, while the other stages still compute.
//
// Create allocates the memory of all messages: buffer_bytes, which the plan
// determines. docs/pipeline.md has schedules and timelines.
//
// Device memory. In a job whose transport moves device memory (nccl), all
// TensorViews are in device memory. Stages that enqueue their work on a stream
// and return before it is done pass that stream (PipelineStep::stream).
// Messages and stage work are then ordered on the device, and kernels that a
// callback enqueues run after the work that they need. Run does not wait for
// the device: the next step is ordered behind this one, also on another stream.
// It waits for the verdict of the step before, as Submit does
// (gradient_sync.h). A HostStream orders messages and work on the host
// likewise, but Run waits for it, and must not be called before the verdict of
// the step before was waited for. The loss value is in host memory: Loss waits
// for it, or returns 0 and keeps it on the device.
//
// Threads:   Run is called from one thread, which may be GradientSync's.
// Ownership: the session must outlive this object.
// Errors:    a failing stage or loss ends the epoch: every rank gets this rank,
//            stage, micro-batch and message. A failing transfer ends it with
//            its cause (Session::status); with a stream that may be after Run
//            has returned, and then Finish returns it. Run returns that error
//            from then on.

#ifndef LOCKSTEP_PIPELINE_H_
#define LOCKSTEP_PIPELINE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/export.h"
#include "lockstep/pipeline_stage.h"
#include "lockstep/stream.h"

namespace lockstep {

class Session;

// One step. The caller owns everything in it until Run returns, and with a
// device's stream what the work on it uses, as well as the memory of `shared`,
// until the stream has run it.
struct PipelineStep {
  // The rank's stages, in the order of Pipeline::stages.
  std::vector<PipelineStage*> stages;
  // On the rank of the last stage: the loss, and the type of that stage's
  // output.
  PipelineLoss* loss = nullptr;
  Activation output;
  // Weight of each micro-batch; empty: 1 / micro_batches each.
  std::vector<double> weights;
  // On the ranks of the first and the last stage: gradients of the parameters
  // in the spec's pipeline.shared, in that order. Run sums them over the two
  // ranks, in place, before it calls on_stage_done for these stages; the norm
  // counts them once. On GPUs other gradients of these stages may come first in
  // the one order of launches, and the sums after on_stage_done: submit shared
  // gradients in their views there, or after Run. A rank that has both stages
  // sums them itself.
  std::vector<TensorView> shared;
  // Called when the stage's gradients are complete, including the sums of
  // shared ones, or will be once `stream` has run: call GradientSync::Submit
  // here. Parameters registered with this stage must be submitted before it
  // returns. A shared gradient may be submitted earlier if it is in its view:
  // it is reduced after the sum. From a buffer that is FailedPrecondition.
  std::function<absl::Status(int stage)> on_stage_done;
  // The stream on which stages and loss enqueue their work. Null: their work is
  // done when they return.
  Stream* stream = nullptr;
};

class LOCKSTEP_EXPORT Pipeline {
 public:
  // After GradientSync::Seal, which connects all ranks. Errors:
  // FailedPrecondition (the spec has no pipeline, Seal was not called, a second
  // Pipeline of the session), ResourceExhausted, those of the device.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(Session& session);
  // Waits until this rank's message buffers are no longer used, also by work on
  // a stream.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The stages of this rank, ascending.
  const std::vector<int>& stages() const;
  // Bytes of this rank's message buffers.
  size_t buffer_bytes() const;

  // Returns the weighted sum of the losses on the rank of the last stage, 0 on
  // other ranks. Errors without effect: InvalidArgument (a step that does not
  // match the plan, a stream of another kind than the job's memory),
  // FailedPrecondition (during another Run, twice before Finish, or before the
  // verdict of the step before was waited for), Cancelled (behind the last
  // step).
  absl::StatusOr<double> Run(const PipelineStep& step);

 private:
  class LOCKSTEP_HIDDEN Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PIPELINE_H_
