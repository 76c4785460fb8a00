#include "plan/verify/values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "plan/pipeline/shared.h"
#include "plan/schedule/pipeline_shape.h"
#include "plan/verify/pipelines.h"
#include "protocol/tensor_type.h"

namespace lockstep::plan {
namespace {

// A result that another stage consumes.
struct PassResult {
  bool is_gradient = false;
  int stage = -1;
  int micro_batch = -1;
  bool operator==(const PassResult&) const = default;
};

std::optional<PassResult> PassOf(const Task& task) {
  if (task.work == Work::kBackwardWeight) return std::nullopt;
  return PassResult{task.work != Work::kForward, task.stage, task.micro_batch};
}

// The pass that produces the input of this one; none for the first.
std::optional<PassResult> SourceOf(const PassResult& pass, int stages) {
  const int stage = pass.stage + (pass.is_gradient ? 1 : -1);
  if (stage < 0 || stage >= stages) return std::nullopt;
  return PassResult{pass.is_gradient, stage, pass.micro_batch};
}

std::string Text(const PassResult& pass) {
  return absl::StrFormat("%s of stage %d, micro-batch %d",
                         pass.is_gradient ? "gradient" : "forward", pass.stage,
                         pass.micro_batch);
}

// --- Messages ---------------------------------------------------------------

class MessageCheck {
 public:
  MessageCheck(const Plan& plan, const Pipelines& pipelines,
               Diagnostics& diagnostics)
      : plan_(plan), pipelines_(pipelines), diagnostics_(diagnostics) {}

  void Run(const Traffic& traffic) {
    for (const auto& [key, channel] : traffic.channels) {
      for (size_t k = 0; k < channel.sends.size(); ++k) {
        sender_of_[channel.receives[k]] = channel.sends[k];
      }
    }
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      if (diagnostics_.full()) return;
      rank_ = static_cast<int>(rank);
      awaited_.clear();
      for (const Task& task : plan_.ranks[rank].tasks) CheckTask(task);
      CheckAllAwaited();
    }
  }

 private:
  template <typename... Args>
  bool Find(const absl::FormatSpec<Args...>& format, const Args&... args) {
    diagnostics_.Add(Rule::kValues, {rank_}, absl::StrFormat(format, args...));
    return false;
  }

  const Lane& LaneOf(const TransferRef& ref) const {
    return plan_.ranks[rank_].lanes[ref.lane];
  }
  const Transfer& At(const TransferRef& ref) const {
    return LaneOf(ref).transfers[ref.index];
  }

  void CheckTask(const Task& task) {
    const std::optional<PassResult> pass = PassOf(task);
    const std::optional<PassResult> source =
        pass.has_value() ? SourceOf(*pass, pipelines_.stages()) : std::nullopt;
    std::vector<const Transfer*> arrived;
    for (const TransferRef& ref : task.after) {
      if (At(ref).kind != TransferKind::kRecv) continue;
      if (!Brings(ref, task, source)) return;
      awaited_.insert(ref);
      arrived.push_back(&At(ref));
    }
    if (!arrived.empty()) {
      CheckParts(task, *source, arrived);
    } else if (source.has_value() &&
               pipelines_.HolderOf(source->stage, rank_) != rank_) {
      Find("the %s needs the %s, which no transfer brings before it",
           Describe(task), Text(*source));
    }
  }

  // Whether the receive matches a send of the result of the task's source.
  bool Brings(const TransferRef& receive, const Task& task,
              const std::optional<PassResult>& source) {
    const PlanNode& send = sender_of_.at({rank_, receive});
    const int made_by = plan::At(plan_, send).after_task;
    std::optional<PassResult> brought;
    if (made_by >= 0) brought = PassOf(plan_.ranks[send.rank].tasks[made_by]);
    if (!brought.has_value() || brought != source) {
      return Find(
          "the %s waits for transfer %d of lane %s, which brings %s",
          Describe(task), receive.index, LaneOf(receive).name,
          brought ? "the " + Text(*brought) : std::string("nothing computed"));
    }
    const int holder = pipelines_.HolderOf(source->stage, rank_);
    if (send.rank == holder) return true;
    return Find(
        "the %s waits for transfer %d of lane %s, which brings the %s "
        "from rank %d: in its replica rank %d has that stage",
        Describe(task), receive.index, LaneOf(receive).name, Text(*brought),
        send.rank, holder);
  }

