#include "client/checkpoint/checkpoint_reader.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_reader_fixture.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TensorType RandomType(DType dtype, std::mt19937_64* random) {
  TensorType type{dtype, {}};
  for (uint64_t d = (*random)() % 5; d > 0; --d) {
    type.shape.push_back((*random)() % 40 == 0 ? 0 : 1 + (*random)() % 9);
  }
  return type;
}

// From every number of ranks to every other, in grids over any one or two
// dimensions with parts of any size, in every dtype.
TEST(ReshardTest, EveryRankOfAnotherMeshReadsItsBytes) {
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const int from = 1 + (seed - 1) / 8, to = 1 + (seed - 1) % 8;
    MemoryFileSystem memory;
    std::vector<CutTensor> tensors;
    for (const DType dtype : kAllDTypes) {
      if (dtype == DType::kC128) continue;  // not in the format
      const TensorType type = RandomType(dtype, &random);
      tensors.push_back({"t." + std::string(Name(dtype)), type,
                         RandomSlices(type, from, &random)});
    }
    const Manifest manifest = WriteFolder(&memory, "/c", tensors, from);
    std::vector<std::vector<TensorBox>> wanted;
    for (const CutTensor& tensor : tensors) {
      wanted.push_back(RandomSlices(tensor.type, to, &random));
    }
    for (int rank = 0; rank < to; ++rank) {
      auto reader = CheckpointReader::Open(
          &memory, "/c", manifest,
          {.check = static_cast<HashCheck>(1 + random() % 3),
           .open_files_max = 1 + random() % 8});
      ASSERT_TRUE(reader.ok()) << reader.status();
      std::vector<BoxRead> reads;
      std::vector<std::string> memories, expected;
      for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorBox& box = wanted[i][rank % wanted[i].size()];
        expected.push_back(tensors[i].At(box));
        memories.emplace_back(expected.back().size(), '?');
        reads.push_back({tensors[i].name, box});
      }
      for (size_t i = 0; i < reads.size(); ++i) {
        reads[i].to = memories[i].data();
      }
      const absl::Status status = (*reader)->Read(reads);
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < reads.size(); ++i) {
        EXPECT_EQ(memories[i], expected[i]) << reads[i].tensor;
      }
    }
  }
}

// Long runs and short ones, with gaps of all sizes.
TEST_F(CheckpointReaderTest, RandomBoxesOfALargeTensorHaveTheirBytes) {
  const TensorType type{DType::kF16, {40, 30, 1000}};
  std::mt19937_64 random(7);
  Write({{"w", type, RandomSlices(type, 4, &random)}}, 4);
  auto reader = Open();
  auto unchecked = Open({.check = HashCheck::kOff});
  for (int i = 0; i < 24; ++i) {
    TensorBox box = WholeOf(type);
    for (size_t d = 0; d < 3; ++d) {
      box.begin[d] = random() % type.shape[d] >> random() % 4;
      box.shape[d] =
          (type.shape[d] - box.begin[d]) >> (random() % 3 * random() % 4);
    }
    SCOPED_TRACE(absl::StrCat("read ", i, " at ", BoxText(box)));
    const std::string expected = tensors_[0].At(box);
    EXPECT_TRUE(Read(reader.get(), tensors_[0], box).value() == expected);
    EXPECT_TRUE(Read(unchecked.get(), tensors_[0], box).value() == expected);
  }
}

