#include "tests/plan/mutation/roles.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::plan::oracle {
namespace {

int64_t CountIn(const Transfer& transfer) {
  int64_t count = 1;
  for (const int64_t extent : transfer.shape) count *= extent;
  return count;
}

bool IsGradient(Work work) {
  return work == Work::kBackward || work == Work::kBackwardInput;
}
bool IsLast(Work work) {
  return work == Work::kBackward || work == Work::kBackwardWeight;
}

// Assigns the roles of one rank's steps.
class OfRank {
 public:
  OfRank(const Expected& expected, Wiring& wiring, int rank)
      : expected_(expected),
        wiring_(wiring),
        plan_(wiring.plan()),
        rank_(rank),
        of_rank_(plan_.ranks[rank]) {}

  std::optional<Fault> Assign() {
    ReadLanes();
    ReadTasks();
    if (!fault_ && expected_.has_pipeline()) {
      ConnectMessages();
      CheckTasks();
      CheckMessages();
    }
    CheckBuckets();
    return fault_;
  }

 private:
  using Pass = std::pair<int, int>;  // stage, micro-batch

  void Cannot(const std::string& why) {
    if (!fault_)
      fault_ = Fault{Fate::kCannot, absl::StrCat("rank ", rank_, ": ", why)};
  }

  // --- Lanes ---

  void ReadLanes() {
    int gradient_lanes = 0;
    for (size_t l = 0; l < of_rank_.lanes.size(); ++l) {
      const Lane& lane = of_rank_.lanes[l];
      const bool is_gradient = lane.kind == LaneKind::kGradient;
      if (is_gradient && ++gradient_lanes > 1 && !lane.transfers.empty()) {
        Cannot("has a second gradient lane");
      }
      if (lane.kind == LaneKind::kPipeline && !lane.transfers.empty() &&
          !expected_.has_pipeline()) {
        Cannot("has a pipeline lane without a pipeline");
      }
      int collectives = 0;
      for (size_t i = 0; i < lane.transfers.size() && !fault_; ++i) {
        Step& step = wiring_.steps()[wiring_.TransferStep(
            rank_, {static_cast<int>(l), static_cast<int>(i)})];
        if (step.transfer->communicator == 0 &&
            lane.kind != LaneKind::kVerdict) {
          Cannot("uses the verdict's communicator");
        }
        if (is_gradient) {
          ReadGradient(step);
        } else if (step.transfer->bucket >= 0) {
          Cannot("reduces a bucket outside of the gradient lane");
        } else if (lane.kind == LaneKind::kPipeline) {
          ReadPipeline(lane, step, collectives);
        }
      }
    }
  }

  void ReadGradient(Step& step) {
    const Transfer& transfer = *step.transfer;
    if (transfer.bucket < 0 ||
        transfer.bucket >= static_cast<int>(plan_.buckets.size())) {
      return Cannot("has a transfer without a bucket in its gradient lane");
    }
    const Bucket& bucket = plan_.buckets[transfer.bucket];
    const bool sliced = bucket.sharded || bucket.leaves > 0;
    const std::map<TransferKind, Role> roles =
        bucket.sharded
            ? std::map<TransferKind, Role>{{TransferKind::kAllGather,
                                            Role::kGatherParameters},
                                           {TransferKind::kReduceScatter,
                                            Role::kReduce},
                                           {TransferKind::kAllReduce,
                                            Role::kReduceFlags}}
        : sliced
            ? std::map<TransferKind,
                       Role>{{TransferKind::kAllToAll, Role::kExchange},
                             {TransferKind::kAllGather, Role::kGatherSums},
                             {TransferKind::kAllReduce, Role::kReduceFlags},
                             {TransferKind::kAllReducePairs, Role::kReduce}}
            : std::map<TransferKind, Role>{
                  {TransferKind::kAllReduce, Role::kReduce}};
    const auto role = roles.find(transfer.kind);
    if (role == roles.end()) return Cannot("does not reduce its bucket so");
    step.role = role->second;
    if (!in_bucket_[transfer.bucket].insert(step.role).second) {
      return Cannot("reduces a bucket twice");
    }
    const bool in_pairs = transfer.kind == TransferKind::kAllReducePairs;
    const size_t wanted = in_pairs ? 1 : bucket.leaves > 0 ? 3 : roles.size();
    if (wanted_of_.try_emplace(transfer.bucket, wanted).first->second !=
        wanted) {
      return Cannot("sums a bucket in two ways");
    }
    CheckReduction(step, bucket);
  }

