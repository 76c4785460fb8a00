// The schedule zb-v. A rank has one stage of the way down (0) and one of the
// way back (1); both of a micro-batch meet on the last rank:
//
//   rank 0   stage 0 ─┐       ┌─▶ stage 5
//   rank 1   stage 1 ─┤       ├─▶ stage 4
//   rank 2   stage 2 ─┴───────┴─▶ stage 3
//
// Forward passes and input gradients are in a fixed order. Weight gradients
// fill the times in which that order waits, or free memory when as many
// activations are stored as in 1F1B (2 S of half the size).

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "base/check.h"
#include "plan/schedule/orders.h"

namespace lockstep::plan {
namespace {

// The fixed order of forward passes and input gradients of one rank.
class CriticalOrder {
 public:
  CriticalOrder(const ScheduleShape& shape, int rank)
      : shape_(shape), rank_(rank) {}

  // Made for at least 2 S - 1 micro-batches; those beyond M are left out.
  Order Make() {
    const int later = shape_.ranks - rank_;
    const int micro_batches =
        std::max(shape_.micro_batches, 2 * shape_.ranks - 1);
    for (int i = 0; i < 2 * later - 1; ++i) Forward(0);
    for (int i = 0; i < rank_; ++i) {
      Forward(1);
      Forward(0);
    }
    for (int i = 0; i < later; ++i) {
      Forward(1);
      Backward(1);
    }
    while (forward_[1] < forward_[0] || forward_[0] < micro_batches) {
      if (forward_[0] < micro_batches) Forward(0);
      Backward(0);
      Forward(1);
      Backward(1);
    }
    for (int i = 0; i < rank_; ++i) {
      Backward(0);
      Backward(1);
    }
    for (int i = 0; i < later; ++i) Backward(0);
    return std::move(order_);
  }

 private:
  void Forward(int chunk) { Append(Work::kForward, chunk, forward_[chunk]++); }
  void Backward(int chunk) {
    Append(Work::kBackwardInput, chunk, backward_[chunk]++);
  }
  void Append(Work work, int chunk, int micro_batch) {
    if (micro_batch >= shape_.micro_batches) return;
    order_.push_back({work, StageOf(shape_, rank_, chunk), micro_batch});
  }

  const ScheduleShape& shape_;
  const int rank_;
  std::array<int, 2> forward_{};
  std::array<int, 2> backward_{};
  Order order_;
};

// Simulates all ranks in steps of one action and fills the gaps with weight
// gradients.
class Filler {
 public:
  explicit Filler(const ScheduleShape& shape) : shape_(shape) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      ranks_.push_back({.critical = CriticalOrder(shape, rank).Make()});
    }
    const size_t passes =
        static_cast<size_t>(shape.stages()) * shape.micro_batches;
    forward_at_.assign(passes, kNever);
    backward_at_.assign(passes, kNever);
  }

  std::vector<Order> Run() {
    const int64_t actions = 3 * int64_t{shape_.stages()} * shape_.micro_batches;
    // At each step at least one rank acts, unless the orders deadlock.
    for (int64_t done = 0, now = 0; done < actions; ++now) {
      const int64_t before = done;
      for (Rank& rank : ranks_) done += Act(rank, now);
      Check(done > before, "zb-v: the critical orders contradict each other");
    }
    std::vector<Order> orders;
    for (Rank& rank : ranks_) orders.push_back(std::move(rank.made));
    return orders;
  }

 private:
  static constexpr int64_t kNever = int64_t{1} << 60;

  struct Rank {
    Order critical;
    size_t next = 0;  // index into critical
    std::deque<Action> weights;
    int kept = 0;  // stored activations
    Order made;
  };

  size_t IndexOf(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * shape_.micro_batches + micro_batch;
  }

  bool IsReady(const Action& action, int64_t now) const {
    const auto done = [&](const std::vector<int64_t>& at, int stage) {
      return at[IndexOf(stage, action.micro_batch)] <= now;
    };
    if (action.work == Work::kForward) {
      return action.stage == 0 || done(forward_at_, action.stage - 1);
    }
    return done(forward_at_, action.stage) &&
           (action.stage + 1 == shape_.stages() ||
            done(backward_at_, action.stage + 1));
  }

  bool HasRoomFor(const Rank& rank, const Action& action) const {
    return action.work != Work::kForward || rank.kept < 2 * shape_.ranks;
  }

  // Returns the number of actions done: 0 or 1.
  int Act(Rank& rank, int64_t now) {
    if (rank.next < rank.critical.size()) {
      const Action& action = rank.critical[rank.next];
      if (HasRoomFor(rank, action) && IsReady(action, now)) {
        ++rank.next;
        DoCritical(rank, action, now + 1);
        return 1;
      }
    }
    if (rank.weights.empty()) return 0;
    rank.made.push_back(rank.weights.front());
    rank.weights.pop_front();
    --rank.kept;
    return 1;
  }

  void DoCritical(Rank& rank, const Action& action, int64_t end) {
    rank.made.push_back(action);
    const size_t index = IndexOf(action.stage, action.micro_batch);
    if (action.work == Work::kForward) {
      forward_at_[index] = end;
      ++rank.kept;
    } else {
      backward_at_[index] = end;
      rank.weights.push_back(
          {Work::kBackwardWeight, action.stage, action.micro_batch});
    }
  }

  const ScheduleShape& shape_;
  std::vector<Rank> ranks_;
  std::vector<int64_t> forward_at_;  // end time, by stage and micro-batch
  std::vector<int64_t> backward_at_;
};

}  // namespace

std::vector<Order> ZbVOrders(const ScheduleShape& shape) {
  return Filler(shape).Run();
}

}  // namespace lockstep::plan
