// A rank's plan in the form that the executor runs: units, their dependencies,
// and, for queued lanes, the operations that every step launches.
//
//   lane       [t0][t1 t2: one group][t3]     plan/ir.h
//   units      [0 ][1               ][2 ]     launched as one
//   pending     4   0                 1       MarkReady calls in a step
//   after           ▲ unit 1 of lane 2        launched before
//
// A unit is one transfer, or the adjacent transfers of one group. Units of a
// lane are launched in order, each after the units of other lanes that precede
// it: those named by its transfers and, on devices, where all lanes share one
// launch order, those before it in that order.
//
// Immutable once made, except for the operations, which run one after the
// other. The owners of queued lanes must outlive it.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_PROGRAM_H_
#define LOCKSTEP_CLIENT_EXECUTOR_PROGRAM_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/executor/lane_owner.h"
#include "client/executor/lane_traffic.h"
#include "client/executor/unit_operation.h"
#include "plan/ir.h"

namespace lockstep::executor {

// How a lane runs; chosen when the program is made.
enum class LaneRun : uint8_t {
  kNone,     // not run here: other lanes do not wait for it
  kQueued,   // on the comm queue, with local operations, in the plan's order
  kDecided,  // likewise, in the order of the MarkReady calls
  kStream,   // on its own stream, in the plan's order
};

constexpr bool IsQueued(LaneRun run) {
  return run == LaneRun::kQueued || run == LaneRun::kDecided;
}

struct UnitRef {
  int lane = -1;
  int unit = -1;
};

struct Unit {
  int first = 0;  // index in the lane's transfers
  int count = 1;
  int communicator = -1;
  int pending = 0;
  std::vector<UnitRef> after;  // units of other lanes
  int named = 0;       // the first so many of `after` are data dependencies
  uint64_t bytes = 0;  // LaneTraffic::BytesOf its transfers
};

class Program {
 public:
  struct LaneProgram {
    const plan::Lane* planned = nullptr;
    LaneRun run = LaneRun::kNone;
    std::vector<Unit> units;
    std::vector<int> unit_of;                                // by transfer
    std::vector<std::unique_ptr<UnitOperation>> operations;  // if queued
  };

  struct Options {
    std::function<LaneRun(const plan::Lane&)> run_of;
    // The number of MarkReady calls for a transfer in a step.
    std::function<int(const plan::Lane&, const plan::Transfer&)> pending_of;
    // Called for queued lanes only.
    std::function<LaneOwner*(const plan::Lane&)> owner_of;
    // By index in the plan.
    std::function<Communicator*(int)> communicator;
    // One launch order over all lanes (DeviceContext::NeedsOneOrder).
    bool one_order = false;
  };

  // InvalidArgument for a plan that its lanes cannot run: a lane with a stream
  // must have no local operations, and may only follow transfers of other such
  // lanes.
  static absl::StatusOr<std::unique_ptr<Program>> Create(
      std::shared_ptr<const plan::Plan> plan, int rank, const Options& options);

  const std::vector<LaneProgram>& lanes() const { return lanes_; }
  UnitRef UnitOf(plan::TransferRef ref) const {
    return {ref.lane, lanes_[ref.lane].unit_of[ref.index]};
  }
  const Unit& At(const UnitRef& ref) const {
    return lanes_[ref.lane].units[ref.unit];
  }
  const plan::Transfer& FirstOf(const UnitRef& ref) const {
    return lanes_[ref.lane].planned->transfers[At(ref).first];
  }
  bool has_streams() const { return has_streams_; }
  bool one_order() const { return one_order_; }

 private:
  explicit Program(std::shared_ptr<const plan::Plan> plan)
      : plan_(std::move(plan)) {}
  absl::Status AddLane(int number, const plan::Lane& lane,
                       const Options& options);
  absl::Status AddPlannedOrder(const plan::RankPlan& rank);
  void AddLaunchOrder(const plan::RankPlan& rank);
  void PutVerdictLast();
  void AddAfter(const UnitRef& unit, const UnitRef& earlier);

  const std::shared_ptr<const plan::Plan> plan_;  // owns the planned lanes
  std::vector<LaneProgram> lanes_;
  bool has_streams_ = false;
  bool one_order_ = false;
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_PROGRAM_H_
