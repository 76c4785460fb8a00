// Reading checkpoints whose files are damaged: each error names the file and
// the tensor.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/checkpoint_reader.h"
#include "client/checkpoint/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_reader_fixture.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using CheckpointDamageTest = CheckpointReaderTest;

TEST_F(CheckpointDamageTest, AFlippedBitIsNamedByFileAndTensor) {
  WriteTwoRanks();
  Change(kRank1, [](std::string& bytes) { bytes[bytes.size() - 40] ^= 8; });
  for (const HashCheck check : {HashCheck::kFull, HashCheck::kSampled}) {
    for (const CutTensor& tensor : tensors_) {
      const absl::Status lost = ReadStatus(tensor, check);
      EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(lost.message()),
                  AllOf(HasSubstr(kRank1), HasSubstr("block 0"),
                        HasSubstr(absl::StrCat("\"", tensor.name, "\""))));
    }
  }
  EXPECT_TRUE(ReadStatus(tensors_[0], HashCheck::kOff).ok());
}

// Which blocks are sampled depends on the seed and on the file.
TEST_F(CheckpointDamageTest, ASampleHasOtherBlocksInEachFileAndForEachSeed) {
  constexpr uint64_t kBlock = 256, kBlocks = 80;
  const int64_t bytes = kBlock * kBlocks;
  Write({{"w",
          {DType::kU8, {2, bytes}},
          {{{0, 0}, {1, bytes}}, {{1, 0}, {1, bytes}}}}},
        2);
  HashAgain(0, kBlock);
  HashAgain(1, kBlock);
  for (const ManifestFile& file : manifest_.files) {
    Change("/c/" + file.name, [](std::string& text) {
      for (uint64_t at = kBlock; at < text.size(); at += kBlock) text[at] ^= 1;
    });
  }
  // All blocks but the first are wrong: a byte of each is read, the sampled
  // ones are refused.
  const auto sampled = [&](int64_t rank, uint64_t seed) {
    auto reader = Open({.check = HashCheck::kSampled, .sample_seed = seed});
    std::vector<uint64_t> blocks;
    for (uint64_t at = 0; at < kBlock * kBlocks; at += kBlock) {
      const TensorBox box = {{rank, static_cast<int64_t>(at)}, {1, 1}};
      if (!Read(reader.get(), tensors_[0], box).ok()) blocks.push_back(at);
    }
    return blocks;
  };
  EXPECT_FALSE(sampled(0, 5).empty());
  EXPECT_EQ(sampled(0, 5), sampled(0, 5));
  EXPECT_NE(sampled(0, 5), sampled(1, 5));
  EXPECT_NE(sampled(0, 5), sampled(0, 6));
}

// Beyond the block with the header: found when the tensor is read.
TEST_F(CheckpointDamageTest, AFlippedBitInAReadIsNamedByTheTensorsName) {
  Write({{"w",
          {DType::kF32, {2, 1'500'000}},
          {{{0, 0}, {1, 1'500'000}}, {{1, 0}, {1, 1'500'000}}}}},
        2);
  Change(kRank1, [](std::string& bytes) { bytes[5'000'000] ^= 8; });
  EXPECT_TRUE(Read(Open().get(), tensors_[0], {{0, 0}, {1, 1'500'000}}).ok());
  const absl::Status lost = ReadStatus(tensors_[0], HashCheck::kFull);
  EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(lost.message()),
              AllOf(HasSubstr(kRank1), HasSubstr("block 1"),
                    HasSubstr("tensor \"w\"")));
}

TEST_F(CheckpointDamageTest, ATruncatedOrMissingFileIsNamedWithTheTensor) {
  WriteTwoRanks();
  Change(kRank1, [](std::string& bytes) { bytes.pop_back(); });
  for (const HashCheck check : {HashCheck::kFull, HashCheck::kOff}) {
    const absl::Status lost = ReadStatus(tensors_[1], check);
    EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(lost.message()),
                AllOf(HasSubstr(kRank1), HasSubstr("tensor \"b\"")));
  }
  ASSERT_TRUE(memory_.Remove(kRank1).ok());
  const absl::Status missing = ReadStatus(tensors_[1], HashCheck::kFull);
  EXPECT_EQ(missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr(kRank1), HasSubstr("tensor \"b\"")));
}

// A file that is right in itself, with its own hashes in the manifest.
TEST_F(CheckpointDamageTest, AHeaderThatContradictsTheManifestIsDataLoss) {
  WriteTwoRanks();
  const std::string columns(6 * 2000 * 4, 'x'), bias(7 * 2, 'y');
  struct Other {
    const char *wrong, *w_name, *b_name;
    TensorType w, b;
  };
  const Other others[] = {
      {"w@1", "w@0", "b", {DType::kF32, {6, 2000}}, {DType::kBF16, {7}}},
      {"b", "w@1", "c", {DType::kF32, {6, 2000}}, {DType::kBF16, {7}}},
      {"w@1", "w@1", "b", {DType::kF32, {2000, 6}}, {DType::kBF16, {7}}},
      {"w@1", "w@1", "b", {DType::kI32, {6, 2000}}, {DType::kBF16, {7}}},
      {"b", "w@1", "b", {DType::kF32, {6, 2000}}, {DType::kF16, {7}}},
      {"b", "w@1", "b", {DType::kF32, {6, 2000}}, {DType::kBF16, {7, 1}}},
  };
  for (const Other& other : others) {
    ASSERT_TRUE(memory_.Remove(kRank1).ok());
    auto written =
        WriteSafetensors(&memory_, kRank1,
                         {{other.w_name, other.w, FromMemory(columns.data())},
                          {other.b_name, other.b, FromMemory(bias.data())}});
    ASSERT_TRUE(written.ok()) << written.status();
    manifest_.files[1].hashes = written->hashes;
    for (const CutTensor& tensor : tensors_) {
      const absl::Status lost = ReadStatus(tensor, HashCheck::kFull);
      EXPECT_EQ(lost.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(
          std::string(lost.message()),
          HasSubstr(absl::StrCat("tensor \"", tensor.name, "\": ", kRank1,
                                 ": tensor \"", other.wrong, "\"")));
    }
  }
}

TEST_F(CheckpointDamageTest, ErrorsOfTheDiskKeepTheirCode) {
  WriteTwoRanks();
  auto reader = Open({.check = HashCheck::kOff});
  files_.FailReads(absl::UnavailableError("EIO"));
  for (int i = 0; i < 2; ++i) {
    const absl::Status failed =
        Read(reader.get(), tensors_[0], {{0, 3000}, {6, 1}}).status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(failed.message()),
                AllOf(HasSubstr(kRank1), HasSubstr("tensor \"w\"")));
    files_.FailReads(absl::OkStatus());
    EXPECT_TRUE(Read(reader.get(), tensors_[1], {{0}, {1}}).ok());
    files_.FailReads(absl::UnavailableError("EIO"));
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
