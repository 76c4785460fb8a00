#include "tests/plan/mutation/edit.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

// Calls `change` for every list of references in the rank.
template <typename Function>
void EachList(RankPlan& rank, const Function& change) {
  change(rank.launch_order);
  for (Task& task : rank.tasks) change(task.after);
  for (Lane& lane : rank.lanes) {
    for (Transfer& transfer : lane.transfers) change(transfer.after);
  }
}

template <typename Function>
void EachTransfer(RankPlan& rank, const Function& change) {
  for (Lane& lane : rank.lanes) {
    for (Transfer& transfer : lane.transfers) change(transfer);
  }
}

}  // namespace

void Remove(RankPlan& rank, TransferRef gone) {
  auto& transfers = rank.lanes[gone.lane].transfers;
  transfers.erase(transfers.begin() + gone.index);
  EachList(rank, [&](std::vector<TransferRef>& refs) {
    std::erase(refs, gone);
    for (TransferRef& ref : refs) {
      if (ref.lane == gone.lane && ref.index > gone.index) --ref.index;
    }
  });
}

TransferRef Append(RankPlan& rank, int lane, Transfer transfer) {
  std::vector<Transfer>& transfers = rank.lanes[lane].transfers;
  const TransferRef ref{lane, static_cast<int>(transfers.size())};
  transfers.push_back(std::move(transfer));
  std::vector<TransferRef>& order = rank.launch_order;
  auto at = order.end();
  while (at != order.begin() && rank.lanes[lane].kind != LaneKind::kVerdict &&
         rank.lanes[(at - 1)->lane].kind == LaneKind::kVerdict) {
    --at;
  }
  order.insert(at, ref);
  return ref;
}

TransferRef InsertBehind(RankPlan& rank, TransferRef before,
                         Transfer transfer) {
  const TransferRef ref{before.lane, before.index + 1};
  auto& transfers = rank.lanes[ref.lane].transfers;
  transfers.insert(transfers.begin() + ref.index, std::move(transfer));
  EachList(rank, [&](std::vector<TransferRef>& refs) {
    for (TransferRef& other : refs) {
      if (other.lane == ref.lane && other.index >= ref.index) ++other.index;
    }
  });
  auto& order = rank.launch_order;
  order.insert(std::find(order.begin(), order.end(), before) + 1, ref);
  return ref;
}

void SwapWhole(RankPlan& rank, int lane, int a, int b) {
  std::swap(rank.lanes[lane].transfers[a], rank.lanes[lane].transfers[b]);
  const auto order = rank.launch_order;
  EachList(rank, [&](std::vector<TransferRef>& refs) {
    for (TransferRef& ref : refs) {
      if (ref.lane != lane) continue;
      ref.index = ref.index == a ? b : ref.index == b ? a : ref.index;
    }
  });
  rank.launch_order = order;  // still in the order of the lane
}

void MoveTask(RankPlan& rank, int from, int to) {
  const Task moved = rank.tasks[from];
  rank.tasks.erase(rank.tasks.begin() + from);
  rank.tasks.insert(rank.tasks.begin() + to, moved);
  EachTransfer(rank, [&](Transfer& transfer) {
    int& task = transfer.after_task;
    if (task == from) {
      task = to;
    } else if (from < task && task <= to) {
      --task;
    } else if (to <= task && task < from) {
      ++task;
    }
  });
}

void RemoveTask(RankPlan& rank, int task) {
  rank.tasks.erase(rank.tasks.begin() + task);
  EachTransfer(rank, [&](Transfer& transfer) {
    if (transfer.after_task >= task) --transfer.after_task;
  });
}

std::optional<Place> OtherSide(const Plan& plan, const Place& message) {
  const Transfer& own = plan.ranks[message.rank]
                            .lanes[message.ref.lane]
                            .transfers[message.ref.index];
  if (!IsPointToPoint(own.kind)) return std::nullopt;
  const std::vector<int>& group = plan.communicators[own.communicator].ranks;
  const int self = static_cast<int>(
      std::find(group.begin(), group.end(), message.rank) - group.begin());
  // Messages of one rank with the peer, in lane order.
  const auto between = [&](int rank, TransferKind kind, int peer) {
    std::vector<Place> all;
    const auto& lanes = plan.ranks[rank].lanes;
    for (size_t l = 0; l < lanes.size(); ++l) {
      for (size_t i = 0; i < lanes[l].transfers.size(); ++i) {
        const Transfer& transfer = lanes[l].transfers[i];
        if (transfer.communicator == own.communicator &&
            transfer.kind == kind && transfer.peer == peer) {
          all.push_back({rank, {static_cast<int>(l), static_cast<int>(i)}});
        }
      }
    }
    return all;
  };
  const std::vector<Place> here = between(message.rank, own.kind, own.peer);
  const std::vector<Place> there =
      between(group[own.peer],
              own.kind == TransferKind::kSend ? TransferKind::kRecv
                                              : TransferKind::kSend,
              self);
  for (size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
    if (here[i].ref == message.ref) return there[i];
  }
  return std::nullopt;
}

std::vector<Place> MessagesOf(const Plan& plan, int rank, int task) {
  std::vector<Place> messages;
  const RankPlan& of_rank = plan.ranks[rank];
  for (const TransferRef& ref : of_rank.launch_order) {
    const Transfer& transfer = of_rank.lanes[ref.lane].transfers[ref.index];
    const auto& after = of_rank.tasks[task].after;
    const bool made =
        transfer.kind == TransferKind::kSend && transfer.after_task == task;
    const bool needed =
        transfer.kind == TransferKind::kRecv &&
        std::find(after.begin(), after.end(), ref) != after.end();
    if (made || needed) messages.push_back({rank, ref});
  }
  return messages;
}

void RemoveMessages(Plan& plan, const std::vector<Place>& messages,
                    bool both_sides) {
  std::vector<Place> gone = messages;
  for (const Place& message : messages) {
    const std::optional<Place> other = OtherSide(plan, message);
    if (both_sides && other) gone.push_back(*other);
  }
  const auto name = [](const Place& place) {
    return std::pair(place.rank, place.ref);
  };
  // In reverse order, so that the other references stay valid.
  std::sort(gone.begin(), gone.end(),
            [&](const Place& a, const Place& b) { return name(a) > name(b); });
  gone.erase(std::unique(gone.begin(), gone.end(),
                         [&](const Place& a, const Place& b) {
                           return name(a) == name(b);
                         }),
             gone.end());
  for (const Place& place : gone) Remove(plan.ranks[place.rank], place.ref);
}

int AddCommunicator(Plan& plan, const std::string& name,
                    std::vector<int> ranks) {
  for (size_t i = 0; i < plan.communicators.size(); ++i) {
    if (plan.communicators[i].name == name) return static_cast<int>(i);
  }
  plan.communicators.push_back({name, std::move(ranks)});
  return static_cast<int>(plan.communicators.size()) - 1;
}

int AddLane(RankPlan& rank, LaneKind kind, const std::string& name) {
  rank.lanes.push_back({.kind = kind, .name = name});
  return static_cast<int>(rank.lanes.size()) - 1;
}

int CountMessages(const RankPlan& rank) {
  int messages = 0;
  for (const Lane& lane : rank.lanes) {
    for (const Transfer& transfer : lane.transfers) {
      messages += IsPointToPoint(transfer.kind) ? 1 : 0;
    }
  }
  return messages;
}

}  // namespace lockstep::plan
