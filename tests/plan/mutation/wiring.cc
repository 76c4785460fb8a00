#include "tests/plan/mutation/wiring.h"

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep::plan::oracle {

Wiring::Wiring(const Plan& plan, bool one_queue) : plan_(plan) {
  const int ranks = static_cast<int>(plan.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) Number(rank);
  for (int rank = 0; rank < ranks && !fault_; ++rank) {
    ConnectTasks(rank);
    for (const auto& lane : number_of_[rank]) {
      for (const int number : lane) ConnectTransfer(rank, number);
    }
    if (fault_) return;
    ComputeOnce(rank);
    GatherFirst(rank);
    VerdictLast(rank);
    Queue(rank, one_queue);
    QueueTasks(rank);
  }
}

void Wiring::Cannot(const std::string& why) {
  if (!fault_) fault_ = Fault{Fate::kCannot, why};
}

void Wiring::Number(int rank) {
  const RankPlan& of_rank = plan_.ranks[rank];
  auto& lanes = number_of_.emplace_back();
  for (size_t l = 0; l < of_rank.lanes.size(); ++l) {
    lanes.emplace_back();
    const std::vector<Transfer>& transfers = of_rank.lanes[l].transfers;
    for (size_t i = 0; i < transfers.size(); ++i) {
      lanes.back().push_back(static_cast<int>(steps_.size()));
      steps_.push_back({.rank = rank,
                        .role = Role::kOther,
                        .transfer = &transfers[i],
                        .at = {static_cast<int>(l), static_cast<int>(i)}});
    }
  }
  first_task_.push_back(static_cast<int>(steps_.size()));
  for (const Task& task : of_rank.tasks) {
    steps_.push_back({.rank = rank, .task = &task});
  }
  local_compute_.push_back(kNone);
  if (plan_.pipeline.schedule == PipelineSchedule::kNone) {
    local_compute_.back() = static_cast<int>(steps_.size());
    steps_.push_back({.rank = rank, .role = Role::kLocalCompute});
  }
}

int Wiring::Find(int rank, const TransferRef& ref) {
  const auto& lanes = number_of_[rank];
  if (ref.lane < 0 || ref.lane >= static_cast<int>(lanes.size()) ||
      ref.index < 0 || ref.index >= static_cast<int>(lanes[ref.lane].size())) {
    Cannot("names a transfer that does not exist");
    return 0;
  }
  return TransferStep(rank, ref);
}

void Wiring::ConnectTasks(int rank) {
  const std::vector<Task>& tasks = plan_.ranks[rank].tasks;
  for (size_t i = 0; i < tasks.size(); ++i) {
    Step& step = steps_[TaskStep(rank, static_cast<int>(i))];
    for (const TransferRef& ref : tasks[i].after) {
      step.needs.push_back(Find(rank, ref));
    }
  }
}

void Wiring::ConnectTransfer(int rank, int number) {
  Step& step = steps_[number];
  for (const TransferRef& ref : step.transfer->after) {
    step.needs.push_back(Find(rank, ref));
  }
  const int task = step.transfer->after_task;
  if (task < kNone ||
      task >= static_cast<int>(plan_.ranks[rank].tasks.size())) {
    return Cannot("comes after a task that does not exist");
  }
  if (task >= 0) step.needs.push_back(TaskStep(rank, task));
  OpenChannel(step);
}

// A channel per communicator, source and destination for messages, and one per
// communicator for collectives.
void Wiring::OpenChannel(Step& step) {
  const Transfer& transfer = *step.transfer;
  if (transfer.communicator < 0 ||
      transfer.communicator >= static_cast<int>(plan_.communicators.size())) {
    return Cannot("is on a communicator that does not exist");
  }
  const std::vector<int>& ranks = GroupOf(step).ranks;
  const auto self = std::find(ranks.begin(), ranks.end(), step.rank);
  if (self == ranks.end()) return Cannot("is on a communicator of others");
  const int position = static_cast<int>(self - ranks.begin());
  int from = kNone;
  int to = kNone;
  if (IsPointToPoint(transfer.kind)) {
    if (transfer.peer < 0 || transfer.peer >= static_cast<int>(ranks.size()) ||
        transfer.peer == position) {
      return Cannot("has a peer that is none");
    }
    const bool sends = transfer.kind == TransferKind::kSend;
    from = sends ? position : transfer.peer;
    to = sends ? transfer.peer : position;
  }
  step.channel = channels_
                     .try_emplace({transfer.communicator, from, to},
                                  static_cast<int>(channels_.size()))
                     .first->second;
}

bool Wiring::Gathers(int number) const {
  const Transfer& transfer = *steps_[number].transfer;
  return transfer.kind == TransferKind::kAllGather && transfer.bucket >= 0 &&
         transfer.bucket < static_cast<int>(plan_.buckets.size()) &&
         plan_.buckets[transfer.bucket].sharded;
}

void Wiring::ComputeOnce(int rank) {
  if (local_compute_[rank] == kNone) return;
  for (const auto& lane : number_of_[rank]) {
    for (const int number : lane) {
      if (!Gathers(number))
        steps_[number].needs.push_back(local_compute_[rank]);
    }
  }
}

void Wiring::GatherFirst(int rank) {
  const int first = local_compute_[rank] != kNone     ? local_compute_[rank]
                    : plan_.ranks[rank].tasks.empty() ? kNone
                                                      : TaskStep(rank, 0);
  if (first == kNone) return;
  for (const auto& lane : number_of_[rank]) {
    for (const int number : lane) {
      if (Gathers(number)) steps_[first].needs.push_back(number);
    }
  }
}

void Wiring::VerdictLast(int rank) {
  const std::vector<Lane>& lanes = plan_.ranks[rank].lanes;
  std::vector<int> before;
  for (size_t task = 0; task < plan_.ranks[rank].tasks.size(); ++task) {
    before.push_back(TaskStep(rank, static_cast<int>(task)));
  }
  for (size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l].kind == LaneKind::kVerdict) continue;
    const std::vector<int>& steps = number_of_[rank][l];
    before.insert(before.end(), steps.begin(), steps.end());
  }
  for (size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l].kind != LaneKind::kVerdict) continue;
    for (const int number : number_of_[rank][l]) {
      std::vector<int>& needs = steps_[number].needs;
      needs.insert(needs.end(), before.begin(), before.end());
    }
  }
}

