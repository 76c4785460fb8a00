// Pipelines for the tests of this folder.

#ifndef LOCKSTEP_TESTS_PLAN_PIPELINE_PIPELINES_H_
#define LOCKSTEP_TESTS_PLAN_PIPELINE_PIPELINES_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/compile.h"
#include "plan/schedule/schedule.h"

namespace lockstep::plan {

// `replicas` pipelines of the shape; a stage's ranks have one parameter, which
// is registered with the stage.
inline PlanInput PipelineInput(const ScheduleShape& shape, int replicas = 1,
                               const std::vector<TensorType>& parts = {
                                   {DType::kF32, {4, 8}}}) {
  PlanInput input{.mesh = {{{"data", replicas}, {"pipe", shape.ranks}}},
                  .pipeline = {.schedule = shape.kind,
                               .micro_batches = shape.micro_batches,
                               .virtual_stages = shape.virtual_stages}};
  if (shape.stages() > 1) input.pipeline.activations = {{parts}};
  input.registrations.resize(input.mesh.WorldSize());
  for (int rank = 0; rank < input.mesh.WorldSize(); ++rank) {
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
      const int stage = StageOf(shape, rank % shape.ranks, chunk);
      input.registrations[rank].push_back({.name = absl::StrCat("stage", stage),
                                           .shape = {16, 3},
                                           .axes = {"data"},
                                           .stage = stage});
    }
  }
  return input;
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_PIPELINE_PIPELINES_H_
