#include "tests/plan/mutation/halo_plans.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep::plan {
namespace {

// Blocks of sizes 2, 3, 4, 2, ... in each dimension that an axis cuts. The
// shape is that of uncut dimensions; extents of cut ones are ignored.
HaloTensor BlocksOf(HaloTensor tensor, const Mesh& mesh, int rank) {
  const std::vector<int> coordinates = mesh.CoordinatesOf(rank);
  for (const HaloDim& dim : tensor.dims) {
    if (dim.axis.empty()) continue;
    tensor.shape[dim.dim] = 2 + coordinates[mesh.AxisIndex(dim.axis)] % 3;
  }
  return tensor;
}

void DeclareHalo(const std::string& name,
                 const std::vector<HaloTensor>& tensors, PlanInput* input) {
  const int world = input->mesh.WorldSize();
  input->halos.resize(world);
  for (int rank = 0; rank < world; ++rank) {
    HaloSpec spec{name, {}};
    for (const HaloTensor& tensor : tensors) {
      spec.tensors.push_back(BlocksOf(tensor, input->mesh, rank));
    }
    input->halos[rank].push_back(std::move(spec));
  }
}

PlanInput MeshInput(std::vector<MeshAxis> axes) {
  PlanInput input{.mesh = {std::move(axes)}};
  input.registrations.assign(
      input.mesh.WorldSize(),
      {{.name = "w", .shape = {16, 3}}, {.name = "b", .shape = {5}}});
  return input;
}

void AddHaloPlan(const std::string& name, const PlanInput& input,
                 std::vector<GoodPlan>* plans) {
  absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << name << ": " << plan.status();
  plans->push_back({name, *std::move(plan)});
}

HaloDim Cut(int dim, const std::string& axis, int64_t low, int64_t high,
            HaloEdge edge, double constant = 0) {
  return {dim, axis, low, high, edge, constant};
}

}  // namespace

std::vector<GoodPlan> GoodHaloPlans() {
  std::vector<GoodPlan> plans;
  for (const HaloEdge edge : kAllHaloEdges) {
    for (const int ranks : {2, 3}) {
      PlanInput line = MeshInput({{"lat", ranks}});
      DeclareHalo("u", {{DType::kF32, {1}, {Cut(0, "lat", 2, 1, edge, 1)}}},
                  &line);
      AddHaloPlan(absl::StrFormat("lat=%d, %s", ranks, Name(edge)), line,
                  &plans);
    }
    PlanInput wide = MeshInput({{"lat", 3}});
    DeclareHalo("u", {{DType::kI16, {1, 2}, {Cut(0, "lat", 5, 4, edge, -1)}}},
                &wide);
    AddHaloPlan(absl::StrFormat("wide, %s", Name(edge)), wide, &plans);
  }

  PlanInput ring = MeshInput({{"lat", 1}, {"lon", 2}});
  DeclareHalo("u",
              {{DType::kF32,
                {1, 1},
                {Cut(0, "lat", 1, 1, HaloEdge::kReflect),
                 Cut(1, "lon", 1, 1, HaloEdge::kPeriodic)}}},
              &ring);
  AddHaloPlan("two ranks in a ring", ring, &plans);

  PlanInput globe = MeshInput({{"lat", 2}, {"lon", 2}});
  DeclareHalo("winds",
              {{DType::kF32,
                {1, 1},
                {Cut(0, "lat", 1, 2, HaloEdge::kConstant, 7),
                 Cut(1, "lon", 1, 1, HaloEdge::kPeriodic)}},
               {DType::kU8,
                {2, 1},
                {Cut(1, "lon", 1, 0, HaloEdge::kReplicate),
                 Cut(0, "", 1, 1, HaloEdge::kZero)}}},
              &globe);
  DeclareHalo("mask",
              {{DType::kBool, {1}, {Cut(0, "lon", 1, 1, HaloEdge::kPeriodic)}}},
              &globe);
  AddHaloPlan("two tensors, one cut once", globe, &plans);

  PlanInput replicas = MeshInput({{"data", 2}, {"lat", 3}});
  for (const char* name : {"u", "v"}) {
    DeclareHalo(name,
                {{DType::kF64,
                  {1, 2},
                  {Cut(0, "lat", 1, 2, HaloEdge::kReplicate),
                   Cut(1, "", 2, 2, HaloEdge::kPeriodic)}}},
                &replicas);
  }
  AddHaloPlan("two exchanges of two replicas", replicas, &plans);

  PlanInput alone = MeshInput({{"data", 2}});
  DeclareHalo("alone",
              {{DType::kF32, {3}, {Cut(0, "", 2, 1, HaloEdge::kReflect)}}},
              &alone);
  AddHaloPlan("one rank alone", alone, &plans);

  for (const ScheduleShape& shape : AllShapes(2, 2, 1)) {
    if (shape.stages() != 2 || shape.micro_batches != 2) continue;
    PlanInput pipeline{.mesh = {{{"lat", 2}, {"pipe", 2}}},
                       .pipeline = {.schedule = shape.kind,
                                    .micro_batches = shape.micro_batches}};
    pipeline.pipeline.activations = {{{{DType::kF32, {4}}}}};
    pipeline.registrations.resize(4);
    for (int rank = 0; rank < 4; ++rank) {
      pipeline.registrations[rank] = {{.name = absl::StrCat("w", rank % 2),
                                       .shape = {8},
                                       .axes = {"lat"},
                                       .stage = rank % 2}};
    }
    DeclareHalo(
        "u", {{DType::kBF16, {1}, {Cut(0, "lat", 1, 1, HaloEdge::kPeriodic)}}},
        &pipeline);
    AddHaloPlan(absl::StrFormat("pipeline %s", Name(shape.kind)), pipeline,
                &plans);
  }
  return plans;
}

}  // namespace lockstep::plan