TEST_F(CheckpointReaderTest, OnlyNeededRangesAreReadWithoutChecks) {
  WriteTwoRanks();
  auto reader = Open({.check = HashCheck::kOff});
  uint64_t before = files_.bytes_read();
  const auto taken = [&] {
    return files_.bytes_read() - std::exchange(before, files_.bytes_read());
  };
  // Rows of rank 0's slice: one run for each row, since rows are far apart.
  ASSERT_TRUE(Read(reader.get(), tensors_[0], {{2, 10}, {3, 100}}).ok());
  EXPECT_EQ(taken(), HeaderBytesOf(kRank0) + 3 * 100 * 4);
  // Both slices, whole rows; rank 0's header has been read.
  ASSERT_TRUE(Read(reader.get(), tensors_[0], {{1, 0}, {2, 5000}}).ok());
  EXPECT_EQ(taken(), HeaderBytesOf(kRank1) + 2 * 5000 * 4);
  ASSERT_TRUE(Read(reader.get(), tensors_[1], {{3}, {2}}).ok());
  EXPECT_EQ(taken(), 2u * 2);
  // No elements: nothing.
  ASSERT_TRUE(Read(reader.get(), tensors_[0], {{6, 0}, {0, 5000}}).ok());
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CheckpointReaderTest, ShortGapsAreReadAndLongOnesAreNot) {
  constexpr int64_t kGap = kReadGapBytesMax;
  Write({{"narrow", {DType::kU8, {9, kGap + 2}}, {{{0, 0}, {9, kGap + 2}}}},
         {"wide", {DType::kU8, {9, kGap + 3}}, {{{0, 0}, {9, kGap + 3}}}}},
        1);
  auto reader = Open({.check = HashCheck::kOff});
  ASSERT_TRUE(Read(reader.get(), tensors_[0], {{0, 0}, {1, 1}}).ok());
  uint64_t before = files_.bytes_read();
  const TensorBox box = {{0, 1}, {9, 2}};
  EXPECT_EQ(Read(reader.get(), tensors_[0], box).value(), tensors_[0].At(box));
  EXPECT_EQ(files_.bytes_read() - before, 8u * (kGap + 2) + 2);
  before = files_.bytes_read();
  EXPECT_EQ(Read(reader.get(), tensors_[1], box).value(), tensors_[1].At(box));
  EXPECT_EQ(files_.bytes_read() - before, 9u * 2);
}

// A column whose rows are near: more than one range of kGatheredReadBytes.
TEST_F(CheckpointReaderTest, AColumnIsReadInRangesOfALimitedSize) {
  Write({{"w", {DType::kU8, {3000, 1000}}, {{{0, 0}, {3000, 1000}}}}}, 1);
  auto reader = Open({.check = HashCheck::kOff});
  const TensorBox box = {{0, 999}, {3000, 1}};
  const std::string expected = tensors_[0].At(box);
  EXPECT_EQ(Read(reader.get(), tensors_[0], box).value(), expected);
  const uint64_t read = files_.bytes_read() - HeaderBytesOf(kRank0);
  // Each range begins and ends with an element of the column.
  const uint64_t ranges = 3000 / (kGatheredReadBytes / 1000 + 1) + 1;
  EXPECT_EQ(read, 3000 * 1000 - ranges * 999);
}

TEST_F(CheckpointReaderTest, FilesAreOpenedWhenNeededAndStayOpen) {
  WriteTwoRanks();
  Change(kRank1, [](std::string& bytes) { bytes.resize(100); });
  auto reader = Open();
  EXPECT_TRUE(Read(reader.get(), tensors_[0], {{0, 0}, {6, 3000}}).ok());
  EXPECT_FALSE(Read(reader.get(), tensors_[0], {{0, 0}, {6, 3001}}).ok());
  // Removed, but open.
  ASSERT_TRUE(memory_.Remove(kRank0).ok());
  EXPECT_TRUE(Read(reader.get(), tensors_[0], {{0, 0}, {6, 3000}}).ok());
}

