// Parameters that the first and the last stage of a pipeline have in common,
// tied embeddings for one: where their gradients lie on the ranks of both.

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

// The ranks of the first and the last stage add up their gradients of a shared
// parameter: from then on they hold the same. Adds the pipeline's axis to
// `replicated_over` of these parameters, unless it is there or they are reduced
// over it, so that one of the two ranks counts them in the global norm. What a
// registration states stays. The plan has its parameters, communicators and
// pipeline; communicator_of[i] is that of parameter i. A pipeline that is not
// valid, or has both stages on one rank, changes nothing.
void DeclareSharedReplicas(const std::vector<int>& communicator_of, Plan* plan);

class SharedParameters {
 public:
  // Those of plan.pipeline.shared, by position in it. The plan has its buckets,
  // and outlives this.
  explicit SharedParameters(const Plan& plan);

  size_t size() const { return places_.size(); }

  // `ends`: the ranks of the first and of the last stage, of each pipeline.
  // InvalidArgument: one of them did not register a parameter; two ranks did,
  // and reduce it over the pipeline's axis as well, or did not register it
  // alike: type, op, axes to reduce over, and replicas.
  absl::Status Check(const std::vector<std::pair<int, int>>& ends) const;

  // After Check, on the rank of an end: the parameter, and its bucket.
  const Parameter& On(size_t shared, int rank) const {
    return plan_.parameters[places_[shared].at(rank).parameter];
  }
  int BucketOn(size_t shared, int rank) const {
    return places_[shared].at(rank).bucket;
  }

  // Does the bucket hold one of them?
  bool AnyIn(const Bucket& bucket) const;

 private:
  struct CopyLocation {
    int bucket = -1;
    int parameter = -1;
  };

  const Plan& plan_;
  absl::flat_hash_map<std::string, int> index_;
  std::vector<std::map<int, CopyLocation>> places_;  // of each, by rank
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_SHARED_H_
