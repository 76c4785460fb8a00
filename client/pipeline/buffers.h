// The memory of a rank's messages: one piece for each buffer of its plan.
//
//   buffer 0  [activation in]   received, held until the micro-batch is over
//   buffer 1  [activation in]
//   buffer 2  [gradient out]    sent
//
// Also where a task finds what it reads and writes.

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

  // One buffer for each number in the rank's plan. Errors are Allocate's.
  static absl::StatusOr<std::unique_ptr<Buffers>> Create(
      const plan::RankPlan& rank, const Allocate& allocate);

  // Where a message lies.
  TensorView At(const plan::Transfer& transfer) const;

  // What a task is brought, and what it has to send: by tag, which is by part.
  std::vector<TensorView> BroughtTo(int task) const;
  std::vector<TensorView> SentFrom(int task) const;

  size_t bytes() const { return bytes_; }

 private:
  explicit Buffers(const plan::RankPlan& rank) : rank_(rank) {}
  std::vector<TensorView> Views(
      std::vector<const plan::Transfer*> transfers) const;

  const plan::RankPlan& rank_;
  std::vector<ArenaBuffer> buffers_;
  // By task: what it waits for as a receive, what it makes.
  std::vector<std::vector<const plan::Transfer*>> brought_;
  std::vector<std::vector<const plan::Transfer*>> sent_;
  size_t bytes_ = 0;
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_BUFFERS_H_
