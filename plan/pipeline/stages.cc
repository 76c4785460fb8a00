#include "plan/pipeline/stages.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "plan/schedule/pipeline_shape.h"

namespace lockstep::plan {
namespace {

constexpr int kNoStage = -1;

bool SharesParameters(const PipelineSpec& spec, const Flow& flow, int stage) {
  if (spec.shared.empty()) return false;
  return stage == 0 || stage == flow.schedule.shape.stages() - 1;
}

// The time when the gradients of shared parameters are summed.
int64_t LastEnd(const Flow& flow) {
  return *std::max_element(flow.ends.begin(), flow.ends.end());
}

}  // namespace

int StageOf(const Plan& plan, const Bucket& bucket) {
  if (bucket.slots.empty()) return kNoStage;
  const int stage = plan.parameters[bucket.slots[0].parameter].stage;
  for (const Slot& slot : bucket.slots) {
    if (plan.parameters[slot.parameter].stage != stage) return kNoStage;
  }
  return stage;
}

absl::Status SortByStage(const std::vector<Parameter>& parameters,
                         const PipelineSpec& spec, const Mesh& mesh,
                         std::vector<int>* order) {
  const auto last = std::max_element(
      parameters.begin(), parameters.end(),
      [](const Parameter& a, const Parameter& b) { return a.stage < b.stage; });
  if (last == parameters.end() || last->stage == kNoStage) {
    return absl::OkStatus();
  }
  if (!HasPipeline(spec)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("parameter %s is of stage %d, but the job has no "
                        "pipeline",
                        last->name, last->stage));
  }
  const absl::StatusOr<Flow> flow = FlowOf(spec, mesh);
  if (!flow.ok()) return flow.status();
  const int stages = flow->schedule.shape.stages();
  if (last->stage >= stages) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "parameter %s is of stage %d, but the pipeline has stages 0 to %d",
        last->name, last->stage, stages - 1));
  }
  const auto end = [&](int parameter) {
    const int stage = parameters[parameter].stage;
    if (stage == kNoStage) return std::numeric_limits<int64_t>::max();
    return SharesParameters(spec, *flow, stage) ? LastEnd(*flow)
                                                : flow->stage_ends[stage].at;
  };
  std::stable_sort(order->begin(), order->end(),
                   [&](int a, int b) { return end(a) < end(b); });
  return absl::OkStatus();
}

Completions::Completions(const Plan& plan, const Flow& flow,
                         const std::vector<int>& place)
    : plan_(plan),
      flow_(flow),
      place_(place),
      has_others_(plan.ranks.size(), false) {
  for (const Bucket& bucket : plan.buckets) {
    if (StageOf(plan, bucket) != kNoStage) continue;
    for (const int rank : plan.communicators[bucket.communicator].ranks) {
      has_others_[rank] = true;
    }
  }
}

StageEnd Completions::Of(const Bucket& bucket, int rank) const {
  if (flow_.ends.empty()) return {};
  const int stage = StageOf(plan_, bucket);
  const int place = place_[rank];
  const int last = static_cast<int>(flow_.schedule.ranks[place].size()) - 1;
  if (stage == kNoStage) return {last, flow_.ends[place]};
  if (SharesParameters(plan_.pipeline, flow_, stage)) {
    return {last, LastEnd(flow_)};
  }
  if (has_others_[rank]) return {last, flow_.ends[place]};
  return flow_.stage_ends[stage];
}

absl::Status Completions::CheckHolders() const {
  if (flow_.ends.empty()) return absl::OkStatus();
  for (const Bucket& bucket : plan_.buckets) {
    for (const Slot& slot : bucket.slots) {
      const Parameter& parameter = plan_.parameters[slot.parameter];
      if (parameter.stage == kNoStage) continue;
      for (const int rank : plan_.communicators[bucket.communicator].ranks) {
        if (RankOf(flow_.schedule.shape, parameter.stage) == place_[rank]) {
          continue;
        }
        return absl::InvalidArgumentError(absl::StrFormat(
            "parameter %s is of stage %d, which rank %d does not have",
            parameter.name, parameter.stage, rank));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan
