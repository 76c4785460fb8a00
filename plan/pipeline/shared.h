// Parameters that the first and the last stage of a pipeline share, as tied
// embeddings: where their gradients are on the ranks of both.

#ifndef LOCKSTEP_PLAN_PIPELINE_SHARED_H_
#define LOCKSTEP_PLAN_PIPELINE_SHARED_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "plan/ir.h"

namespace lockstep::plan {

// The ranks of the first and the last stage sum their gradients of a shared
// parameter, so both have the same result. Adds the pipeline's axis to
// `replicated_over` of these parameters, so that one of the two ranks counts
// them in the global norm. It does not if the axis is there already or they are
// reduced over it. Keeps what a registration states. The plan has its
// parameters, communicators and pipeline; communicator_of[i] is that of
// parameter i. Has no effect for a pipeline that is invalid or has both stages
// on one rank.
void DeclareSharedReplicas(const std::vector<int>& communicator_of, Plan* plan);

class SharedParameters {
 public:
  // The parameters of plan.pipeline.shared, by position in it. The plan has its
  // buckets and outlives this.
  explicit SharedParameters(const Plan& plan);

  size_t size() const { return places_.size(); }

  // `ends`: the ranks of the first and of the last stage of each pipeline.
  // InvalidArgument: one of them did not register a parameter; or both did, but
  // also reduce it over the pipeline's axis, or registered different types,
  // ops, axes or replicas.
  absl::Status Check(const std::vector<std::pair<int, int>>& ends) const;

  // Call after Check, for a rank of the first or last stage: the parameter, and
  // its bucket.
  const Parameter& On(size_t shared, int rank) const {
    return plan_.parameters[places_[shared].at(rank).parameter];
  }
  int BucketOn(size_t shared, int rank) const {
    return places_[shared].at(rank).bucket;
  }

  // Whether the bucket has a shared parameter.
  bool AnyIn(const Bucket& bucket) const;

 private:
  struct CopyLocation {
    int bucket = -1;
    int parameter = -1;
  };

  const Plan& plan_;
  absl::flat_hash_map<std::string, int> index_;
  std::vector<std::map<int, CopyLocation>> places_;  // by parameter and rank
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_SHARED_H_
