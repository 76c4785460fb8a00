#include "client/checkpoint/consolidate.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_folder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr char kTarget[] = "/model.safetensors";

// The bytes of every tensor are those of the checkpoint.
void ExpectHas(FileSystem* files, const WrittenFile& written,
               const std::vector<CutTensor>& tensors) {
  auto reader =
      SafetensorsReader::Open(files, kTarget, {.expected = written.hashes});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->VerifyAll(), absl::OkStatus());
  EXPECT_EQ((*reader)->header(), written.header);
  EXPECT_EQ(written.header.tensors.size(), tensors.size());
  for (const CutTensor& tensor : tensors) {
    const StoredTensor* found = (*reader)->Find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->type, tensor.type) << tensor.name;
    std::string bytes(found->bytes(), '?');
    ASSERT_TRUE((*reader)->Read(*found, 0, bytes.size(), bytes.data()).ok());
    EXPECT_TRUE(bytes == tensor.bytes) << tensor.name;
  }
}

TEST(ConsolidateTest, EveryTensorIsWholeInEveryDType) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const int ranks = 1 + random() % 8;
    MemoryFileSystem memory;
    std::vector<CutTensor> tensors;
    for (const DType dtype : kAllDTypes) {
      if (dtype == DType::kC128) continue;  // not in the format
      TensorType type{dtype, {}};
      for (uint64_t d = random() % 4; d > 0; --d) {
        type.shape.push_back(random() % 30 == 0 ? 0 : 1 + random() % 9);
      }
      tensors.push_back({"t." + std::string(Name(dtype)), type,
                         RandomSlices(type, ranks, &random)});
    }
    const Manifest manifest = WriteFolder(&memory, "/c", tensors, ranks);
    const auto written = Consolidate(&memory, "/c", manifest, kTarget);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_THAT(
        written->header.metadata,
        testing::IsSupersetOf({Pair("format", "pt"), Pair("step", "20")}));
    memory.Crash();  // file and name are durable
    ExpectHas(&memory, *written, tensors);
  }
}

// Tensors of several pieces, whose rows are longer than a piece, as long, and
// far shorter.
TEST(ConsolidateTest, LargeTensorsAreReadInPieces) {
  MemoryFileSystem memory;
  FaultyFileSystem files(&memory);
  const int64_t piece = kPieceBytes;
  const auto halves = [](const std::string& name, TensorType type, size_t d) {
    TensorBox first = WholeOf(type), second = first;
    first.shape[d] /= 2;
    second.begin[d] = first.shape[d];
    second.shape[d] -= first.shape[d];
    return CutTensor{name, type, {first, second}};
  };
  const std::vector<CutTensor> tensors = {
      halves("long", {DType::kU8, {2, 2, piece + 12'345}}, 1),
      halves("equal", {DType::kBF16, {1, piece / 2}}, 1),
      halves("short", {DType::kF32, {700, 3, 500}}, 2),
  };
  const Manifest manifest = WriteFolder(&memory, "/c", tensors, 2);
  const auto written = Consolidate(&files, "/c", manifest, kTarget);
  ASSERT_TRUE(written.ok()) << written.status();
  ExpectHas(&memory, *written, tensors);
  // Each block is read about once.
  const uint64_t stored =
      manifest.files[0].hashes.bytes + manifest.files[1].hashes.bytes;
  EXPECT_LT(files.bytes_read(), stored + 4 * kHashBlockBytes);
}

class ConsolidateErrorTest : public testing::Test {
 protected:
  absl::StatusCode CodeOfTarget() {
    return memory_.KindOf(kTarget).status().code();
  }

  const std::vector<CutTensor> tensors_ = {
      {"w", {DType::kF32, {4, 6}}, {{{0, 0}, {4, 2}}, {{0, 2}, {4, 4}}}}};
  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
  Manifest manifest_ = WriteFolder(&memory_, "/c", tensors_, 2);
};

TEST_F(ConsolidateErrorTest, AnExistingFileIsKept) {
  ASSERT_TRUE(
      memory_.Open(kTarget, OpenMode::kCreate).value()->Append("mine").ok());
  EXPECT_EQ(Consolidate(&files_, "/c", manifest_, kTarget).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadWhole(&memory_, kTarget).value(), "mine");
}

TEST_F(ConsolidateErrorTest, DamageIsNamedAndLeavesNoFile) {
  const std::string path = "/c/rank-1.safetensors";
  std::string bytes = ReadWhole(&memory_, path).value();
  bytes.back() ^= 1;
  ASSERT_TRUE(
      memory_.Open(path, OpenMode::kTruncate).value()->Append(bytes).ok());
  const absl::Status lost =
      Consolidate(&files_, "/c", manifest_, kTarget).status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(lost.message()),
              AllOf(HasSubstr(path), HasSubstr("tensor \"w\"")));
  EXPECT_EQ(CodeOfTarget(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(
      Consolidate(&files_, "/c", manifest_, kTarget, {.check = HashCheck::kOff})
          .ok());
}

// Creating, appending, syncing and syncing the directory.
TEST_F(ConsolidateErrorTest, AnErrorAtEachOperationLeavesNoFile) {
  ASSERT_TRUE(Consolidate(&files_, "/c", manifest_, kTarget).ok());
  const int operations = files_.operations();
  EXPECT_GE(operations, 4);
  ASSERT_TRUE(memory_.Remove(kTarget).ok());
  for (int i = 1; i <= operations; ++i) {
    FaultyFileSystem files(&memory_);
    files.FailAt(i, absl::UnavailableError("EIO"));
    EXPECT_EQ(Consolidate(&files, "/c", manifest_, kTarget).status().code(),
              absl::StatusCode::kUnavailable)
        << i;
    EXPECT_EQ(CodeOfTarget(), absl::StatusCode::kNotFound) << i;
  }
  FaultyFileSystem files(&memory_);
  files.SetSpace(100);
  EXPECT_EQ(Consolidate(&files, "/c", manifest_, kTarget).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOfTarget(), absl::StatusCode::kNotFound);
}

TEST_F(ConsolidateErrorTest, ADTypeThatTheFormatDoesNotHaveIsNamed) {
  manifest_.tensors.push_back({.name = "z", .type = {DType::kC128, {0}}});
  const absl::Status refused =
      Consolidate(&files_, "/c", manifest_, kTarget).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"z\""));
}

}  // namespace
}  // namespace lockstep::checkpoint