  void CheckReduction(const Step& step, const Bucket& bucket) {
    const Transfer& transfer = *step.transfer;
    const std::vector<int>& group =
        plan_.communicators[bucket.communicator].ranks;
    if (wiring_.GroupOf(step).ranks != group) {
      return Cannot("reduces a bucket with others than its group");
    }
    const int64_t ranks = static_cast<int64_t>(group.size());
    const DType wire = bucket.wire.value_or(bucket.dtype);
    DType dtype = wire;
    int64_t count = bucket.total;
    bool any_op = ranks == 1;
    switch (step.role) {
      case Role::kGatherParameters:
        dtype = bucket.dtype;
        count = bucket.flags_offset / ranks;
        any_op = true;
        break;
      case Role::kExchange:
        dtype = bucket.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
        count = bucket.flags_offset;
        any_op = true;
        break;
      case Role::kGatherSums:
        count = bucket.flags_offset / ranks;
        any_op = true;
        break;
      case Role::kReduceFlags:
        count = static_cast<int64_t>(bucket.slots.size());
        // A flag other than 0 says that a rank contributed.
        any_op |= transfer.op == ReduceOp::kSum ||
                  transfer.op == ReduceOp::kMean ||
                  transfer.op == ReduceOp::kMax;
        break;
      default: count = bucket.sharded ? bucket.flags_offset : bucket.total;
    }
    if (transfer.kind == TransferKind::kAllReducePairs) {
      dtype = bucket.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
      any_op = true;
    }
    // See elements.h.
    if (bucket.announced && !bucket.sharded && bucket.leaves == 0) {
      dtype = transfer.dtype;
      any_op = true;
    }
    if (transfer.dtype != dtype || CountIn(transfer) != count) {
      return Cannot("reduces a bucket of another type");
    }
    if (!any_op && transfer.op != bucket.op) {
      Cannot("reduces a bucket with another operator");
    }
  }

  void ReadPipeline(const Lane& lane, Step& step, int& collectives) {
    const Transfer& transfer = *step.transfer;
    if (IsPointToPoint(transfer.kind)) {
      step.role =
          transfer.kind == TransferKind::kSend ? Role::kSend : Role::kReceive;
      return;
    }
    if (lane.name != "shared" || transfer.kind != TransferKind::kAllReduce) {
      return Cannot("has a collective that nothing runs in a pipeline lane");
    }
    const int shared = collectives++;
    const int other = expected_.SharesWith(rank_);
    if (other < 0 || shared >= static_cast<int>(plan_.pipeline.shared.size())) {
      return Cannot("sums a shared parameter that it does not have");
    }
    step.role = Role::kSharedSum;
    step.parameter = expected_.SharedOn(rank_, shared);
    const Parameter& parameter = plan_.parameters[step.parameter];
    int64_t count = 1;
    for (const int64_t extent : parameter.shape) count *= extent;
    if (transfer.dtype != parameter.dtype || CountIn(transfer) != count ||
        transfer.op != ReduceOp::kSum) {
      return Cannot("sums a shared parameter of another type");
    }
  }

  void CheckBuckets() {
    for (size_t b = 0; b < plan_.buckets.size(); ++b) {
      const int bucket = static_cast<int>(b);
      const std::vector<int>& group =
          plan_.communicators[plan_.buckets[b].communicator].ranks;
      const bool holds =
          std::find(group.begin(), group.end(), rank_) != group.end();
      const auto found = in_bucket_.find(bucket);
      if (holds && (found == in_bucket_.end() ||
                    found->second.size() != wanted_of_[bucket])) {
        return Cannot("does not reduce a bucket, or not all of it");
      }
    }
  }

  // --- Tasks ---

