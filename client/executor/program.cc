#include "client/executor/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::executor {
namespace {

// The number of transfers, beginning with `first`, that are launched as one.
int UnitLength(const plan::Lane& lane, int first) {
  const int group = lane.transfers[first].group;
  const int end = static_cast<int>(lane.transfers.size());
  int next = first + 1;
  while (group != 0 && next < end && lane.transfers[next].group == group) {
    ++next;
  }
  return next - first;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Create(
    std::shared_ptr<const plan::Plan> plan, int number,
    const Options& options) {
  const plan::RankPlan& rank = plan->ranks[number];
  std::unique_ptr<Program> program(new Program(std::move(plan)));
  for (size_t lane = 0; lane < rank.lanes.size(); ++lane) {
    absl::Status added =
        program->AddLane(static_cast<int>(lane), rank.lanes[lane], options);
    if (!added.ok()) return added;
  }
  absl::Status planned = program->AddPlannedOrder(rank);
  if (!planned.ok()) return planned;
  for (LaneProgram& lane : program->lanes_) {
    for (Unit& unit : lane.units) {
      unit.named = static_cast<int>(unit.after.size());
    }
  }
  program->one_order_ = options.one_order;
  if (options.one_order) program->AddLaunchOrder(rank);
  program->PutVerdictLast();
  return program;
}

absl::Status Program::AddLane(int number, const plan::Lane& lane,
                              const Options& options) {
  LaneProgram& made = lanes_.emplace_back();
  made.planned = &lane;
  made.run = options.run_of(lane);
  has_streams_ |= made.run == LaneRun::kStream && !lane.transfers.empty();
  const int transfers = static_cast<int>(lane.transfers.size());
  for (int first = 0; first < transfers;) {
    Unit unit{.first = first,
              .count = UnitLength(lane, first),
              .communicator = lane.transfers[first].communicator};
    std::vector<const plan::Transfer*> members;
    for (int i = first; i < first + unit.count; ++i) {
      const plan::Transfer& transfer = lane.transfers[i];
      const bool is_local = !transfer.before.empty() || !transfer.then.empty();
      if (made.run == LaneRun::kStream && is_local) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "lane %s, transfer %d (%s) has local operations, which run in "
            "gradient and verdict lanes only",
            lane.name, i, Describe(transfer)));
      }
      unit.pending += options.pending_of(lane, transfer);
      unit.bytes += LaneTraffic::BytesOf(transfer);
      members.push_back(&transfer);
      made.unit_of.push_back(static_cast<int>(made.units.size()));
    }
    if (IsQueued(made.run)) {
      made.operations.push_back(std::make_unique<UnitOperation>(
          plan::TransferRef{number, first}, std::move(members),
          options.owner_of(lane), options.communicator(unit.communicator)));
    }
    first += unit.count;
    made.units.push_back(std::move(unit));
  }
  return absl::OkStatus();
}

void Program::AddAfter(const UnitRef& unit, const UnitRef& earlier) {
  if (earlier.lane == unit.lane) return;
  if (lanes_[earlier.lane].run == LaneRun::kNone) return;
  lanes_[unit.lane].units[unit.unit].after.push_back(earlier);
}

// Adds the dependencies that transfers name. A stream cannot wait for an
// operation of the comm queue, since no event signals its end.
absl::Status Program::AddPlannedOrder(const plan::RankPlan& rank) {
  for (size_t lane = 0; lane < rank.lanes.size(); ++lane) {
    const std::vector<plan::Transfer>& transfers = rank.lanes[lane].transfers;
    for (size_t i = 0; i < transfers.size(); ++i) {
      const plan::TransferRef ref{static_cast<int>(lane), static_cast<int>(i)};
      for (const plan::TransferRef& earlier : transfers[i].after) {
        if (lanes_[lane].run == LaneRun::kStream &&
            IsQueued(lanes_[earlier.lane].run)) {
          return absl::InvalidArgumentError(absl::StrFormat(
              "%s in lane %s comes after transfer %d of lane %s: lanes with a "
              "stream cannot wait for gradients",
              Describe(transfers[i]), rank.lanes[lane].name, earlier.index,
              rank.lanes[earlier.lane].name));
        }
        AddAfter(UnitOf(ref), UnitOf(earlier));
      }
    }
  }
  return absl::OkStatus();
}

// Adds, for each other lane, its nearest earlier unit of the launch order; that
// unit follows the ones before it.
void Program::AddLaunchOrder(const plan::RankPlan& rank) {
  std::vector<int> newest(rank.lanes.size(), -1);
  for (plan::TransferRef ref : rank.launch_order) {
    const UnitRef unit = UnitOf(ref);
    if (newest[unit.lane] == unit.unit) continue;  // of the same group
    newest[unit.lane] = unit.unit;
    if (lanes_[unit.lane].run == LaneRun::kDecided) continue;
    for (size_t lane = 0; lane < newest.size(); ++lane) {
      if (newest[lane] < 0 || lanes_[lane].run == LaneRun::kDecided) continue;
      AddAfter(unit, {static_cast<int>(lane), newest[lane]});
    }
  }
}

// The verdict follows all queued lanes, whatever the launch order.
void Program::PutVerdictLast() {
  for (size_t verdict = 0; verdict < lanes_.size(); ++verdict) {
    const bool is_verdict =
        lanes_[verdict].planned->kind == plan::LaneKind::kVerdict;
    if (!is_verdict || lanes_[verdict].units.empty()) continue;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      const int units = static_cast<int>(lanes_[lane].units.size());
      if (units == 0 || lanes_[lane].run != LaneRun::kQueued) continue;
      AddAfter({static_cast<int>(verdict), 0},
               {static_cast<int>(lane), units - 1});
    }
  }
}

}  // namespace lockstep::executor
