#include "plan/pipeline/shared.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "plan/schedule/pipeline_shape.h"

namespace lockstep::plan {
namespace {

bool Names(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The axes with a size above 1.
std::set<std::string> CuttingAxes(const Mesh& mesh,
                                  const std::vector<std::string>& names) {
  std::set<std::string> axes;
  for (const MeshAxis& axis : mesh.axes) {
    if (axis.size > 1 && (names.empty() || Names(names, axis.name))) {
      axes.insert(axis.name);
    }
  }
  return axes;
}

// Whether both ends have the same gradient after the sum and the reduction.
bool AreAlike(const Mesh& mesh, const Parameter& a, const Parameter& b) {
  const auto replicas = [](const Parameter& parameter) {
    return std::set<std::string>(parameter.replicated_over.begin(),
                                 parameter.replicated_over.end());
  };
  return a.shape == b.shape && a.dtype == b.dtype && a.op == b.op &&
         CuttingAxes(mesh, a.axes) == CuttingAxes(mesh, b.axes) &&
         replicas(a) == replicas(b);
}

}  // namespace

void DeclareSharedReplicas(const std::vector<int>& communicator_of,
                           Plan* plan) {
  const PipelineSpec& spec = plan->pipeline;
  if (!HasPipeline(spec) || spec.shared.empty()) return;
  if (!Validate(spec, plan->mesh).ok()) return;
  const ScheduleShape shape = ShapeOf(spec, plan->mesh);
  const int last = RankOf(shape, shape.stages() - 1);
  if (last == 0) return;
  const int axis = plan->mesh.AxisIndex(spec.axis);
  for (size_t i = 0; i < plan->parameters.size(); ++i) {
    Parameter& parameter = plan->parameters[i];
    if (!Names(spec.shared, parameter.name) || parameter.axes.empty() ||
        Names(parameter.axes, spec.axis) ||
        Names(parameter.replicated_over, spec.axis)) {
      continue;
    }
    // Not reduced over the axis: all ranks of the group have one coordinate on
    // it.
    const int rank = plan->communicators[communicator_of[i]].ranks[0];
    const int place = plan->mesh.CoordinatesOf(rank)[axis];
    if (place == 0 || place == last) {
      parameter.replicated_over.push_back(spec.axis);
    }
  }
}

SharedParameters::SharedParameters(const Plan& plan)
    : plan_(plan), places_(plan.pipeline.shared.size()) {
  const std::vector<std::string>& names = plan.pipeline.shared;
  if (names.empty()) return;
  for (size_t i = 0; i < names.size(); ++i) {
    index_[names[i]] = static_cast<int>(i);
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    for (const Slot& slot : bucket.slots) {
      const auto found = index_.find(plan.parameters[slot.parameter].name);
      if (found == index_.end()) continue;
      for (const int rank : plan.communicators[bucket.communicator].ranks) {
        places_[found->second][rank] = {static_cast<int>(b), slot.parameter};
      }
    }
  }
}

absl::Status SharedParameters::Check(
    const std::vector<std::pair<int, int>>& ends) const {
  for (size_t i = 0; i < places_.size(); ++i) {
    for (const auto& [first, last] : ends) {
      for (const int rank : {first, last}) {
        if (places_[i].contains(rank)) continue;
        return absl::InvalidArgumentError(absl::StrFormat(
            "pipeline.shared names %s, which rank %d, that has the first or "
            "the last stage, did not register",
            plan_.pipeline.shared[i], rank));
      }
      if (first == last) continue;
      const Parameter& a = On(i, first);
      const Parameter& b = On(i, last);
      const std::string& axis = plan_.pipeline.axis;
      if (a.axes.empty() || Names(a.axes, axis)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "pipeline.shared names %s, which is reduced over %s as well: its "
            "gradients would be added up twice; register it with the other "
            "axes of the mesh",
            a.name, axis));
      }
      if (AreAlike(plan_.mesh, a, b)) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "pipeline.shared names %s, which is %s on rank %d and %s on rank %d",
          a.name, Describe(a), first, Describe(b), last));
    }
  }
  return absl::OkStatus();
}

bool SharedParameters::AnyIn(const Bucket& bucket) const {
  if (index_.empty()) return false;
  for (const Slot& slot : bucket.slots) {
    if (index_.contains(plan_.parameters[slot.parameter].name)) return true;
  }
  return false;
}

}  // namespace lockstep::plan
