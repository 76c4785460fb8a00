// One valid plan, and changes that break each rule.

#ifndef LOCKSTEP_TESTS_PLAN_VERIFY_BROKEN_H_
#define LOCKSTEP_TESTS_PLAN_VERIFY_BROKEN_H_

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/agreement.h"
#include "plan/verify/diagnostics.h"
#include "plan/verify/operations.h"
#include "plan/verify/structure.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"
#include "tests/plan/verify/builder.h"

namespace lockstep::plan {

// Two stages of two replicas (ranks 0, 2 and 1, 3) in three gradient buckets
// each, with a message from stage to stage and, between replicas, an exchange
// that is one group. The last communicator has all ranks; an empty lane
// precedes the verdict.
inline Plan GoodPlan() {
  PlanInput input = Alike(MeshOf({{"data", 2}, {"pipe", 2}}),
                          {{.name = "head", .shape = {40}},
                           {.name = "w", .shape = {8, 3}, .axes = {"data"}},
                           {.name = "h",
                            .shape = {5},
                            .dtype = DType::kF16,
                            .op = ReduceOp::kSum,
                            .axes = {"data"}}});
  Plan plan = *Compile(input);
  const Lane verdict = plan.ranks[0].lanes[1];
  for (RankPlan& rank : plan.ranks) {
    rank.lanes.pop_back();
    std::erase_if(rank.launch_order,
                  [](const TransferRef& ref) { return ref.lane == 1; });
  }
  for (const int first : {0, 2}) {
    const int pipe = static_cast<int>(plan.communicators.size());
    plan.communicators.push_back(
        {.name = absl::StrCat("pipe@", first), .ranks = {first, first + 1}});
    const auto add = [&](int rank, Transfer transfer) {
      transfer.after = {{0, 0}};
      RankPlan& of_rank = plan.ranks[rank];
      of_rank.lanes.push_back({.kind = LaneKind::kState,
                               .name = "pipe",
                               .transfers = {std::move(transfer)}});
      of_rank.launch_order.insert(of_rank.launch_order.begin() + 1, {1, 0});
    };
    add(first, SendTo(pipe, 1, 7));
    add(first + 1, RecvFrom(pipe, 0, 7));
  }
  for (const int first : {0, 1}) {
    const int replicas = static_cast<int>(plan.communicators.size());
    plan.communicators.push_back({.name = absl::StrCat("replicas@", first),
                                  .ranks = {first, first + 2}});
    for (const int member : {0, 1}) {
      RankPlan& of_rank = plan.ranks[first + 2 * member];
      of_rank.lanes.push_back(
          {.kind = LaneKind::kState,
           .name = "replicas",
           .transfers = {InGroup(SendTo(replicas, 1 - member), 1),
                         InGroup(RecvFrom(replicas, 1 - member), 1)}});
      of_rank.launch_order.push_back({2, 0});
      of_rank.launch_order.push_back({2, 1});
    }
  }
  for (RankPlan& rank : plan.ranks) {
    rank.lanes.push_back({.kind = LaneKind::kState, .name = "save"});
    rank.lanes.push_back(verdict);
    rank.launch_order.push_back({4, 0});
    rank.launch_order.push_back({4, 1});
  }
  plan.communicators.push_back({.name = "everybody", .ranks = {0, 1, 2, 3}});
  return plan;
}

inline Transfer& Reduction(Plan& plan, int rank, int index = 0) {
  return plan.ranks[rank].lanes[0].transfers[index];
}
inline Transfer& Message(Plan& plan, int rank) {
  return plan.ranks[rank].lanes[1].transfers[0];
}
inline int Everybody(const Plan& plan) {
  return static_cast<int>(plan.communicators.size()) - 1;
}
inline Transfer& Exchange(Plan& plan, int rank, int index) {
  return plan.ranks[rank].lanes[2].transfers[index];
}

inline std::vector<Diagnostic> DiagnosticsIn(const Plan& plan) {
  Diagnostics diagnostics;
  CheckTables(plan, diagnostics);
  if (diagnostics.empty()) CheckLanes(plan, diagnostics);
  if (diagnostics.empty()) CheckNorms(plan, diagnostics);
  if (diagnostics.empty()) {
    const Traffic traffic = TrafficOf(plan);
    CheckCollectives(plan, traffic, diagnostics);
    CheckPointToPoint(plan, traffic, diagnostics);
  }
  return diagnostics.kept();
}

struct Broken {
  std::string how;
  Rule rule;
  std::vector<int> ranks;  // of the first finding
  std::function<void(Plan&)> damage;
};

inline void ExpectRefused(const Broken& broken) {
  SCOPED_TRACE(broken.how);
  Plan plan = GoodPlan();
  broken.damage(plan);
  const std::vector<Diagnostic> diagnostics = DiagnosticsIn(plan);
  ASSERT_FALSE(diagnostics.empty());
  EXPECT_EQ(static_cast<int>(diagnostics[0].rule),
            static_cast<int>(broken.rule))
      << diagnostics[0].text;
  EXPECT_EQ(diagnostics[0].ranks, broken.ranks) << diagnostics[0].text;
  EXPECT_EQ(Verify(plan).code(), absl::StatusCode::kInvalidArgument);
}

// Expects that every plan is refused, and that each of `rules` is the reason
// once.
inline void ExpectRefused(const std::vector<Broken>& plans,
                          std::set<Rule> rules) {
  for (const Broken& broken : plans) {
    ExpectRefused(broken);
    rules.erase(broken.rule);
  }
  EXPECT_TRUE(rules.empty()) << rules.size() << " rules remain untested";
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_VERIFY_BROKEN_H_
