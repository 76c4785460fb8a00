#include "tests/plan/mutation/generic_mutations.h"

#include <algorithm>
#include <random>
#include <utility>

#include "tests/plan/mutation/edit.h"

namespace lockstep::plan {
namespace {

class GenericMutator {
 public:
  GenericMutator(Plan& plan, std::mt19937_64& random)
      : plan_(plan), random_(random) {}

  void Drop() {
    RankPlan& rank = AnyRank();
    Lane* const lane = AnyLane(rank);
    if (lane == nullptr) return;
    Remove(rank, {LaneNumber(rank, lane), Draw(lane->transfers.size())});
  }

  void DropOnBothSides() {
    RankPlan *from, *to;
    Lane *out, *in;
    if (!BothSides(&from, &out, &to, &in)) return Drop();
    const int index = Draw(out->transfers.size());
    Remove(*from, {LaneNumber(*from, out), index});
    Remove(*to, {LaneNumber(*to, in), index});
  }

  void Swap() {
    Lane* const lane = AnyLane(AnyRank());
    if (lane == nullptr) return;
    std::swap(lane->transfers[Draw(lane->transfers.size())],
              lane->transfers[Draw(lane->transfers.size())]);
  }

  void SwapOnBothSides() {
    RankPlan *from, *to;
    Lane *out, *in;
    if (!BothSides(&from, &out, &to, &in)) return Swap();
    const int a = Draw(out->transfers.size());
    const int b = Draw(out->transfers.size());
    SwapWhole(*from, LaneNumber(*from, out), a, b);
    SwapWhole(*to, LaneNumber(*to, in), a, b);
  }

  void SwapInsideGroups() {
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
      return;
    }
    return Swap();
  }

  void Retag() {
    Transfer* const transfer = AnyTransfer(AnyRank());
    const Transfer* const other = AnyTransfer(AnyRank());
    if (transfer == nullptr || other == nullptr) return;
    transfer->tag = Draw(3) == 0 ? random_() % 40 : other->tag;
  }

  void Reshape() {
    Transfer* const transfer = AnyTransfer(AnyRank());
    if (transfer == nullptr) return;
    if (Draw(3) == 0) {
      transfer->dtype = kTransportDTypes[Draw(std::size(kTransportDTypes))];
    } else if (Draw(2) == 0) {
      transfer->shape.push_back(1 + Draw(2));
    } else {
      transfer->shape = {2, 2, 1 + Draw(3)};
    }
  }

  void Redirect() {
    Transfer* const transfer = AnyTransfer(AnyRank());
    if (transfer == nullptr) return;
    switch (Draw(3)) {
      case 0: transfer->communicator = Draw(plan_.communicators.size()); break;
      case 1: transfer->peer = Draw(3) - 1; break;
      default:
        transfer->kind = transfer->kind == TransferKind::kSend
                             ? TransferKind::kRecv
                             : TransferKind::kSend;
    }
  }

  void ReorderLaunches() {
    std::vector<TransferRef>& order = AnyRank().launch_order;
    if (order.size() < 2) return;
    const int i = Draw(order.size() - 1);
    std::swap(order[i], order[i + 1]);
  }

  // Moves all launches of one lane together, and keeps their order.
  void MoveLaunch() {
    std::vector<TransferRef>& order = AnyRank().launch_order;
    if (order.size() < 2) return;
    const int from = Draw(order.size());
    const int to = Draw(order.size());
    const TransferRef moved = order[from];
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, moved);
    // The lane keeps its order: its launches are renumbered.
    int index = 0;
    for (TransferRef& ref : order) {
      if (ref.lane == moved.lane) ref.index = index++;
    }
  }

  void SwapTasks() {
    std::vector<Task>& tasks = AnyRank().tasks;
    if (tasks.size() < 2) return;
    const int i = Draw(tasks.size() - 1);
    std::swap(tasks[i], tasks[i + 1]);
  }

  TransferRef AnyRef(const RankPlan& rank) {
    return rank.launch_order.empty()
               ? TransferRef{0, 0}
               : rank.launch_order[Draw(rank.launch_order.size())];
  }

  void ChangeNeeds() {
    RankPlan& rank = AnyRank();
    Transfer* const transfer = AnyTransfer(rank);
    Task* const task =
        rank.tasks.empty() ? nullptr : &rank.tasks[Draw(rank.tasks.size())];
    if (transfer == nullptr || task == nullptr) return;
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
  }

  void ChangeBuffer() {
    RankPlan& rank = AnyRank();
    Transfer* const transfer = AnyTransfer(rank);
    const Transfer* const other = AnyTransfer(rank);
    if (transfer == nullptr || other == nullptr) return;
    transfer->buffer = Draw(4) == 0 ? 30 + Draw(4) : other->buffer;
  }

  void ChangeGroup() {
    Lane* const lane = AnyLane(AnyRank());
    if (lane == nullptr) return;
    const int i = Draw(lane->transfers.size());
    lane->transfers[i].group =
        i > 0 && Draw(2) == 0 ? lane->transfers[i - 1].group : Draw(3);
  }

 private:
  int Draw(size_t count) {
    return static_cast<int>(random_() % std::max<size_t>(count, 1));
  }
  RankPlan& AnyRank() { return plan_.ranks[Draw(plan_.ranks.size())]; }
  // A lane that is not empty; null if none was drawn.
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

  // The lanes of the two sides of a channel: sender, receiver.
  bool BothSides(RankPlan** from, Lane** out, RankPlan** to, Lane** in) {
    *from = &AnyRank();
    *out = AnyLane(**from);
    if (*out == nullptr || (*out)->transfers[0].kind != TransferKind::kSend) {
      return false;
    }
    const Transfer& send = (*out)->transfers[0];
    const auto& group = plan_.communicators[send.communicator].ranks;
    if (send.peer < 0 || send.peer >= static_cast<int>(group.size())) {
      return false;
    }
    *to = &plan_.ranks[group[send.peer]];
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

  Plan& plan_;
  std::mt19937_64& random_;
};

template <void (GenericMutator::*mutate)()>
void Apply(Plan& plan, std::mt19937_64& random) {
  (GenericMutator(plan, random).*mutate)();
}

}  // namespace

const std::vector<Mutation>& GenericMutations() {
  static const auto* const all = new std::vector<Mutation>{
      {"drop", Apply<&GenericMutator::Drop>},
      {"drop on both sides", Apply<&GenericMutator::DropOnBothSides>},
      {"swap", Apply<&GenericMutator::Swap>},
      {"swap on both sides", Apply<&GenericMutator::SwapOnBothSides>},
      {"swap inside a group", Apply<&GenericMutator::SwapInsideGroups>},
      {"retag", Apply<&GenericMutator::Retag>},
      {"reshape", Apply<&GenericMutator::Reshape>},
      {"redirect", Apply<&GenericMutator::Redirect>},
      {"swap launches", Apply<&GenericMutator::ReorderLaunches>},
      {"move a launch", Apply<&GenericMutator::MoveLaunch>},
      {"swap tasks", Apply<&GenericMutator::SwapTasks>},
      {"change what is waited for", Apply<&GenericMutator::ChangeNeeds>},
      {"change a buffer", Apply<&GenericMutator::ChangeBuffer>},
      {"change a group", Apply<&GenericMutator::ChangeGroup>}};
  return *all;
}

}  // namespace lockstep::plan
