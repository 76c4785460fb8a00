// Checkpoints of state that a plan divides over meshes: cut, sliced, replicated
// and held by a part of the ranks.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "client/state/checkpoint_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/state/saver_job.h"
#include "tests/support/sanitizers.h"

namespace lockstep::state {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

plan::StateDim CutOver(int64_t extent, std::vector<std::string> axes,
                       const Mesh& mesh) {
  int blocks = 1;
  for (const std::string& axis : axes) {
    blocks *= mesh.axes[static_cast<size_t>(mesh.AxisIndex(axis))].size;
  }
  return {std::move(axes), plan::EvenBounds(extent, blocks)};
}

std::vector<int> AllRanks(const Mesh& mesh) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.WorldSize(); ++rank) ranks.push_back(rank);
  return ranks;
}

// Each rank has the elements of its block that its coordinate of "data" says,
// as ranks that divide an optimizer's moments.
void SliceOverData(const Mesh& mesh, plan::StateTensor* tensor) {
  const auto axis = static_cast<size_t>(mesh.AxisIndex("data"));
  for (const int rank : tensor->ranks) {
    int64_t count = 1;
    for (const int64_t extent : plan::BlockOf(*tensor, mesh, rank).shape) {
      count *= extent;
    }
    const std::vector<int64_t> bounds =
        plan::EvenBounds(count, mesh.axes[axis].size);
    const auto at = static_cast<size_t>(mesh.CoordinatesOf(rank)[axis]);
    tensor->slices.push_back({bounds[at], bounds[at + 1] - bounds[at]});
  }
}

// The state of a model on a mesh with the axes data and model. Its tensors are
// the same on every mesh.
std::vector<plan::StateTensor> StateOn(const Mesh& mesh) {
  const std::vector<int> all = AllRanks(mesh);
  std::vector<plan::StateTensor> tensors = {
      {"weight",
       DType::kBF16,
       {CutOver(10, {"model"}, mesh), CutOver(6, {}, mesh)},
       all},
      {"bias", DType::kF32, {CutOver(7, {}, mesh)}, all},
      {"experts",
       DType::kF8E4M3,
       {CutOver(3, {}, mesh), CutOver(11, {"data", "model"}, mesh)},
       all},
      {"step", DType::kI64, {}, all},
      {"of one rank", DType::kU8, {CutOver(5, {}, mesh)}, {all.back()}}};
  plan::StateTensor moments = tensors[0];
  moments.name = "weight.moments";
  moments.dtype = DType::kF32;
  SliceOverData(mesh, &moments);
  plan::StateTensor bias_moments = tensors[1];
  bias_moments.name = "bias.moments";
  bias_moments.dtype = DType::kF64;
  SliceOverData(mesh, &bias_moments);
  tensors.push_back(std::move(moments));
  tensors.push_back(std::move(bias_moments));
  return tensors;
}

// A job on a mesh, and the memory of its ranks.
struct PlannedJob {
  PlannedJob(const Mesh& mesh, int64_t epoch, FileSystem* files) {
    const std::vector<plan::StateTensor> tensors = StateOn(mesh);
    std::vector<CheckpointJob> jobs;
    for (int rank = 0; rank < mesh.WorldSize(); ++rank) {
      std::vector<void*> pointers;
      for (const plan::StateTensor& tensor : tensors) {
        EXPECT_EQ(plan::Validate(tensor, mesh), absl::OkStatus());
        uint64_t elements = 0;
        for (const auto& held : plan::BoxesOf(tensor, mesh, rank)) {
          elements += checkpoint::ElementsOf(held.box.shape);
        }
        memory.push_back(std::make_unique<std::string>(
            elements * SizeOf(tensor.dtype), '\0'));
        pointers.push_back(elements == 0 ? nullptr : memory.back()->data());
      }
      auto planned = WithPlannedState(
          {.name = "digits", .epoch = epoch, .mesh = mesh, .rank = rank},
          tensors, pointers);
      EXPECT_TRUE(planned.ok()) << planned.status();
      jobs.push_back(*std::move(planned));
    }
    job = std::make_unique<SaverJob>(SaverJob::WithMemory{}, std::move(jobs),
                                     files);
    EXPECT_THAT(job->Open({.directory = "/digits"}), Each(absl::OkStatus()));
  }
  std::vector<std::unique_ptr<std::string>> memory;
  std::unique_ptr<SaverJob> job;
};

TEST(PlannedStateTest, IsLoadedOnAnyMesh) {
  MemoryFileSystem files;
  std::vector<Mesh> meshes;
  for (const auto& [data, model] : std::vector<std::pair<int, int>>{{1, 1},
                                                                    {2, 1},
                                                                    {1, 2},
                                                                    {3, 1},
                                                                    {2, 2},
                                                                    {5, 1},
                                                                    {3, 2},
                                                                    {1, 7},
                                                                    {2, 4},
                                                                    {4, 2},
                                                                    {8, 1}}) {
    meshes.push_back({{{"data", data}, {"model", model}}});
  }
  // AddressSanitizer sees all of them.
  if (kUnderThreadSanitizer) meshes.resize(5);
  int64_t step = 0;
  for (const Mesh& from : meshes) {
    ++step;
    {
      PlannedJob saved(from, 2 * step, &files);
      ASSERT_THAT(saved.job->Save(step), Each(absl::OkStatus()))
          << ToString(from);
    }
    for (const Mesh& to : meshes) {
      PlannedJob loaded(to, 2 * step + 1, &files);
      loaded.job->SetStep(99);
      ASSERT_THAT(loaded.job->Load(), Each(absl::OkStatus()))
          << ToString(from) << " to " << ToString(to);
      EXPECT_THAT(loaded.job->Different(step), IsEmpty())
          << ToString(from) << " to " << ToString(to);
    }
  }
}

TEST(PlannedStateTest, RefusesADtypeThatFilesCannotHave) {
  const Mesh mesh = {{{"data", 1}}};
  int number = 0;
  void* const memory[] = {&number};
  const auto refused =
      WithPlannedState({.name = "digits", .mesh = mesh},
                       {{"psi", DType::kC128, {}, {0}}}, memory);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::HasSubstr("tensor \"psi\" is c128"));
}

}  // namespace
}  // namespace lockstep::state
