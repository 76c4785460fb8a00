#include "tests/plan/mutation/mutants.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::plan {
namespace {

class Mutation {
 public:
  Mutation(Plan& plan, std::mt19937_64& random)
      : plan_(plan), random_(random) {}

  std::string Apply() {
    switch (Draw(14)) {
      case 0: return Drop();
      case 1: return DropOnBothSides();
      case 2: return Swap();
      case 3: return SwapOnBothSides();
      case 4: return SwapInsideGroups();
      case 5: return Retag();
      case 6: return Reshape();
      case 7: return Redirect();
      case 8: return ReorderLaunches();
      case 9: return MoveLaunch();
      case 10: return SwapTasks();
      case 11: return ChangeNeeds();
      case 12: return ChangeBuffer();
      default: return ChangeGroup();
    }
  }

 private:
  int Draw(size_t count) {
    return static_cast<int>(random_() % std::max<size_t>(count, 1));
  }
  RankPlan& AnyRank() { return plan_.ranks[Draw(plan_.ranks.size())]; }
  // A lane that is not empty; null if the draw finds none.
  Lane* AnyLane(RankPlan& rank) {
    for (int tries = 0; tries < 8; ++tries) {
      Lane& lane = rank.lanes[Draw(rank.lanes.size())];
      if (!lane.transfers.empty()) return &lane;
    }
    return nullptr;
  }
  Transfer* AnyTransfer(RankPlan& rank) {
    Lane* const lane = AnyLane(rank);
    return lane == nullptr ? nullptr
                           : &lane->transfers[Draw(lane->transfers.size())];
  }
  int LaneNumber(const RankPlan& rank, const Lane* lane) const {
    return static_cast<int>(lane - rank.lanes.data());
  }

  // Takes a transfer out of its rank, and out of all that names it.
  static void Remove(RankPlan& rank, TransferRef gone) {
    auto& transfers = rank.lanes[gone.lane].transfers;
    transfers.erase(transfers.begin() + gone.index);
    const auto forget = [&](std::vector<TransferRef>& refs) {
      std::erase(refs, gone);
      for (TransferRef& ref : refs) {
        if (ref.lane == gone.lane && ref.index > gone.index) --ref.index;
      }
    };
    forget(rank.launch_order);
    for (Task& task : rank.tasks) forget(task.after);
    for (Lane& lane : rank.lanes) {
      for (Transfer& transfer : lane.transfers) forget(transfer.after);
    }
  }

  std::string Drop() {
    RankPlan& rank = AnyRank();
    Lane* const lane = AnyLane(rank);
    if (lane == nullptr) return "nothing";
    Remove(rank, {LaneNumber(rank, lane), Draw(lane->transfers.size())});
    return "drop";
  }

  // The lanes of the two sides of a channel: sender, receiver.
  bool BothSides(RankPlan** from, Lane** out, RankPlan** to, Lane** in) {
    *from = &AnyRank();
    *out = AnyLane(**from);
    if (*out == nullptr || (*out)->transfers[0].kind != TransferKind::kSend) {
      return false;
    }
    const Transfer& send = (*out)->transfers[0];
    *to = &plan_.ranks[plan_.communicators[send.communicator].ranks[send.peer]];
    for (Lane& lane : (*to)->lanes) {
      if (!lane.transfers.empty() &&
          lane.transfers[0].communicator == send.communicator &&
          lane.transfers.size() == (*out)->transfers.size()) {
        *in = &lane;
        return true;
      }
    }
    return false;
  }

  std::string DropOnBothSides() {
    RankPlan *from, *to;
    Lane *out, *in;
    if (!BothSides(&from, &out, &to, &in)) return Drop();
    const int index = Draw(out->transfers.size());
    Remove(*from, {LaneNumber(*from, out), index});
    Remove(*to, {LaneNumber(*to, in), index});
    return "drop on both sides";
  }

  std::string Swap() {
    Lane* const lane = AnyLane(AnyRank());
    if (lane == nullptr) return "nothing";
    std::swap(lane->transfers[Draw(lane->transfers.size())],
              lane->transfers[Draw(lane->transfers.size())]);
    return "swap";
  }

  // Swaps two transfers and what names them, as if the lane had been laid so.
  static void SwapWhole(RankPlan& rank, int lane, int a, int b) {
    std::swap(rank.lanes[lane].transfers[a], rank.lanes[lane].transfers[b]);
    const auto rename = [&](std::vector<TransferRef>& refs) {
      for (TransferRef& ref : refs) {
        if (ref.lane != lane) continue;
        ref.index = ref.index == a ? b : ref.index == b ? a : ref.index;
      }
    };
    for (Task& task : rank.tasks) rename(task.after);
    for (Lane& other : rank.lanes) {
      for (Transfer& transfer : other.transfers) rename(transfer.after);
    }
  }

  std::string SwapOnBothSides() {
    RankPlan *from, *to;
    Lane *out, *in;
    if (!BothSides(&from, &out, &to, &in)) return Swap();
    const int a = Draw(out->transfers.size());
    const int b = Draw(out->transfers.size());
    SwapWhole(*from, LaneNumber(*from, out), a, b);
    SwapWhole(*to, LaneNumber(*to, in), a, b);
    return "swap on both sides";
  }