void Wiring::Queue(int rank, bool one_queue) {
  const RankPlan& of_rank = plan_.ranks[rank];
  const size_t first = queues_.size();
  queues_.resize(first + (one_queue ? 1 : of_rank.lanes.size()));
  std::vector<int> next(of_rank.lanes.size(), 0);
  std::vector<int> before(queues_.size(), kNone);
  size_t launched = 0;
  for (const TransferRef& ref : of_rank.launch_order) {
    const int number = Find(rank, ref);
    if (fault_) return;
    if (ref.index != next[ref.lane]++) {
      return Cannot("launches a lane in another order than its own");
    }
    ++launched;
    const size_t queue = first + (one_queue ? 0 : ref.lane);
    const Step* const last =
        before[queue] == kNone ? nullptr : &steps_[before[queue]];
    const bool joins = last != nullptr && last->at.lane == ref.lane &&
                       steps_[number].transfer->group != 0 &&
                       last->transfer->group == steps_[number].transfer->group;
    if (!joins) queues_[queue].emplace_back();
    queues_[queue].back().push_back(number);
    before[queue] = number;
  }
  size_t all = 0;
  for (const Lane& lane : of_rank.lanes) all += lane.transfers.size();
  if (launched != all) Cannot("never launches a transfer");
}

void Wiring::QueueTasks(int rank) {
  std::vector<std::vector<int>> units;
  for (size_t i = 0; i < plan_.ranks[rank].tasks.size(); ++i) {
    units.push_back({TaskStep(rank, static_cast<int>(i))});
  }
  if (local_compute_[rank] != kNone) units.push_back({local_compute_[rank]});
  queues_.push_back(std::move(units));
}

}  // namespace lockstep::plan::oracle
