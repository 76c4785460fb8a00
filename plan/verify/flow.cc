#include "plan/verify/flow.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plan/pipeline/shape.h"
#include "plan/words/tensor_type.h"

namespace lockstep::plan {
namespace {

// The part of a task that the order of the model fixes: pass and micro-batch.
struct Pass {
  bool is_gradient = false;
  int stage = -1;
  int micro_batch = -1;
  auto operator<=>(const Pass&) const = default;
};

std::optional<Pass> PassOf(const Task& task) {
  if (task.work == Work::kBackwardWeight) return std::nullopt;
  return Pass{task.work != Work::kForward, task.stage, task.micro_batch};
}

// The pass whose result this one needs from another stage, if any.
std::optional<Pass> SourceOf(const Pass& pass, int stages) {
  const int stage = pass.stage + (pass.is_gradient ? 1 : -1);
  if (stage < 0 || stage >= stages) return std::nullopt;
  return Pass{pass.is_gradient, stage, pass.micro_batch};
}

std::string Text(const Pass& pass) {
  return absl::StrFormat("%s of stage %d, micro-batch %d",
                         pass.is_gradient ? "gradient" : "forward", pass.stage,
                         pass.micro_batch);
}

class FlowCheck {
 public:
  FlowCheck(const Plan& plan, Findings& findings)
      : plan_(plan), findings_(findings) {
    for (const RankPlan& rank : plan.ranks) {
      for (const Task& task : rank.tasks) {
        stages_ = std::max(stages_, task.stage + 1);
      }
      std::vector<std::vector<std::optional<Pass>>>& of_rank =
          arrives_.emplace_back();
      for (const Lane& lane : rank.lanes) {
        of_rank.emplace_back(lane.transfers.size());
      }
    }
  }

  void Run(const Traffic& traffic) {
    for (const auto& [key, channel] : traffic.channels) {
      for (size_t k = 0; k < channel.sends.size(); ++k) {
        Note(channel.sends[k], channel.receives[k]);
      }
    }
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const std::vector<Task>& tasks = plan_.ranks[rank].tasks;
      computed_here_.clear();
      for (const Task& task : tasks) {
        if (const auto pass = PassOf(task)) computed_here_.insert(*pass);
      }
      for (const Task& task : tasks) CheckTask(static_cast<int>(rank), task);
    }
  }

 private:
  // What the receive brings.
  void Note(const Place& send, const Place& receive) {
    const int task = At(plan_, send).after_task;
    if (task < 0) return;
    arrives_[receive.rank][receive.ref.lane][receive.ref.index] =
        PassOf(plan_.ranks[send.rank].tasks[task]);
  }

  void CheckTask(int rank, const Task& task) {
    const std::optional<Pass> pass = PassOf(task);
    const std::optional<Pass> source =
        pass.has_value() ? SourceOf(*pass, stages_) : std::nullopt;
    std::vector<const Transfer*> arrived;
    for (const TransferRef& ref : task.after) {
      const Transfer& transfer =
          plan_.ranks[rank].lanes[ref.lane].transfers[ref.index];
      if (transfer.kind != TransferKind::kRecv) continue;
      const std::optional<Pass>& brought = arrives_[rank][ref.lane][ref.index];
      if (!brought.has_value() || brought != source) {
        findings_.Add(
            Rule::kFlow, {rank},
            absl::StrFormat("the %s waits for transfer %d of lane %s, which "
                            "brings %s",
                            Describe(task), ref.index,
                            plan_.ranks[rank].lanes[ref.lane].name,
                            brought ? "the " + Text(*brought)
                                    : std::string("nothing computed")));
        return;
      }
      arrived.push_back(&transfer);
    }
    if (!arrived.empty()) return CheckParts(rank, task, *source, arrived);
    if (!source.has_value() || computed_here_.contains(*source)) return;
    findings_.Add(Rule::kFlow, {rank},
                  absl::StrFormat("the %s needs the %s, which no transfer "
                                  "brings before it",
                                  Describe(task), Text(*source)));
  }

  // Every part of a message once.
  void CheckParts(int rank, const Task& task, const Pass& source,
                  const std::vector<const Transfer*>& arrived) {
    const PipelineSpec& spec = plan_.pipeline;
    if (!HasPipeline(spec) || spec.activations.empty()) return;
    const int boundary = std::min(task.stage, source.stage);
    const size_t known = spec.activations.size();
    if (known > 1 && static_cast<size_t>(boundary) >= known) return;
    Activation message = ActivationAt(spec, boundary);
    if (source.is_gradient) message = GradientOf(message);

    std::multiset<std::string> expected;
    for (const TensorType& part : message.parts)
      expected.insert(TypeText(part));
    std::multiset<std::string> types;
    std::set<uint64_t> tags;
    for (const Transfer* transfer : arrived) {
      types.insert(TypeText(TensorType{transfer->dtype, transfer->shape}));
      tags.insert(transfer->tag);
    }
    if (types == expected && tags.size() == arrived.size()) return;
    findings_.Add(
        Rule::kFlow, {rank},
        absl::StrFormat("the %s needs %s, but is brought %s", Describe(task),
                        TypeText(message), absl::StrJoin(types, "+")));
  }

  const Plan& plan_;
  Findings& findings_;
  int stages_ = 0;
  std::set<Pass> computed_here_;  // by the rank that is looked at
  // What each receive brings: by rank, lane, index.
  std::vector<std::vector<std::vector<std::optional<Pass>>>> arrives_;
};

}  // namespace

void CheckFlow(const Plan& plan, const Traffic& traffic, Findings& findings) {
  FlowCheck(plan, findings).Run(traffic);
}

}  // namespace lockstep::plan