TEST_F(CheckpointReaderTest, TheLeastRecentlyUsedFileIsClosed) {
  std::mt19937_64 random(3);
  const TensorType type{DType::kU8, {3}};
  Write({{"w", type, {{{0}, {1}}, {{1}, {1}}, {{2}, {1}}}}}, 3);
  auto reader = Open({.check = HashCheck::kOff, .open_files_max = 2});
  const uint64_t header = HeaderBytesOf(kRank0);
  const auto cost = [&](int64_t at) {
    const uint64_t before = files_.bytes_read();
    const TensorBox box = {{at}, {1}};
    EXPECT_EQ(Read(reader.get(), tensors_[0], box).value(),
              tensors_[0].At(box));
    return files_.bytes_read() - before;
  };
  const std::vector<std::pair<int64_t, bool>> order = {
      {0, true}, {1, true}, {0, false}, {2, true}, {0, false}, {1, true}};
  for (const auto& [at, opens] : order) {
    EXPECT_EQ(cost(at), 1 + (opens ? header : 0)) << at;
  }
}

// One block is in memory at a time, so the order of the reads matters.
TEST_F(CheckpointReaderTest, ManyBoxesInOneCallReadEachBlockOnce) {
  constexpr int kTensors = 20;
  std::vector<CutTensor> tensors;
  for (int i = 0; i < kTensors; ++i) {
    tensors.push_back({absl::StrCat("t", i * 7 % kTensors),
                       {DType::kU8, {500'000}},
                       {{{0}, {100'000}}, {{100'000}, {400'000}}}});
  }
  Write(std::move(tensors), 2);
  auto reader = Open({.open_files_max = 1});
  std::vector<BoxRead> reads;
  std::vector<std::string> memories(kTensors, std::string(500'000, '?'));
  for (int i = 0; i < kTensors; ++i) {
    reads.push_back(
        {tensors_[i].name, WholeOf(tensors_[i].type), memories[i].data()});
  }
  ASSERT_TRUE(reader->Read(reads).ok());
  for (int i = 0; i < kTensors; ++i) {
    EXPECT_TRUE(memories[i] == tensors_[i].bytes) << i;
  }
  EXPECT_EQ(manifest_.files[1].hashes.blocks.size(), 2u);
  EXPECT_EQ(files_.bytes_read(),
            manifest_.files[0].hashes.bytes + manifest_.files[1].hashes.bytes);
}

TEST_F(CheckpointReaderTest, UnknownTensorsAndWrongBoxesAreRefused) {
  WriteTwoRanks();
  auto reader = Open();
  char byte = 0;
  const absl::Status unknown = reader->Read("bb", {{0}, {1}}, &byte);
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()),
              AllOf(HasSubstr("/c"), HasSubstr("\"bb\"")));
  const std::vector<TensorBox> wrong = {
      {{0}, {1}},
      {{0, 0}, {7, 1}},
      {{6, 0}, {1, 1}},
      {{-1, 0}, {1, 1}},
      {{0, 0}, {1, -1}},
      {{0, 4999}, {1, 2}},
      {{0, int64_t{1} << 62}, {1, int64_t{1} << 62}}};
  for (const TensorBox& box : wrong) {
    const absl::Status refused = reader->Read("w", box, &byte);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("\"w\""));
  }
  EXPECT_EQ(reader->Read("w", {{0, 0}, {1, 1}}, nullptr).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(reader->Read("w", {{0, 0}, {0, 1}}, nullptr).ok());
  // A wrong box among right ones: nothing is read.
  std::string memory(1, '?');
  const std::vector<BoxRead> reads = {{"b", {{0}, {1}}, memory.data()},
                                      {"none", {}, memory.data()}};
  EXPECT_FALSE(reader->Read(reads).ok());
  EXPECT_EQ(files_.bytes_read(), 0u);
  EXPECT_EQ(reader->Find("none"), nullptr);
  EXPECT_EQ(reader->Find("b")->name, "b");
}

TEST_F(CheckpointReaderTest, AManifestThatIsNotValidIsRefused) {
  WriteTwoRanks();
  EXPECT_EQ(
      CheckpointReader::Open(&files_, "/c", manifest_, {.open_files_max = 0})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
  manifest_.tensors[0].slices.pop_back();
  EXPECT_EQ(CheckpointReader::Open(&files_, "/c", manifest_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::checkpoint