  std::string SwapInsideGroups() {
    for (int tries = 0; tries < 16; ++tries) {
      RankPlan& rank = AnyRank();
      Lane* const lane = AnyLane(rank);
      if (lane == nullptr) continue;
      const int i = Draw(lane->transfers.size());
      if (i == 0 || lane->transfers[i].group == 0 ||
          lane->transfers[i].group != lane->transfers[i - 1].group) {
        continue;
      }
      if (Draw(2) == 0) {
        SwapWhole(rank, LaneNumber(rank, lane), i - 1, i);
      } else {
        std::swap(lane->transfers[i - 1], lane->transfers[i]);
      }
      return "swap inside a group";
    }
    return Swap();
  }

  std::string Retag() {
    Transfer* const transfer = AnyTransfer(AnyRank());
    const Transfer* const other = AnyTransfer(AnyRank());
    if (transfer == nullptr || other == nullptr) return "nothing";
    transfer->tag = Draw(3) == 0 ? random_() % 40 : other->tag;
    return "retag";
  }

  std::string Reshape() {
    Transfer* const transfer = AnyTransfer(AnyRank());
    if (transfer == nullptr) return "nothing";
    if (Draw(3) == 0) {
      transfer->dtype = kAllDTypes[Draw(std::size(kAllDTypes))];
    } else if (Draw(2) == 0) {
      transfer->shape.push_back(1 + Draw(2));
    } else {
      transfer->shape = {2, 2, 1 + Draw(3)};
    }
    return "reshape";
  }

  std::string Redirect() {
    Transfer* const transfer = AnyTransfer(AnyRank());
    if (transfer == nullptr) return "nothing";
    switch (Draw(3)) {
      case 0: transfer->communicator = Draw(plan_.communicators.size()); break;
      case 1: transfer->peer = Draw(3) - 1; break;
      default:
        transfer->kind = transfer->kind == TransferKind::kSend
                             ? TransferKind::kRecv
                             : TransferKind::kSend;
    }
    return "redirect";
  }

  std::string ReorderLaunches() {
    std::vector<TransferRef>& order = AnyRank().launch_order;
    if (order.size() < 2) return "nothing";
    const int i = Draw(order.size() - 1);
    std::swap(order[i], order[i + 1]);
    return "swap launches";
  }

  // All launches of one lane together go earlier or later, in their order.
  std::string MoveLaunch() {
    std::vector<TransferRef>& order = AnyRank().launch_order;
    if (order.size() < 2) return "nothing";
    const int from = Draw(order.size());
    const int to = Draw(order.size());
    const TransferRef moved = order[from];
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, moved);
    // The lane keeps its order: the launches are named anew.
    int index = 0;
    for (TransferRef& ref : order) {
      if (ref.lane == moved.lane) ref.index = index++;
    }
    return "move a launch";
  }

  std::string SwapTasks() {
    std::vector<Task>& tasks = AnyRank().tasks;
    if (tasks.size() < 2) return "nothing";
    const int i = Draw(tasks.size() - 1);
    std::swap(tasks[i], tasks[i + 1]);
    return "swap tasks";
  }

  TransferRef AnyRef(const RankPlan& rank) {
    return rank.launch_order.empty()
               ? TransferRef{0, 0}
               : rank.launch_order[Draw(rank.launch_order.size())];
  }

  std::string ChangeNeeds() {
    RankPlan& rank = AnyRank();
    Transfer* const transfer = AnyTransfer(rank);
    Task* const task =
        rank.tasks.empty() ? nullptr : &rank.tasks[Draw(rank.tasks.size())];
    if (transfer == nullptr || task == nullptr) return "nothing";
    switch (Draw(5)) {
      case 0: transfer->after_task = Draw(rank.tasks.size() + 1) - 1; break;
      case 1: transfer->after.push_back(AnyRef(rank)); break;
      case 2: task->after.push_back(AnyRef(rank)); break;
      case 3: task->after.clear(); break;
      default:
        if (!task->after.empty()) {
          task->after[Draw(task->after.size())] = AnyRef(rank);
        }
    }
    return "change what is waited for";
  }

  std::string ChangeBuffer() {
    RankPlan& rank = AnyRank();
    Transfer* const transfer = AnyTransfer(rank);
    const Transfer* const other = AnyTransfer(rank);
    if (transfer == nullptr) return "nothing";
    transfer->buffer = Draw(4) == 0 ? 30 + Draw(4) : other->buffer;
    return "change a buffer";
  }

  std::string ChangeGroup() {
    Lane* const lane = AnyLane(AnyRank());
    if (lane == nullptr) return "nothing";
    const int i = Draw(lane->transfers.size());
    lane->transfers[i].group =
        i > 0 && Draw(2) == 0 ? lane->transfers[i - 1].group : Draw(3);
    return "change a group";
  }

  Plan& plan_;
  std::mt19937_64& random_;
};

}  // namespace

Mutant MutantOf(const Plan& good, std::mt19937_64& random) {
  Mutant mutant{.plan = good};
  const uint64_t changes = random() % 4 == 0 ? 2 + random() % 2 : 1;
  for (uint64_t i = 0; i < changes; ++i) {
    absl::StrAppend(&mutant.what, mutant.what.empty() ? "" : ", ",
                    Mutation(mutant.plan, random).Apply());
  }
  return mutant;
}

}  // namespace lockstep::plan
