// The rank of each stage, from the plan's pipeline spec and mesh.

#ifndef LOCKSTEP_PLAN_VERIFY_PIPELINES_H_
#define LOCKSTEP_PLAN_VERIFY_PIPELINES_H_

#include <vector>

#include "plan/ir.h"
#include "plan/schedule/pipeline_shape.h"

namespace lockstep::plan {

// The replicas of a plan's pipeline: groups of ranks along its axis, each of
// which has every stage once. None without a pipeline.
class Pipelines {
 public:
  // The plan's mesh and pipeline spec must be valid.
  explicit Pipelines(const Plan& plan) {
    if (!HasPipeline(plan.pipeline)) return;
    shape_ = ShapeOf(plan.pipeline, plan.mesh);
    replicas_ = plan.mesh.GroupsOver({plan.pipeline.axis});
    replica_of_.resize(plan.ranks.size());
    for (size_t i = 0; i < replicas_.size(); ++i) {
      for (const int rank : replicas_[i]) {
        replica_of_[rank] = static_cast<int>(i);
      }
    }
  }

  bool exist() const { return !replicas_.empty(); }
  const std::vector<std::vector<int>>& replicas() const { return replicas_; }
  int stages() const { return shape_.stages(); }
  int micro_batches() const { return shape_.micro_batches; }

  // The rank of the stage, in the replica of `rank`.
  int HolderOf(int stage, int rank) const {
    return replicas_[replica_of_[rank]][RankOf(shape_, stage)];
  }

 private:
  ScheduleShape shape_;
  std::vector<std::vector<int>> replicas_;
  std::vector<int> replica_of_;  // each rank
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_VERIFY_PIPELINES_H_
