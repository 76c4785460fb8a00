// When the gradients of a pipeline's ranks are complete, and so may travel.
//
//   rank 0   F0 F4 ... B4 ─▶ buckets of stage 4   B0 ─▶ buckets of stage 0
//
// A parameter may say of which stage it is (words/parameter.h). Its gradient is
// complete once that stage has done its last task. All others are complete
// with the last task of the rank:
//
//   - of a rank that has parameters of no stage: nobody knows when theirs are
//   - of the first and the last stage, if they share parameters: the gradients
//     of those are added up when both ranks are done, and a stage is done with
//     all its gradients

#ifndef LOCKSTEP_PLAN_PIPELINE_STAGES_H_
#define LOCKSTEP_PLAN_PIPELINE_STAGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "plan/ir.h"
#include "plan/pipeline/flow.h"

namespace lockstep::plan {

// The stage of all the parameters in the bucket; -1: none, or several.
int StageOf(const Plan& plan, const Bucket& bucket);

// Sorts `order`, of parameters: those of stages that are done earlier come
// earlier, those of no stage last; else it stays as it is. InvalidArgument: a
// parameter of a stage that the pipeline does not have, or in a plan without a
// pipeline; a pipeline that shape.h refuses.
absl::Status SortByStage(const std::vector<Parameter>& parameters,
                         const PipelineSpec& spec, const Mesh& mesh,
                         std::vector<int>* order);

class Completions {
 public:
  // The plan has its buckets, and `flow` is that of its pipeline, if it has
  // one. Both outlive this. `place` is that of each rank in its pipeline.
  Completions(const Plan& plan, const Flow& flow,
              const std::vector<int>& place);

  // When the bucket's gradients are complete on a rank that holds it, and with
  // which of its tasks: at 0, with none (-1), in a plan without a pipeline.
  StageEnd Of(const Bucket& bucket, int rank) const;

  // InvalidArgument: a parameter of a stage is registered by a rank that does
  // not have it.
  absl::Status CheckHolders() const;

 private:
  const Plan& plan_;
  const Flow& flow_;
  const std::vector<int>& place_;
  std::vector<bool> has_others_;  // of each rank: parameters of no stage
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_STAGES_H_
