// Registrations and plans for the tests of this folder.

#ifndef LOCKSTEP_TESTS_PLAN_PLANS_H_
#define LOCKSTEP_TESTS_PLAN_PLANS_H_

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/compile.h"

namespace lockstep::plan {

using Registrations = std::vector<std::vector<Parameter>>;

// The same parameters on every rank.
inline PlanInput Alike(const Mesh& mesh, std::vector<Parameter> parameters) {
  PlanInput input{.mesh = mesh};
  input.registrations.assign(mesh.WorldSize(), std::move(parameters));
  return input;
}

inline Mesh MeshOf(std::vector<MeshAxis> axes) { return {std::move(axes)}; }

// Returns a random element of any vector, by reference.
template <typename Choices>
auto& OneOf(std::mt19937_64& random, Choices& choices) {
  return choices[random() % choices.size()];
}

inline Mesh RandomMesh(std::mt19937_64& random) {
  Mesh mesh;
  for (const char* name : {"data", "pipe", "model"}) {
    if (random() % 3 != 0) {
      mesh.axes.push_back({name, 1 + static_cast<int>(random() % 3)});
    }
  }
  std::shuffle(mesh.axes.begin(), mesh.axes.end(), random);
  return mesh;
}

inline Parameter RandomParameter(std::mt19937_64& random, const Mesh& mesh,
                                 int number) {
  Parameter parameter{.name = absl::StrCat("p", number)};
  for (size_t rank = random() % 3; rank > 0; --rank) {
    parameter.shape.push_back(static_cast<int64_t>(random() % 40));
  }
  const std::vector<DType> floats = {DType::kF16, DType::kBF16, DType::kF32,
                                     DType::kF64};
  parameter.dtype = OneOf(random, floats);
  parameter.op = random() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kMean;
  for (const MeshAxis& axis : mesh.axes) {
    if (random() % 2 == 0) parameter.axes.push_back(axis.name);
  }
  std::shuffle(parameter.axes.begin(), parameter.axes.end(), random);
  return parameter;
}

// A world in which each parameter belongs to some of the groups over its axes
// (all ranks of a group register it), in a different order on each rank.
inline PlanInput RandomInput(uint64_t seed) {
  std::mt19937_64 random(seed);
  PlanInput input{.mesh = RandomMesh(random)};
  input.policy = {.first_bytes_max = 1 + static_cast<int64_t>(random() % 4096),
                  .bytes_max = 1 + static_cast<int64_t>(random() % 16384)};
  if (seed % 3 == 0) {
    input.policy.wire_dtype = seed % 2 == 0 ? DType::kF16 : DType::kBF16;
    input.policy.error_feedback = seed % 4 == 0;
  }
  input.registrations.resize(input.mesh.WorldSize());
  const int parameters = static_cast<int>(random() % 30);
  for (int number = 0; number < parameters; ++number) {
    const Parameter parameter = RandomParameter(random, input.mesh, number);
    std::vector<std::string> axes = parameter.axes;
    if (axes.empty()) {
      for (const MeshAxis& axis : input.mesh.axes) axes.push_back(axis.name);
    }
    for (const std::vector<int>& group : input.mesh.GroupsOver(axes)) {
      if (random() % 4 == 0) continue;
      for (const int rank : group) {
        input.registrations[rank].push_back(parameter);
      }
    }
  }
  if (random() % 2 == 0) {
    for (std::vector<Parameter>& registered : input.registrations) {
      std::shuffle(registered.begin(), registered.end(), random);
    }
  }
  return input;
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_PLANS_H_
