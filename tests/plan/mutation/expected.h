// The values that a plan must compute, from its mesh, parameters, bucket groups
// and pipeline spec alone. Lanes, tasks and launch orders are not read.
//
//   replica r              a column of ranks along the pipeline's axis
//   forward(s, m, r)       from forward(s - 1, m, r)
//   gradient(s, m, r)      from gradient(s + 1, m, r) and forward(s, m, r)
//   contribution(s, m, r)  to the gradients of the stage's parameters, from the
//                          stage's forward and its incoming gradient
//
// A parameter's gradient is the sum of stamps modulo 2^64:
//
//   local(rank, p)         contributions of p's stage, or of all stages of the
//                          rank if p has none; a shared parameter adds those of
//                          the other end of the column
//   total(rank, p)         of all ranks of p's group
//
// Without a pipeline each rank contributes once.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_EXPECTED_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_EXPECTED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/ir.h"
#include "plan/schedule/schedule.h"

namespace lockstep::plan::oracle {

enum class Flow : uint8_t { kForward, kGradient };

class Expected {
 public:
  explicit Expected(const Plan& plan);

  bool has_pipeline() const { return !columns_.empty(); }
  int stages() const { return stages_; }
  int micro_batches() const { return micro_batches_; }
  int ReplicaOf(int rank) const { return replica_[rank]; }
  int RankOfStage(int replica, int stage) const {
    return columns_[replica][RankOf(shape_, stage)];
  }

  // Types of the tensors between stages `boundary` and `boundary + 1`.
  const std::vector<TensorType>& Parts(Flow flow, int boundary) const {
    return parts_[static_cast<int>(flow)][boundary];
  }
  uint64_t Result(Flow flow, int stage, int micro_batch, int replica) const {
    return results_[static_cast<int>(flow)][At(stage, micro_batch, replica)];
  }
  uint64_t Contribution(int stage, int micro_batch, int replica) const {
    return contributions_[At(stage, micro_batch, replica)];
  }
  // The rank's contribution to each of its gradients, without a pipeline.
  static uint64_t RankContribution(int rank);

  // True if the rank is in the group that reduces the parameter.
  bool Holds(int rank, int parameter) const {
    return bucket_of_[parameter] >= 0 && holds_[parameter][rank];
  }
  bool Feeds(int stage, int parameter) const {
    const int of = plan_.parameters[parameter].stage;
    return of == -1 || of == stage;
  }
  uint64_t Total(int rank, int parameter) const {
    return total_[parameter][rank];
  }

  // The other end of the column if this rank is one end (the first or the last
  // stage's rank) and the ends differ, else -1.
  int SharesWith(int rank) const;
  // The index of the shared parameter that this rank holds, or -1.
  int SharedOn(int rank, int shared) const;

  // Not empty if a bucket does not reduce its parameters over their groups.
  const std::string& fault() const { return fault_; }

 private:
  size_t At(int stage, int micro_batch, int replica) const {
    return (static_cast<size_t>(stage) * micro_batches_ + micro_batch) *
               columns_.size() +
           replica;
  }
  void ReadPipeline();
  void ReadParts();
  uint64_t InputOf(Flow flow, int from_stage, int micro_batch,
                   int replica) const;
  void Compute();
  void FindHolders();
  uint64_t Local(int rank, int parameter) const;
  uint64_t LocalWithShared(int rank, int parameter) const;

  const Plan& plan_;
  std::string fault_;
  ScheduleShape shape_;
  int stages_ = 0;
  int micro_batches_ = 0;
  std::vector<std::vector<int>> columns_;
  std::vector<int> replica_;
  std::vector<std::vector<TensorType>> parts_[2];  // of each boundary
  std::vector<uint64_t> results_[2];
  std::vector<uint64_t> contributions_;
  std::vector<int> bucket_of_;            // of each parameter
  std::vector<std::vector<bool>> holds_;  // parameter, rank
  std::vector<std::vector<uint64_t>> total_;
};

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_EXPECTED_H_
