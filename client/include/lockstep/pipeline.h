// Runs this rank's stages of a pipeline, as the job's plan says.
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
// Run computes forward and backward passes of all micro-batches in the order of
// the schedule, while activations and gradients travel between the stages. It
// returns once all of this rank's work of the step is done; the gradients of a
// stage are complete when on_stage_done is called. A rank with several stages
// that registers each parameter with its stage (ParameterOptions::stage) is
// called for each as soon as it is done, while the others still compute.
//
// The memory of messages is made once, by Create: buffer_bytes, which the plan
// fixes. docs/pipeline.md has schedules and timelines.
//
// Device memory. In a job whose transport moves it (nccl), all TensorViews are
// the device's. Stages that enqueue their work on a stream of theirs and return
// before it is done give that stream (PipelineStep::stream): messages then wait
// for it and it for messages, on the device, and a callback's kernels come
// behind what it needs. In the host a stream of the kind HostStream does the
// same. The loss value is the host's: Loss waits for it, or returns 0 and keeps
// it on the device.
//
// Threads:   Run from one thread, which may be that of GradientSync.
// Ownership: the session must outlive it.
// Errors:    a stage or loss that fails ends the epoch: every rank gets this
//            rank, stage, micro-batch and message. A transfer that fails: what
//            is behind it (Session::status). After that Run returns why.

#ifndef LOCKSTEP_PIPELINE_H_
#define LOCKSTEP_PIPELINE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/export.h"
#include "lockstep/pipeline_stage.h"
#include "lockstep/session.h"
#include "lockstep/stream.h"

namespace lockstep {

// One step. All is the caller's and must live until Run returns.
struct PipelineStep {
  // The rank's stages, in the order of Pipeline::stages.
  std::vector<PipelineStage*> stages;
  // On the rank of the last stage: its loss, and what its output is.
  PipelineLoss* loss = nullptr;
  Activation output;
  // By micro-batch; none: 1 / micro_batches each.
  std::vector<double> weights;
  // Gradients of the spec's pipeline.shared parameters, in its order, on the
  // ranks of the first and the last stage: added up between the two, in place,
  // before on_stage_done is told of these stages; the norm counts them once. A
  // rank that has both adds them up itself.
  std::vector<TensorView> shared;
  // The stage's gradients are complete, shared ones added up, or will be once
  // `stream` has run: the place for GradientSync::Submit. What was registered
  // with this stage must be submitted when it returns. A shared gradient that
  // is submitted earlier, in its view, is reduced behind the sum; a copy of it,
  // from a buffer, is FailedPrecondition.
  std::function<absl::Status(int stage)> on_stage_done;
  // Where stages and loss enqueue their work. Null: it is done when they
  // return.
  Stream* stream = nullptr;
};

class LOCKSTEP_EXPORT Pipeline {
 public:
  // After GradientSync::Seal, which connects all ranks. Errors:
  // FailedPrecondition (the spec has no pipeline, Seal was not called, a second
  // Pipeline of the session), ResourceExhausted, those of the device.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Create(Session& session);
  // Ends what this rank still has on the way.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // The stages of the model that this rank has, ascending.
  const std::vector<int>& stages() const;
  // Bytes that the messages of this rank lie in.
  size_t buffer_bytes() const;

  // The weighted sum of the losses, on the rank of the last stage; 0 elsewhere.
  // InvalidArgument, with nothing done, for a step that does not fit the plan
  // or a stream of another kind than the job's memory; FailedPrecondition,
  // likewise, during another Run and a second time before Finish.
  absl::StatusOr<double> Run(const PipelineStep& step);

 private:
  class LOCKSTEP_HIDDEN Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PIPELINE_H_
