#include "tests/plan/mutation/good_plans.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep::plan {
namespace {

enum class Kept {
  kNothing,
  kOfStages,
  kOfNoStage,
  kSeveralBuckets,
  kShared,
  kSharedOfStages,
  kEverywhere,
};
constexpr std::array kAllKept = {Kept::kNothing,   Kept::kOfStages,
                                 Kept::kOfNoStage, Kept::kSeveralBuckets,
                                 Kept::kShared,    Kept::kSharedOfStages,
                                 Kept::kEverywhere};
constexpr std::array kKeptNames = {
    "no parameters", "of stages",        "of no stage", "several buckets",
    "shared",        "shared of stages", "everywhere"};

enum class Sum { kWhole, kSharded, kLeaves, kPairs };
constexpr std::array kAllSums = {Sum::kWhole, Sum::kSharded, Sum::kLeaves,
                                 Sum::kPairs};
constexpr std::array kSumNames = {"all-reduced", "sharded", "leaves",
                                  "leaves in pairs"};

std::vector<Activation> ActivationsOf(int kind, int boundaries) {
  const TensorType f32{DType::kF32, {4}};
  const TensorType i32{DType::kI32, {2}};
  switch (kind) {
    case 0: return {{{f32}}};
    case 1: return {{{f32, f32}}};
    case 2: return {{{i32, f32}}};
    default:;
  }
  std::vector<Activation> each;
  for (int boundary = 0; boundary < boundaries; ++boundary) {
    each.push_back({{{DType::kF32, {4, 1 + boundary}}, f32}});
  }
  return each;
}

void SetSums(Sum sum, bool wire, PlanInput& input) {
  if (sum == Sum::kSharded) input.sync = SyncMode::kReduceScatter;
  if (sum == Sum::kLeaves || sum == Sum::kPairs) input.leaves = 4;
  if (sum == Sum::kPairs) {
    input.transports.assign(input.mesh.WorldSize(),
                            {.place = "host", .pairs_in_one_place = true});
  }
  if (wire) input.policy.wire_dtype = DType::kBF16;
}

class PipelineInputs {
 public:
  PipelineInputs(const ScheduleShape& shape, int data, bool pipe_first)
      : shape_(shape) {
    input_.mesh.axes = {{"data", data}, {"pipe", shape.ranks}};
    if (pipe_first) std::swap(input_.mesh.axes[0], input_.mesh.axes[1]);
    input_.pipeline = {.schedule = shape.kind,
                       .micro_batches = shape.micro_batches,
                       .virtual_stages = shape.virtual_stages};
    input_.registrations.resize(input_.mesh.WorldSize());
  }

  PlanInput Keep(Kept kept) {
    for (size_t rank = 0; rank < input_.registrations.size(); ++rank) {
      const int place = input_.mesh.CoordinatesOf(
          static_cast<int>(rank))[input_.mesh.AxisIndex("pipe")];
      KeepOn(kept, place, input_.registrations[rank]);
    }
    if (kept == Kept::kShared) input_.pipeline.shared = {"tied"};
    if (kept == Kept::kSharedOfStages)
      input_.pipeline.shared = {"tied", "also"};
    if (kept == Kept::kSeveralBuckets || kept == Kept::kEverywhere) {
      input_.policy.first_bytes_max = input_.policy.bytes_max = 256;
    }
    return input_;
  }

 private:
  void KeepOn(Kept kept, int place, std::vector<Parameter>& parameters) {
    const bool stages = kept != Kept::kNothing && kept != Kept::kOfNoStage &&
                        kept != Kept::kShared;
    for (int chunk = 0; chunk < shape_.virtual_stages && stages; ++chunk) {
      const int stage = StageOf(shape_, place, chunk);
      Add(absl::StrCat("w", stage), {16, 3}, stage, parameters);
      if (kept != Kept::kSeveralBuckets) continue;
      Add(absl::StrCat("v", stage), {9}, stage, parameters);
      parameters.back().op = ReduceOp::kSum;
    }
    if (kept == Kept::kOfNoStage) {
      Add(absl::StrCat("r", place), {16, 3}, -1, parameters);
      Add(absl::StrCat("q", place), {5}, -1, parameters);
    }
    if (kept == Kept::kEverywhere) {
      Add("everywhere", {5}, -1, parameters);
      parameters.back().axes.clear();
    }
    if (kept == Kept::kShared || kept == Kept::kSharedOfStages) {
      AddShared(kept, place, parameters);
    }
  }

  void AddShared(Kept kept, int place, std::vector<Parameter>& parameters) {
    const int last = shape_.stages() - 1;
    const bool has_first = place == RankOf(shape_, 0);
    const bool has_last = place == RankOf(shape_, last);
    if (!has_first && !has_last) return;
    const bool of_stage =
        kept == Kept::kSharedOfStages && has_first != has_last;
    Add("tied", {7, 2}, of_stage ? (has_first ? 0 : last) : -1, parameters);
    if (kept == Kept::kSharedOfStages) Add("also", {3}, -1, parameters);
  }

  static void Add(const std::string& name, std::vector<int64_t> shape,
                  int stage, std::vector<Parameter>& parameters) {
    parameters.push_back({.name = name,
                          .shape = std::move(shape),
                          .axes = {"data"},
                          .stage = stage});
  }

