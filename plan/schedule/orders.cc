#include "plan/schedule/orders.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

// Appends actions of one stage; each kind counts its micro-batches.
class StageOrder {
 public:
  explicit StageOrder(int stage) : stage_(stage) {}

  void Forward() { Append(Work::kForward, forward_++); }
  void Backward() { Append(Work::kBackward, backward_++); }
  void BackwardInput() { Append(Work::kBackwardInput, backward_++); }
  void BackwardWeight() { Append(Work::kBackwardWeight, weight_++); }

  int forward() const { return forward_; }
  int backward() const { return backward_; }
  int weight() const { return weight_; }
  Order Take() { return std::move(order_); }

 private:
  void Append(Work work, int micro_batch) {
    order_.push_back({work, stage_, micro_batch});
  }

  const int stage_;
  int forward_ = 0;
  int backward_ = 0;
  int weight_ = 0;
  Order order_;
};

// Forward passes before the first gradient can arrive.
int WarmUp(const ScheduleShape& shape, int rank) {
  return std::min(shape.ranks - rank - 1, shape.micro_batches);
}

// The number-th pass of a rank with virtual stages: rounds of S micro-batches,
// each over all of the rank's stages.
Action InterleavedPass(const ScheduleShape& shape, int rank, Work work,
                       int number) {
  const int round = shape.ranks * shape.virtual_stages;
  const int turn = number % round / shape.ranks;
  const int chunk =
      work == Work::kForward ? turn : shape.virtual_stages - 1 - turn;
  return {work, StageOf(shape, rank, chunk),
          number / round * shape.ranks + number % shape.ranks};
}

}  // namespace

Order GPipeOrder(const ScheduleShape& shape, int rank) {
  StageOrder order(rank);
  while (order.forward() < shape.micro_batches) order.Forward();
  while (order.backward() < shape.micro_batches) order.Backward();
  return order.Take();
}

Order OneFOneBOrder(const ScheduleShape& shape, int rank) {
  StageOrder order(rank);
  for (int i = WarmUp(shape, rank); i > 0; --i) order.Forward();
  while (order.forward() < shape.micro_batches) {
    order.Forward();
    order.Backward();
  }
  while (order.backward() < shape.micro_batches) order.Backward();
  return order.Take();
}

Order InterleavedOrder(const ScheduleShape& shape, int rank) {
  const int passes = shape.micro_batches * shape.virtual_stages;
  const int warm_up =
      std::min(passes, 2 * (shape.ranks - rank - 1) +
                           (shape.virtual_stages - 1) * shape.ranks);
  Order order;
  for (int forward = 0; forward < passes; ++forward) {
    order.push_back(InterleavedPass(shape, rank, Work::kForward, forward));
    if (forward < warm_up) continue;
    order.push_back(
        InterleavedPass(shape, rank, Work::kBackward, forward - warm_up));
  }
  for (int backward = passes - warm_up; backward < passes; ++backward) {
    order.push_back(InterleavedPass(shape, rank, Work::kBackward, backward));
  }
  return order;
}

// Rank r computes a weight gradient r micro-batches late. So the last rank
// returns gradients without a pause, and its delayed work fills the time in
// which the first ranks still wait. No rank stores more than S activations.
Order ZbH1Order(const ScheduleShape& shape, int rank) {
  StageOrder order(rank);
  for (int i = WarmUp(shape, rank); i > 0; --i) order.Forward();
  while (order.forward() < shape.micro_batches) {
    order.Forward();
    order.BackwardInput();
    if (order.backward() - order.weight() > rank) order.BackwardWeight();
  }
  while (order.backward() < shape.micro_batches) {
    order.BackwardInput();
    order.BackwardWeight();
  }
  while (order.weight() < shape.micro_batches) order.BackwardWeight();
  return order.Take();
}

}  // namespace lockstep::plan
