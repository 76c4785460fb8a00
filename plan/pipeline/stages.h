// When the gradients of a pipeline's ranks are complete and can be reduced.
//
//   rank 0   F0 F4 ... B4 ─▶ buckets of stage 4   B0 ─▶ buckets of stage 0
//
// A parameter may name its stage (protocol/parameter.h). Its gradient is
// complete after that stage's last task. All others are complete after the
// rank's last task:
//
// - parameters without a stage, and all parameters of a rank that has one: the
//   time of their gradients is unknown
// - parameters of the first and the last stage if they share parameters: shared
//   gradients are summed when both ranks are done, and a stage completes all
//   its gradients together

#ifndef LOCKSTEP_PLAN_PIPELINE_STAGES_H_
#define LOCKSTEP_PLAN_PIPELINE_STAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "plan/ir.h"
#include "plan/pipeline/flow.h"

namespace lockstep::plan {

// The stage of all parameters in the bucket; -1: none, or several.
int StageOf(const Plan& plan, const Bucket& bucket);

// Sorts `order` of parameters, stably: by the time at which their stage is
// done; those without a stage last. InvalidArgument: a parameter of a stage
// that the pipeline does not have, or in a plan without a pipeline; a pipeline
// that plan/schedule/pipeline_shape.h refuses.
absl::Status SortByStage(const std::vector<Parameter>& parameters,
                         const PipelineSpec& spec, const Mesh& mesh,
                         std::vector<int>* order);

class Completions {
 public:
  // The plan has its buckets; `flow` is that of its pipeline, if any. Both
  // outlive this. `place`: position of each rank in its pipeline.
  Completions(const Plan& plan, const Flow& flow,
              const std::vector<int>& place);

  // When the bucket's gradients are complete on a rank that has it, and after
  // which of its tasks. Without a pipeline: time 0, task -1.
  StageEnd Of(const Bucket& bucket, int rank) const;

  // InvalidArgument: a rank registers a parameter of a stage that it does not
  // have.
  absl::Status CheckHolders() const;

 private:
  const Plan& plan_;
  const Flow& flow_;
  const std::vector<int>& place_;
  std::vector<bool> has_others_;  // by rank: has parameters without a stage
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_STAGES_H_