  // Each part exactly once: a task identifies parts by their tags.
  void CheckParts(const Task& task, const PassResult& source,
                  const std::vector<const Transfer*>& arrived) {
    const int boundary = std::min(task.stage, source.stage);
    Activation message = ActivationAt(plan_.pipeline, boundary);
    if (source.is_gradient) message = GradientOf(message);
    std::multiset<std::pair<uint64_t, std::string>> expected;
    for (size_t i = 0; i < message.parts.size(); ++i) {
      // The tags of a valid spec are in range.
      const auto tag = TagOf(plan_.pipeline, {.boundary = boundary,
                                              .micro_batch = task.micro_batch,
                                              .is_gradient = source.is_gradient,
                                              .part = static_cast<int>(i)});
      expected.emplace(tag.value_or(0), TypeText(message.parts[i]));
    }
    std::multiset<std::pair<uint64_t, std::string>> parts;
    for (const Transfer* transfer : arrived) {
      parts.emplace(transfer->tag,
                    TypeText(TensorType{transfer->dtype, transfer->shape}));
    }
    if (parts == expected) return;
    Find("the %s needs %s, but is brought %s", Describe(task), Text(expected),
         Text(parts));
  }

  // "f32[4] with tag 3 + i32[2] with tag 4".
  static std::string Text(
      const std::multiset<std::pair<uint64_t, std::string>>& parts) {
    std::string text;
    for (const auto& [tag, type] : parts) {
      absl::StrAppendFormat(&text, "%s%s with tag %d",
                            text.empty() ? "" : " + ", type, tag);
    }
    return text;
  }
  static std::string Text(const PassResult& pass) { return plan::Text(pass); }

  void CheckAllAwaited() {
    for (const TransferRef& ref : plan_.ranks[rank_].launch_order) {
      if (LaneOf(ref).kind != LaneKind::kPipeline ||
          At(ref).kind != TransferKind::kRecv || awaited_.contains(ref)) {
        continue;
      }
      Find("transfer %d of lane %s (%s) is waited for by no task", ref.index,
           LaneOf(ref).name, Describe(At(ref)));
      return;
    }
  }

  const Plan& plan_;
  const Pipelines& pipelines_;
  Diagnostics& diagnostics_;
  std::map<PlanNode, PlanNode> sender_of_;  // by receive
  int rank_ = 0;                            // being checked
  std::set<TransferRef> awaited_;  // the receives that its tasks wait for
};

// --- Shared parameters ------------------------------------------------------

// The transfer that reads a bucket's gradients, on a rank that has the bucket.
std::optional<TransferRef> ReductionOf(const Plan& plan, int rank, int bucket) {
  const auto takes = [&](TransferKind kind) {
    if (plan.buckets[bucket].leaves > 0) {
      return kind == TransferKind::kAllToAll ||
             kind == TransferKind::kAllReducePairs;
    }
    return kind == (plan.buckets[bucket].sharded ? TransferKind::kReduceScatter
                                                 : TransferKind::kAllReduce);
  };
  for (const TransferRef& ref : plan.ranks[rank].launch_order) {
    const Transfer& transfer = At(plan, {rank, ref});
    if (transfer.bucket == bucket && takes(transfer.kind)) return ref;
  }
  return std::nullopt;
}

class SharedCheck {
 public:
  SharedCheck(const Plan& plan, const Pipelines& pipelines,
              Diagnostics& diagnostics)
      : plan_(plan),
        pipelines_(pipelines),
        shared_(plan),
        diagnostics_(diagnostics) {}

  void Run() {
    std::vector<std::pair<int, int>> ends;
    for (const std::vector<int>& replica : pipelines_.replicas()) {
      ends.emplace_back(
          pipelines_.HolderOf(0, replica[0]),
          pipelines_.HolderOf(pipelines_.stages() - 1, replica[0]));
    }
    if (absl::Status known = shared_.Check(ends); !known.ok()) {
      return diagnostics_.Add(Rule::kValues, {}, std::string(known.message()));
    }
    std::map<int, int> partner_of;
    for (const auto& [first, last] : ends) {
      if (first == last) continue;
      partner_of[first] = last;
      partner_of[last] = first;
    }
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      if (diagnostics_.full()) return;
      rank_ = static_cast<int>(rank);
      const auto partner = partner_of.find(rank_);
      CheckRank(partner == partner_of.end() ? -1 : partner->second);
    }
  }

