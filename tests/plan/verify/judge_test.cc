// The verifier, compared with a judge that shares no code with it.

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plan/verify/simulator.h"
#include "plan/verify/verify.h"
#include "tests/plan/plans.h"
#include "tests/plan/verify/builder.h"

namespace lockstep::plan {
namespace {

// Brute force: completes one rendezvous after another while any can complete.
// It does not support groups.
class Judge {
 public:
  Judge(const Plan& plan, QueueSharing queues) : plan_(plan) {
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      const RankPlan& of_rank = plan.ranks[rank];
      for (size_t lane = 0; lane < of_rank.lanes.size(); ++lane) {
        std::vector<PlanNode>& queue = queues_.emplace_back();
        for (const TransferRef& ref : of_rank.launch_order) {
          if (queues == QueueSharing::kEachRank ||
              ref.lane == static_cast<int>(lane)) {
            queue.push_back({static_cast<int>(rank), ref});
          }
        }
        if (queues == QueueSharing::kEachRank) break;
      }
    }
  }

  bool Runs() {
    while (EndOne()) {
    }
    for (const std::vector<PlanNode>& queue : queues_) {
      if (!queue.empty()) return false;
    }
    return true;
  }

 private:
  const Transfer& Of(const PlanNode& place) const {
    return plan_.ranks[place.rank]
        .lanes[place.ref.lane]
        .transfers[place.ref.index];
  }

  // The queue whose first transfer the rank can take part in now, or null.
  std::vector<PlanNode>* Offer(int rank, int communicator) {
    for (std::vector<PlanNode>& queue : queues_) {
      if (queue.empty() || queue[0].rank != rank) continue;
      const Transfer& first = Of(queue[0]);
      bool free = first.communicator == communicator;
      for (const TransferRef& ref : first.after) {
        free &= ended_.contains({rank, ref});
      }
      if (free) return &queue;
    }
    return nullptr;
  }

  void End(std::vector<PlanNode>& queue) {
    ended_.insert(queue[0]);
    queue.erase(queue.begin());
  }

  bool EndOne() {
    for (size_t c = 0; c < plan_.communicators.size(); ++c) {
      std::vector<std::vector<PlanNode>*> offers;
      for (const int rank : plan_.communicators[c].ranks) {
        offers.push_back(Offer(rank, static_cast<int>(c)));
      }
      if (EndCollective(offers) || EndMessage(offers)) return true;
    }
    return false;
  }

  bool EndCollective(const std::vector<std::vector<PlanNode>*>& offers) {
    for (const std::vector<PlanNode>* offer : offers) {
      if (offer == nullptr || IsPointToPoint(Of((*offer)[0]).kind)) {
        return false;
      }
    }
    for (std::vector<PlanNode>* offer : offers) End(*offer);
    return true;
  }

  bool EndMessage(const std::vector<std::vector<PlanNode>*>& offers) {
    for (size_t from = 0; from < offers.size(); ++from) {
      if (offers[from] == nullptr) continue;
      const Transfer& send = Of((*offers[from])[0]);
      if (send.kind != TransferKind::kSend) continue;
      std::vector<PlanNode>* const other = offers[send.peer];
      if (other == nullptr) continue;
      const Transfer& receive = Of((*other)[0]);
      if (receive.kind == TransferKind::kRecv &&
          receive.peer == static_cast<int>(from)) {
        End(*offers[from]);
        End(*other);
        return true;
      }
    }
    return false;
  }

  const Plan& plan_;
  std::vector<std::vector<PlanNode>> queues_;
  std::set<PlanNode> ended_;
};

// Appends a rendezvous on a random communicator to all its members.
void AddMeeting(std::mt19937_64& random, PlanBuilder& builder) {
  const int c =
      kEveryone +
      static_cast<int>(random() % (builder.plan().communicators.size() - 1));
  const std::vector<int> ranks = builder.plan().communicators[c].ranks;
  const std::string lane = absl::StrCat("lane ", c);
  if (random() % 2 == 0) {
    for (const int rank : ranks) builder.Add(rank, lane, Together(c));
    return;
  }
  const size_t from = random() % ranks.size();
  const size_t to = (from + 1 + random() % (ranks.size() - 1)) % ranks.size();
  builder.Add(ranks[from], lane, SendTo(c, static_cast<int>(to)));
  builder.Add(ranks[to], lane, RecvFrom(c, static_cast<int>(from)));
}

// Swaps neighbours of different lanes in the launch order.
void SwapLaunches(std::mt19937_64& random, Plan& plan) {
  std::vector<TransferRef>& order = OneOf(random, plan.ranks).launch_order;
  if (order.size() < 2) return;
  const size_t i = random() % (order.size() - 1);
  if (order[i].lane != order[i + 1].lane) std::swap(order[i], order[i + 1]);
}

// Mostly on an earlier transfer, sometimes on a later one.
void AddDependency(std::mt19937_64& random, Plan& plan) {
  RankPlan& of_rank = OneOf(random, plan.ranks);
  if (of_rank.launch_order.size() < 2) return;
  TransferRef early = OneOf(random, of_rank.launch_order);
  TransferRef late = OneOf(random, of_rank.launch_order);
  if (early == late) return;
  if (early > late && random() % 4 != 0) std::swap(early, late);
  of_rank.lanes[late.lane].transfers[late.index].after.push_back(early);
}

// Rendezvouses in one order complete; the changes made afterwards may prevent
// that.
Plan RandomPlan(std::mt19937_64& random) {
  PlanBuilder builder(4);
  builder.Group("01", {0, 1});
  builder.Group("12", {1, 2});
  builder.Group("23", {2, 3});
  builder.Group("30", {3, 0});
  builder.Group("012", {0, 1, 2});
  for (size_t n = 1 + random() % 8; n > 0; --n) AddMeeting(random, builder);
  for (size_t n = random() % 4; n > 0; --n)
    SwapLaunches(random, builder.plan());
  for (size_t n = random() % 3; n > 0; --n)
    AddDependency(random, builder.plan());
  return builder.plan();
}

TEST(JudgeTest, AgreesWithThePlayerOnRandomPlans) {
  int runs = 0;
  int runs_in_lanes_only = 0;
  int hangs = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    std::mt19937_64 random(seed);
    const Plan plan = RandomPlan(random);
    const Traffic traffic = TrafficOf(plan);
    const bool in_lanes = Judge(plan, QueueSharing::kEachLane).Runs();
    const bool as_one = Judge(plan, QueueSharing::kEachRank).Runs();
    ASSERT_EQ(in_lanes,
              !FindDeadlock(plan, traffic, QueueSharing::kEachLane).has_value())
        << "seed " << seed;
    ASSERT_EQ(as_one,
              !FindDeadlock(plan, traffic, QueueSharing::kEachRank).has_value())
        << "seed " << seed;
    ASSERT_TRUE(in_lanes || !as_one) << "seed " << seed;
    const absl::Status verdict = Verify(WithVerdicts(plan));
    ASSERT_EQ(verdict.code(), as_one ? absl::StatusCode::kOk
                                     : absl::StatusCode::kFailedPrecondition)
        << "seed " << seed << ": " << verdict;
    ++(as_one ? runs : in_lanes ? runs_in_lanes_only : hangs);
  }
  EXPECT_GT(runs, 200);
  EXPECT_GT(runs_in_lanes_only, 100);
  EXPECT_GT(hangs, 40);
}

}  // namespace
}  // namespace lockstep::plan
