// The memory of a rank's messages: one allocation for each buffer of its plan.
//
//   buffer 0  [activation in]   received, in use until the micro-batch is over
//   buffer 1  [activation in]
//   buffer 2  [gradient out]    sent
//
// Also returns the tensors that each task reads and writes.

#ifndef LOCKSTEP_CLIENT_PIPELINE_BUFFERS_H_
#define LOCKSTEP_CLIENT_PIPELINE_BUFFERS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/arena.h"
#include "lockstep/pipeline_stage.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

class Buffers {
 public:
  using Allocate = std::function<absl::StatusOr<ArenaBuffer>(size_t)>;

  // One buffer for each number in the rank's plan. Errors of `allocate`.
  static absl::StatusOr<std::unique_ptr<Buffers>> Create(
      const plan::RankPlan& rank, const Allocate& allocate);

  // The tensor of a message.
  TensorView At(const plan::Transfer& transfer) const;

  // The tensors that a task receives, and those it sends; ordered by tag, which
  // is the order of parts.
  std::vector<TensorView> BroughtTo(int task) const;
  std::vector<TensorView> SentFrom(int task) const;

  size_t bytes() const { return bytes_; }

 private:
  explicit Buffers(const plan::RankPlan& rank) : rank_(rank) {}
  std::vector<TensorView> Views(
      std::vector<const plan::Transfer*> transfers) const;

  const plan::RankPlan& rank_;
  std::vector<ArenaBuffer> buffers_;
  // By task: the receives that it waits for, and the sends that follow it.
  std::vector<std::vector<const plan::Transfer*>> brought_;
  std::vector<std::vector<const plan::Transfer*>> sent_;
  size_t bytes_ = 0;
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_BUFFERS_H_