 private:
  template <typename... Args>
  void Find(const absl::FormatSpec<Args...>& format, const Args&... args) {
    diagnostics_.Add(Rule::kValues, {rank_}, absl::StrFormat(format, args...));
  }

  const Transfer& At(const TransferRef& ref) const {
    return plan::At(plan_, {rank_, ref});
  }
  const std::string& LaneName(const TransferRef& ref) const {
    return plan_.ranks[rank_].lanes[ref.lane].name;
  }

  // `partner`: the rank with the other end; -1: the rank has neither end or
  // both.
  void CheckRank(int partner) {
    const size_t needed = partner < 0 ? 0 : shared_.size();
    size_t number = 0;
    for (const TransferRef& ref : plan_.ranks[rank_].launch_order) {
      if (plan_.ranks[rank_].lanes[ref.lane].kind != LaneKind::kPipeline ||
          IsPointToPoint(At(ref).kind)) {
        continue;
      }
      if (number == needed) {
        return Find(
            "transfer %d of lane %s (%s) is a collective that the pipeline "
            "does not need",
            ref.index, LaneName(ref), Describe(At(ref)));
      }
      if (!CheckSum(ref, number, partner)) return;
      ++number;
    }
    if (number == needed) return;
    Find("has no sum of the gradients of %s, which it shares with rank %d",
         plan_.pipeline.shared[number], partner);
  }

  bool CheckSum(const TransferRef& ref, size_t number, int partner) {
    const Transfer& sum = At(ref);
    const Parameter& parameter = shared_.On(number, rank_);
    std::vector<int> members = plan_.communicators[sum.communicator].ranks;
    std::sort(members.begin(), members.end());
    if (sum.kind != TransferKind::kAllReduce || sum.op != ReduceOp::kSum ||
        sum.dtype != parameter.dtype || sum.shape != parameter.shape ||
        ref.index != static_cast<int>(number) ||
        members != std::vector<int>{std::min(rank_, partner),
                                    std::max(rank_, partner)}) {
      Find(
          "transfer %d of lane %s (%s) is not the sum of the gradients of %s "
          "with rank %d, number %d of its lane",
          ref.index, LaneName(ref), Describe(sum), parameter.name, partner,
          number);
      return false;
    }
    const int last = LastTaskOf(parameter.stage);
    if (sum.after_task < last) {
      Find(
          "the sum of the gradients of %s comes before task %d, with which "
          "they are complete",
          parameter.name, last);
      return false;
    }
    return CheckBucketComesAfter(ref, shared_.BucketOn(number, rank_),
                                 parameter);
  }

  // The stage's last task; without a stage, the rank's.
  int LastTaskOf(int stage) const {
    const std::vector<Task>& tasks = plan_.ranks[rank_].tasks;
    int last = static_cast<int>(tasks.size()) - 1;
    while (stage >= 0 && last > 0 && tasks[last].stage != stage) --last;
    return last;
  }

  // A lane runs in order, so a dependency of an earlier transfer suffices.
  bool CheckBucketComesAfter(const TransferRef& sum, int bucket,
                             const Parameter& parameter) {
    const std::optional<TransferRef> reduction =
        ReductionOf(plan_, rank_, bucket);
    if (reduction.has_value()) {
      for (int i = 0; i <= reduction->index; ++i) {
        const std::vector<TransferRef>& after = At({reduction->lane, i}).after;
        if (std::find(after.begin(), after.end(), sum) != after.end()) {
          return true;
        }
      }
    }
    Find(
        "bucket %d does not come after the sum of the gradients of %s, which "
        "it has",
        bucket, parameter.name);
    return false;
  }

  const Plan& plan_;
  const Pipelines& pipelines_;
  const SharedParameters shared_;
  Diagnostics& diagnostics_;
  int rank_ = 0;  // being checked
};

}  // namespace

void CheckValues(const Plan& plan, const Traffic& traffic,
                 Diagnostics& diagnostics) {
  const Pipelines pipelines(plan);
  if (!pipelines.exist()) return;
  MessageCheck(plan, pipelines, diagnostics).Run(traffic);
  if (diagnostics.empty()) SharedCheck(plan, pipelines, diagnostics).Run();
}

}  // namespace lockstep::plan