  void ReadTasks() {
    if (!expected_.has_pipeline() && !of_rank_.tasks.empty()) {
      return Cannot("has tasks without a pipeline");
    }
    for (size_t i = 0; i < of_rank_.tasks.size() && !fault_; ++i) {
      const Task& task = of_rank_.tasks[i];
      const Pass pass{task.stage, task.micro_batch};
      if (task.stage < 0 || task.stage >= expected_.stages() ||
          expected_.RankOfStage(expected_.ReplicaOf(rank_), task.stage) !=
              rank_) {
        return Cannot("has a task of another rank's stage");
      }
      if (task.micro_batch < 0 ||
          task.micro_batch >= expected_.micro_batches()) {
        return Cannot("has a task of a micro-batch that does not exist");
      }
      const int number = static_cast<int>(i);
      bool is_new = true;
      if (task.work == Work::kForward) {
        is_new = forward_.emplace(pass, number).second;
      }
      if (IsGradient(task.work)) {
        is_new = gradient_.emplace(pass, number).second;
      }
      if (IsLast(task.work)) {
        is_new = last_.emplace(pass, number).second && is_new;
      }
      if (!is_new) return Cannot("computes a pass twice");
    }
  }

  void CheckTasks() {
    for (int s = 0; s < expected_.stages() && !fault_; ++s) {
      if (expected_.RankOfStage(expected_.ReplicaOf(rank_), s) != rank_) {
        continue;
      }
      for (int m = 0; m < expected_.micro_batches() && !fault_; ++m) {
        CheckPasses({s, m});
      }
    }
  }

  void CheckPasses(const Pass& pass) {
    const auto forward = forward_.find(pass);
    const auto gradient = gradient_.find(pass);
    const auto last = last_.find(pass);
    if (forward == forward_.end() || gradient == gradient_.end() ||
        last == last_.end()) {
      return Cannot("lacks a pass");
    }
    if (forward->second > gradient->second || gradient->second > last->second) {
      return Cannot("computes the passes of a micro-batch in a wrong order");
    }
    const std::vector<Step>& steps = wiring_.steps();
    std::vector<int> rereads;
    for (const int task : {forward->second, gradient->second}) {
      const std::vector<int>& inputs = steps[Number(task)].inputs;
      rereads.insert(rereads.end(), inputs.begin(), inputs.end());
    }
    wiring_.steps()[Number(last->second)].rereads = std::move(rereads);
    CheckInput(Flow::kForward, pass, forward->second);
    CheckInput(Flow::kGradient, pass, gradient->second);
    const auto& outputs = steps[Number(last->second)].outputs;
    if (last->second != gradient->second && !outputs.empty()) {
      Cannot("sends the result of a pass that has none");
    }
  }

  int Number(int task) const { return wiring_.TaskStep(rank_, task); }

  // Checks the messages to and from a task.
  void CheckInput(Flow flow, const Pass& pass, int task) {
    const auto [stage, micro_batch] = pass;
    const int step = flow == Flow::kForward ? 1 : -1;
    const int source = stage - step;
    const std::vector<Step>& steps = wiring_.steps();
    CheckParts(flow, std::min(stage, source), RankOf(source),
               steps[Number(task)].inputs);
    CheckParts(flow, std::min(stage, stage + step), RankOf(stage + step),
               steps[Number(task)].outputs);
    if (RankOf(source) != rank_) return;
    const auto& passes = flow == Flow::kForward ? forward_ : gradient_;
    const auto feeds = passes.find({source, micro_batch});
    if (feeds == passes.end() || feeds->second > task) {
      Cannot("has a task before the local task that feeds it");
    }
  }

  // -1 if there is no such stage.
  int RankOf(int stage) const {
    return stage < 0 || stage >= expected_.stages()
               ? -1
               : expected_.RankOfStage(expected_.ReplicaOf(rank_), stage);
  }

  void CheckParts(Flow flow, int boundary, int other,
                  const std::vector<int>& messages) {
    if (other == -1 || other == rank_) {
      if (!messages.empty()) {
        Cannot("has a message for a task that needs none");
      }
      return;
    }
    const std::vector<TensorType>& parts = expected_.Parts(flow, boundary);
    if (messages.size() != parts.size()) {
      return Cannot("has not each part of a message once");
    }
    for (size_t k = 0; k < parts.size(); ++k) {
      Step& message = wiring_.steps()[messages[k]];
      message.part = static_cast<int>(k);
      const Transfer& transfer = *message.transfer;
      if (transfer.dtype != parts[k].dtype ||
          transfer.shape != parts[k].shape) {
        return Cannot("has a part of another type");
      }
      if (k > 0 &&
          transfer.tag == wiring_.steps()[messages[k - 1]].transfer->tag) {
        return Cannot("has two parts with one tag");
      }
    }
  }

