#include "client/checkpoint/weight_index.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/verify.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_folder.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

const std::vector<CutTensor>& Tensors() {
  static const auto* const tensors = new std::vector<CutTensor>{
      {"w", {DType::kBF16, {4, 6}}, {{{0, 0}, {4, 6}}}},
      {"cut", {DType::kF32, {4}}, {{{0}, {1}}, {{1}, {3}}}},
      {"\"b\"", {DType::kF64, {}}, {{{0}, {0}}, {{}, {}}}},
      {"empty", {DType::kF32, {0}}, {}}};
  return *tensors;
}

constexpr char kExpected[] = R"({
  "metadata": {
    "total_size": 56
  },
  "weight_map": {
    "\"b\"": "rank-1.safetensors",
    "w": "rank-0.safetensors"
  }
}
)";

TEST(WeightIndexTest, HasTheTensorsThatAreWholeInOneFile) {
  MemoryFileSystem files;
  Manifest manifest = WriteFolder(&files, "/c", Tensors(), 2);
  EXPECT_EQ(FormatWeightIndex(manifest), kExpected);
  // Other readers find a tensor by its name only.
  manifest.tensors[0].slices[0].stored_as = "w [0,0]";
  EXPECT_EQ(FormatWeightIndex(manifest),
            "{\n  \"metadata\": {\n    \"total_size\": 8\n  },\n"
            "  \"weight_map\": {\n    \"\\\"b\\\"\": "
            "\"rank-1.safetensors\"\n  }\n}\n");
}

TEST(WeightIndexTest, NoneIsWrittenIfNoTensorIsWhole) {
  MemoryFileSystem files;
  const Manifest manifest = WriteFolder(&files, "/c", {Tensors()[1]}, 2);
  EXPECT_EQ(FormatWeightIndex(manifest), "");
  ASSERT_EQ(WriteWeightIndex(&files, "/c", manifest), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(
      files.KindOf(absl::StrCat("/c/", kWeightIndexName)).status()));
}

TEST(WeightIndexTest, IsBesideEachCommittedManifest) {
  MemoryFileSystem files;
  Manifest manifest = WriteFolder(&files, "/a", Tensors(), 2);
  const AttemptFolder folder{{manifest.step, 0, 0},
                             "/" + FolderName({manifest.step, 0, 0})};
  ASSERT_EQ(files.Rename("/a", folder.path), absl::OkStatus());
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  ASSERT_EQ(Commit(&files, folder, manifest), absl::OkStatus());
  files.Crash();
  EXPECT_EQ(ReadWhole(&files, absl::StrCat(folder.path, "/", kWeightIndexName))
                .value(),
            kExpected);
  EXPECT_TRUE(Verify(&files, folder).wrong.empty());
}

}  // namespace
}  // namespace lockstep::checkpoint
