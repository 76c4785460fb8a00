#include "spec/elastic.h"

#include <algorithm>
#include <bit>

namespace lockstep {
namespace spec {

int ReplicasMax(const JobSpec& spec) {
  const int axis = spec.mesh.AxisIndex(spec.elastic.axis);
  return axis < 0 ? 1 : spec.mesh.axes[static_cast<size_t>(axis)].size;
}

int WorkersPerReplica(const JobSpec& spec) {
  return spec.mesh.WorldSize() / ReplicasMax(spec);
}

bool MayHaveReplicas(const JobSpec& spec, int replicas) {
  if (replicas < 1 || replicas > ReplicasMax(spec)) return false;
  return !IsElastic(spec) || spec.reproducible.leaves == 0 ||
         std::has_single_bit(static_cast<unsigned>(replicas));
}

int WorkersMin(const JobSpec& spec) {
  return std::max(WorkersPerReplica(spec), spec.elastic.min_workers);
}

int WorkersMax(const JobSpec& spec) {
  return spec.mesh.WorldSize() + spec.limits.spares;
}

}  // namespace spec

std::optional<Mesh> MeshOfWorld(const JobSpec& spec, int world) {
  const int replica = spec::WorkersPerReplica(spec);
  if (world % replica != 0) return std::nullopt;
  if (!spec::MayHaveReplicas(spec, world / replica)) return std::nullopt;
  Mesh mesh = spec.mesh;
  const int axis = mesh.AxisIndex(spec.elastic.axis);
  if (axis >= 0) mesh.axes[static_cast<size_t>(axis)].size = world / replica;
  return mesh;
}

}  // namespace lockstep