  const ScheduleShape shape_;
  PlanInput input_;
};

void Add(const PlanInput& input, const std::string& name,
         std::vector<GoodPlan>& plans) {
  absl::StatusOr<Plan> plan = Compile(input);
  // Leaves need a group whose size is a power of two.
  if (!plan.ok() && input.leaves > 0) return;
  ASSERT_TRUE(plan.ok()) << name << ": " << plan.status();
  plans.push_back({name, *std::move(plan)});
}

// The other choices follow from remainders of `number` by coprime divisors.
void AddPipeline(const ScheduleShape& shape, int data, size_t kept, int number,
                 std::vector<GoodPlan>& plans) {
  const size_t sum = static_cast<size_t>(number) % kAllSums.size();
  const int parts = number % 4;
  const bool wire = number % 5 == 0 && kAllSums[sum] != Sum::kLeaves &&
                    kAllSums[sum] != Sum::kPairs;
  PlanInput input =
      PipelineInputs(shape, data, number % 7 == 0).Keep(kAllKept[kept]);
  input.pipeline.activations = ActivationsOf(parts, shape.stages() - 1);
  SetSums(kAllSums[sum], wire, input);
  input.policy.error_feedback = wire && number % 2 == 0;
  Add(input,
      absl::StrCat(testing::PrintToString(shape), ", data=", data, ", ",
                   kKeptNames[kept], ", ", kSumNames[sum], ", parts ", parts),
      plans);
}

// Ranks announce their gradients; each dtype and op, with and without a wire.
void AddAnnounced(std::vector<GoodPlan>& plans) {
  for (const int ranks : {1, 2, 3}) {
    for (const bool wire : {false, true}) {
      PlanInput input{.mesh = {{{"data", ranks}}},
                      .sync = SyncMode::kNegotiated};
      if (wire) input.policy.wire_dtype = DType::kF16;
      input.registrations.assign(
          ranks, {{.name = "mean", .shape = {40}},
                  {.name = "sum", .shape = {5}, .op = ReduceOp::kSum},
                  {.name = "half", .shape = {70}, .dtype = DType::kBF16},
                  {.name = "double", .shape = {3, 3}, .dtype = DType::kF64}});
      Add(input,
          absl::StrCat("data=", ranks, ", announced", wire ? ", wire" : ""),
          plans);
    }
  }
}

// 16-bit floats, and parameters that are replicated on several ranks.
void AddReplicated(std::vector<GoodPlan>& plans) {
  for (size_t sum = 0; sum < kAllSums.size(); ++sum) {
    PlanInput input{.mesh = {{{"data", 2}, {"model", 2}}}};
    SetSums(kAllSums[sum], false, input);
    input.registrations.assign(
        input.mesh.WorldSize(),
        {{.name = "part", .shape = {50}, .axes = {"data"}},
         {.name = "same",
          .shape = {20},
          .axes = {"data"},
          .replicated_over = {"model"}},
         {.name = "half", .shape = {9'000}, .dtype = DType::kBF16}});
    Add(input, absl::StrCat("replicated, ", kSumNames[sum]), plans);
  }
}

}  // namespace

std::vector<GoodPlan> GoodPipelines() {
  std::vector<GoodPlan> plans;
  int number = 0;
  for (const ScheduleShape& shape : AllShapes(3, 3, 2)) {
    if (shape.stages() < 2) continue;
    for (const int data : {1, 2, 3}) {
      for (size_t kept = 0; kept < kAllKept.size(); ++kept) {
        AddPipeline(shape, data, kept, number++, plans);
      }
    }
  }
  return plans;
}

std::vector<GoodPlan> LargerPipelines() {
  std::vector<GoodPlan> plans;
  int number = 0;
  for (const ScheduleShape& shape : AllShapes(5, 8, 2)) {
    if (shape.ranks < 2 || shape.ranks * shape.micro_batches < 12) continue;
    const size_t kept = static_cast<size_t>(number) % kAllKept.size();
    AddPipeline(shape, 1 + number % 3, kept, number, plans);
    ++number;
  }
  return plans;
}

std::vector<GoodPlan> GoodPlainPlans() {
  std::vector<GoodPlan> plans;
  AddAnnounced(plans);
  AddReplicated(plans);
  const std::vector<std::vector<MeshAxis>> meshes = {
      {{"data", 1}}, {{"data", 2}}, {{"data", 3}}, {{"data", 2}, {"model", 2}}};
  for (const auto& mesh : meshes) {
    for (size_t sum = 0; sum < kAllSums.size(); ++sum) {
      for (const bool several : {false, true}) {
        PlanInput input{.mesh = {mesh}};
        SetSums(kAllSums[sum],
                several && (kAllSums[sum] == Sum::kWhole ||
                            kAllSums[sum] == Sum::kSharded),
                input);
        input.policy.error_feedback = input.policy.wire_dtype && sum == 0;
        if (several) {
          input.policy.first_bytes_max = input.policy.bytes_max = 64;
        }
        input.registrations.assign(
            input.mesh.WorldSize(),
            {{.name = "a", .shape = {16, 3}, .axes = {"data"}},
             {.name = "b", .shape = {5}, .op = ReduceOp::kSum},
             {.name = "c", .shape = {7}, .axes = {"data"}}});
        Add(input,
            absl::StrCat(ToString(input.mesh), ", ", kSumNames[sum],
                         several ? ", several buckets" : ""),
            plans);
      }
    }
  }
  return plans;
}

}  // namespace lockstep::plan
