// Compares a rank's recorded communicator calls with its plan.

#ifndef LOCKSTEP_TESTS_CLIENT_EXECUTOR_TRACE_H_
#define LOCKSTEP_TESTS_CLIENT_EXECUTOR_TRACE_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/ir.h"
#include "tests/support/recording_communicator.h"

namespace lockstep::executor {

class Trace {
 public:
  // `calls`: the rank's calls in `steps` whole steps.
  Trace(const plan::Plan& plan, int rank, std::vector<RecordedCall> calls,
        int steps)
      : plan_(plan), mine_(plan.ranks[rank]), calls_(std::move(calls)) {
    steps_ = steps;
  }

  // The first difference from the plan: each lane's calls are its transfers, in
  // order, step by step. Empty if there is none.
  std::string Difference() const {
    std::map<std::string, int> lane_of;
    for (size_t lane = 0; lane < mine_.lanes.size(); ++lane) {
      for (const plan::Transfer& t : mine_.lanes[lane].transfers) {
        lane_of[plan_.communicators[t.communicator].name] =
            static_cast<int>(lane);
      }
    }
    std::vector<std::vector<RecordedCall>> by_lane(mine_.lanes.size());
    for (const RecordedCall& call : calls_) {
      int lane = -1;
      for (const auto& [name, number] : lane_of) {
        if (IsOn(call, name)) lane = number;
      }
      if (lane < 0) return Text(call) + " is in no lane of the plan";
      by_lane[lane].push_back(call);
    }
    for (size_t lane = 0; lane < by_lane.size(); ++lane) {
      std::string difference = InLane(mine_.lanes[lane], by_lane[lane]);
      if (!difference.empty()) return difference;
    }
    return "";
  }

  // As Difference, where the coordinator decides the order within each step.
  std::string DifferenceInAnyOrder() const {
    std::vector<const plan::Transfer*> left;
    const auto refill = [&] {
      for (const plan::Lane& lane : mine_.lanes) {
        for (const plan::Transfer& t : lane.transfers) left.push_back(&t);
      }
    };
    int steps = 0;
    for (const RecordedCall& call : calls_) {
      if (left.empty()) {
        refill();
        ++steps;
      }
      const auto planned = std::find_if(
          left.begin(), left.end(),
          [&](const plan::Transfer* t) { return AreEqual(*t, call); });
      if (planned == left.end()) return "not planned: " + Text(call);
      left.erase(planned);
    }
    if (!left.empty()) return "never done: " + Describe(*left[0]);
    if (steps == steps_) return "";
    return absl::StrFormat("%d steps were done, of %d", steps, steps_);
  }

 private:
  // The names of a job's groups have a revision or an epoch before the plan's
  // name.
  static bool IsOn(const RecordedCall& call, const std::string& name) {
    return call.communicator == name ||
           absl::EndsWith(call.communicator, absl::StrCat("/", name));
  }

  static std::string Text(const RecordedCall& call) {
    return absl::StrFormat(
        "%s of %d %s (%s), root %d, peer %d, on %s", Name(call.kind),
        call.count, std::string(Name(call.dtype)), std::string(Name(call.op)),
        call.root, call.peer, call.communicator);
  }

  bool AreEqual(const plan::Transfer& planned, const RecordedCall& call) const {
    return IsOn(call, plan_.communicators[planned.communicator].name) &&
           call.kind == planned.kind &&
           call.count == static_cast<size_t>(CountOf(planned)) &&
           call.dtype == planned.dtype && call.op == planned.op &&
           call.root == planned.root && call.peer == planned.peer;
  }

  std::string InLane(const plan::Lane& lane,
                     const std::vector<RecordedCall>& calls) const {
    const size_t per_step = lane.transfers.size();
    for (size_t i = 0; i < calls.size() || i < per_step * steps_; ++i) {
      const std::string where =
          absl::StrFormat("lane %s, step %d, transfer %d: ", lane.name,
                          i / per_step, i % per_step);
      if (i >= per_step * steps_) {
        return where + "not planned: " + Text(calls[i]);
      }
      const plan::Transfer& planned = lane.transfers[i % per_step];
      if (i >= calls.size()) {
        return where + "never done: " + Describe(planned);
      }
      if (!AreEqual(planned, calls[i])) {
        return where + "planned is " + Describe(planned) + ", done was " +
               Text(calls[i]);
      }
      const bool planned_together =
          i % per_step > 0 && planned.group != 0 &&
          lane.transfers[i % per_step - 1].group == planned.group;
      const bool done_together = i % per_step > 0 && calls[i].group != 0 &&
                                 calls[i - 1].group == calls[i].group;
      if (planned_together != done_together) {
        return where + "one group in one of plan and trace only";
      }
    }
    return "";
  }

  const plan::Plan& plan_;
  const plan::RankPlan& mine_;
  const std::vector<RecordedCall> calls_;
  int steps_ = 0;
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_TESTS_CLIENT_EXECUTOR_TRACE_H_