  // --- Messages ---

  void ConnectMessages() {
    std::vector<Step>& steps = wiring_.steps();
    for (size_t i = 0; i < of_rank_.tasks.size(); ++i) {
      const Task& task = of_rank_.tasks[i];
      if (task.work == Work::kBackwardWeight) continue;  // has no input
      const int number = Number(static_cast<int>(i));
      for (const int need : steps[number].needs) {
        if (steps[need].role != Role::kReceive) continue;
        if (steps[need].needed_by == number) continue;  // listed twice
        if (steps[need].needed_by != kNone) {
          return Cannot("has two tasks for one message");
        }
        steps[need].needed_by = number;
        steps[number].inputs.push_back(need);
      }
    }
    for (const auto& ref : of_rank_.launch_order) {
      const int number = wiring_.TransferStep(rank_, ref);
      if (steps[number].role != Role::kSend) continue;
      if (steps[number].transfer->after_task < 0) {
        return Cannot("sends what no task makes");
      }
      const int task = Number(steps[number].transfer->after_task);
      steps[number].made_by = task;
      steps[task].outputs.push_back(number);
    }
    for (size_t i = 0; i < of_rank_.tasks.size(); ++i) {
      Step& task = steps[Number(static_cast<int>(i))];
      SortByTag(task.inputs);
      SortByTag(task.outputs);
    }
  }

  void SortByTag(std::vector<int>& messages) {
    const std::vector<Step>& steps = wiring_.steps();
    std::sort(messages.begin(), messages.end(), [&](int a, int b) {
      return std::tie(steps[a].transfer->tag, a) <
             std::tie(steps[b].transfer->tag, b);
    });
  }

  void CheckMessages() {
    int messages = 0;
    for (const Lane& lane : of_rank_.lanes) {
      if (lane.kind != LaneKind::kPipeline) continue;
      for (const Transfer& transfer : lane.transfers) {
        messages += IsPointToPoint(transfer.kind) ? 1 : 0;
      }
    }
    std::map<int, std::tuple<TransferKind, DType, std::vector<int64_t>>> use;
    for (const TransferRef& ref : of_rank_.launch_order) {
      const Step& step = wiring_.steps()[wiring_.TransferStep(rank_, ref)];
      if (step.role != Role::kSend && step.role != Role::kReceive) continue;
      const Transfer& transfer = *step.transfer;
      if (step.role == Role::kReceive && step.needed_by == kNone) {
        return Cannot("receives what no task waits for");
      }
      if (transfer.buffer < 0 || transfer.buffer >= messages) {
        return Cannot("has a message without a buffer, or beyond all");
      }
      const std::tuple used(transfer.kind, transfer.dtype, transfer.shape);
      if (use.emplace(transfer.buffer, used).first->second != used) {
        return Cannot("has a buffer of two types, or of both directions");
      }
    }
  }

  const Expected& expected_;
  Wiring& wiring_;
  const Plan& plan_;
  const int rank_;
  const RankPlan& of_rank_;
  std::optional<Fault> fault_;
  std::map<Pass, int> forward_;
  std::map<Pass, int> gradient_;
  std::map<Pass, int> last_;
  std::map<int, std::set<Role>> in_bucket_;
  std::map<int, size_t> wanted_of_;
};

}  // namespace

std::optional<Fault> AssignRoles(const Expected& expected, Wiring& wiring) {
  if (!expected.fault().empty()) return Fault{Fate::kCannot, expected.fault()};
  for (size_t rank = 0; rank < wiring.plan().ranks.size(); ++rank) {
    const std::optional<Fault> fault =
        OfRank(expected, wiring, static_cast<int>(rank)).Assign();
    if (fault) return fault;
  }
  return std::nullopt;
}

}  // namespace lockstep::plan::oracle
