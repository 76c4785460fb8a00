#include "client/checkpoint/safetensors_reader.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_files.h"
#include "tests/client/checkpoint/header_bytes.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

class ReaderTest : public testing::Test {
 protected:
  ReaderTest() {
    auto written = WriteSafetensors(&memory_, "/a", set_.ToWrite());
    EXPECT_TRUE(written.ok()) << written.status();
    written_ = *std::move(written);
  }

  ReadChecks Checks(HashCheck check) {
    return {.check = check, .expected = written_.hashes};
  }
  std::unique_ptr<SafetensorsReader> Open(ReadChecks checks) {
    auto reader = SafetensorsReader::Open(&files_, "/a", std::move(checks));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  absl::Status OpenStatus(ReadChecks checks, const std::string& path = "/a") {
    return SafetensorsReader::Open(&files_, path, std::move(checks)).status();
  }

  void Put(const std::string& path, const std::string& bytes) {
    auto file = memory_.Open(path, OpenMode::kTruncate);
    ASSERT_TRUE(file.ok() && (*file)->Append(bytes).ok());
  }
  void FlipBit(uint64_t offset) {
    std::string bytes = ReadWhole(&memory_, "/a").value();
    bytes[offset] ^= 4;
    Put("/a", bytes);
  }
  // The offset in the file of a byte of a tensor.
  uint64_t InFile(const std::string& name, uint64_t offset) {
    for (const StoredTensor& tensor : written_.header.tensors) {
      if (tensor.name == name) {
        return written_.data_begin + tensor.begin + offset;
      }
    }
    ADD_FAILURE() << name;
    return 0;
  }

  static absl::StatusOr<std::string> Read(SafetensorsReader* reader,
                                          const std::string& name,
                                          uint64_t offset, uint64_t bytes) {
    const StoredTensor* tensor = reader->Find(name);
    if (tensor == nullptr) return absl::NotFoundError(name);
    std::string read(bytes, '?');
    absl::Status status = reader->Read(*tensor, offset, bytes, read.data());
    if (!status.ok()) return status;
    return read;
  }

  const TensorSet& set_ = ThreeBlocks();
  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
  WrittenFile written_;
};

TEST_F(ReaderTest, EveryTensorIsReadAsItWasWritten) {
  for (const HashCheck check :
       {HashCheck::kFull, HashCheck::kSampled, HashCheck::kOff}) {
    auto reader = Open(Checks(check));
    EXPECT_EQ(reader->header(), written_.header);
    EXPECT_EQ(reader->data_begin(), written_.data_begin);
    for (const StoredTensor& tensor : written_.header.tensors) {
      EXPECT_EQ(Read(reader.get(), tensor.name, 0, tensor.bytes()).value(),
                set_.at(tensor.name));
    }
    EXPECT_EQ(reader->Find("other"), nullptr);
  }
}

TEST_F(ReaderTest, RandomRangesHaveTheirBytes) {
  const std::string& large = set_.at("large");
  for (const HashCheck check :
       {HashCheck::kFull, HashCheck::kSampled, HashCheck::kOff}) {
    ReadChecks checks = Checks(check);
    checks.sample_one_in = 2;
    checks.sample_seed = 5;
    auto reader = Open(checks);
    std::mt19937_64 random(1);
    for (int i = 0; i < 40; ++i) {
      const uint64_t offset = random() % (large.size() + 1);
      const uint64_t left = large.size() - offset;
      const uint64_t bytes = random() % (left + 1) >> (random() % 24);
      ASSERT_EQ(Read(reader.get(), "large", offset, bytes).value(),
                large.substr(offset, bytes))
          << i << ": " << bytes << " from " << offset;
    }
  }
}

TEST_F(ReaderTest, RangesBeyondATensorAreRefusedThoughTheFileGoesOn) {
  auto reader = Open(Checks(HashCheck::kFull));
  constexpr auto kOutOfRange = absl::StatusCode::kOutOfRange;
  EXPECT_EQ(Read(reader.get(), "bias", 0, 15).status().code(), kOutOfRange);
  EXPECT_EQ(Read(reader.get(), "bias", 14, 1).status().code(), kOutOfRange);
  EXPECT_EQ(Read(reader.get(), "empty", 1, 0).status().code(), kOutOfRange);
  const StoredTensor* bias = reader->Find("bias");
  EXPECT_EQ(reader->Read(*bias, ~uint64_t{0}, 2, nullptr).code(), kOutOfRange);
  EXPECT_EQ(reader->Read(*bias, 2, ~uint64_t{0}, nullptr).code(), kOutOfRange);
  EXPECT_EQ(Read(reader.get(), "bias", 14, 0).value(), "");
}

TEST_F(ReaderTest, AFlippedBitIsNamedByTensorAndBlock) {
  FlipBit(InFile("large", 5'000'000));  // in block 1
  auto reader = Open(Checks(HashCheck::kFull));
  const std::string file = "/a";
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 9'600'000}, {5'000'000, 1}, {8'000'000, 100}}) {
    const absl::Status lost =
        Read(reader.get(), "large", offset, bytes).status();
    EXPECT_EQ(lost.code(), kDataLoss) << offset;
    EXPECT_THAT(std::string(lost.message()),
                AllOf(HasSubstr(file), HasSubstr("tensor \"large\""),
                      HasSubstr("block 1 (bytes 4194304 to 8388608)")));
  }
  // The other blocks are right, also right after an error.
  EXPECT_TRUE(Read(reader.get(), "large", 0, 4'000'000).ok());
  EXPECT_FALSE(Read(reader.get(), "large", 4'194'304, 1).ok());
  EXPECT_TRUE(Read(reader.get(), "large", 8'500'000, 100).ok());
  EXPECT_EQ(Read(reader.get(), "mask", 0, 15).value(), set_.at("mask"));
}

TEST_F(ReaderTest, WithoutChecksAFlippedBitIsRead) {
  FlipBit(InFile("large", 5'000'000));
  auto reader = Open(Checks(HashCheck::kOff));
  std::string flipped = set_.at("large");
  flipped[5'000'000] ^= 4;
  EXPECT_EQ(Read(reader.get(), "large", 0, flipped.size()).value(), flipped);
}

TEST_F(ReaderTest, AFlippedBitInTheHeaderIsFoundWhenTheFileIsOpened) {
  FlipBit(20);
  for (const HashCheck check : {HashCheck::kFull, HashCheck::kSampled}) {
    const absl::Status lost = OpenStatus(Checks(check));
    EXPECT_EQ(lost.code(), kDataLoss);
    EXPECT_THAT(std::string(lost.message()), HasSubstr("block 0"));
  }
}

TEST_F(ReaderTest, ASampleFindsAFlippedBitWithSomeSeeds) {
  FlipBit(InFile("large", 5'000'000));
  constexpr int kSeeds = 24;
  int found = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    ReadChecks checks = Checks(HashCheck::kSampled);
    checks.sample_one_in = 4;
    checks.sample_seed = seed;
    auto reader = Open(checks);
    const bool finds =
        absl::IsDataLoss(Read(reader.get(), "large", 0, 9'600'000).status());
    EXPECT_EQ(
        absl::IsDataLoss(Read(reader.get(), "large", 5'000'000, 1).status()),
        finds);
    found += finds;
  }
  EXPECT_GT(found, 0);
  EXPECT_LT(found, kSeeds / 2);
}

// The block that is kept for small reads is not taken for another one.
TEST_F(ReaderTest, AReadAfterAWrongBlockHasItsOwnBytes) {
  FlipBit(InFile("large", 5'000'000));
  auto reader = Open(Checks(HashCheck::kFull));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Read(reader.get(), "mask", 0, 15).value(), set_.at("mask"));
    EXPECT_FALSE(Read(reader.get(), "large", 5'000'000, 1).ok());
  }
}

TEST_F(ReaderTest, SmallTensorsOfOneBlockReadItOnce) {
  auto reader = Open(Checks(HashCheck::kFull));
  const uint64_t before = files_.bytes_read();
  for (int i = 0; i < 3; ++i) {
    for (const char* name : {"scale", "bias", "mask"}) {
      EXPECT_TRUE(Read(reader.get(), name, 0, set_.at(name).size()).ok());
    }
  }
  EXPECT_LE(files_.bytes_read() - before, kHashBlockBytes);
}

// Whole blocks are read into the caller's memory, and each once.
TEST_F(ReaderTest, ALargeTensorIsReadOnce) {
  auto reader = Open(Checks(HashCheck::kFull));
  const uint64_t before = files_.bytes_read();
  EXPECT_TRUE(Read(reader.get(), "large", 0, 9'600'000).ok());
  EXPECT_LE(files_.bytes_read() - before, written_.hashes.bytes);
}

TEST_F(ReaderTest, ATruncatedFileIsRefused) {
  const std::string bytes = ReadWhole(&memory_, "/a").value();
  for (const size_t size : {size_t{0}, size_t{5}, size_t{100},
                            size_t{9'000'000}, bytes.size() - 1}) {
    Put("/a", bytes.substr(0, size));
    for (const HashCheck check : {HashCheck::kFull, HashCheck::kOff}) {
      EXPECT_EQ(OpenStatus(Checks(check)).code(), kDataLoss) << size;
    }
    const absl::Status lost = OpenStatus({.check = HashCheck::kOff});
    EXPECT_EQ(lost.code(), kDataLoss) << size;
    EXPECT_THAT(std::string(lost.message()), HasSubstr("/a"));
  }
  Put("/a", bytes + "x");
  EXPECT_EQ(OpenStatus({.check = HashCheck::kOff}).code(), kDataLoss);
}

TEST_F(ReaderTest, AFileThatBecomesShorterIsDataLoss) {
  auto reader = Open(Checks(HashCheck::kFull));
  Put("/a", ReadWhole(&memory_, "/a").value().substr(0, 6'000'000));
  const absl::Status lost = Read(reader.get(), "large", 0, 9'600'000).status();
  EXPECT_EQ(lost.code(), kDataLoss);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("shorter"));
}

// A file of any size whose header claims a length: refused by the prefix.
TEST_F(ReaderTest, AHeaderThatIsTooLongIsRefusedBeforeItIsRead) {
  Put("/a", LengthBytes(100'000'001) + std::string(1000, ' '));
  EXPECT_EQ(OpenStatus({.check = HashCheck::kOff}).code(), kDataLoss);
  Put("/a", LengthBytes(99'000'000) + std::string(1000, ' '));
  EXPECT_EQ(OpenStatus({.check = HashCheck::kOff}).code(), kDataLoss);
  EXPECT_LE(files_.bytes_read(), 16u);
}

TEST_F(ReaderTest, ADTypeThatLockstepDoesNotHaveIsUnimplemented) {
  Put("/a", HeaderBytes(R"({"w":{"dtype":"F4","shape":[2],)"
                        R"("data_offsets":[0,1]}})") +
                "x");
  const absl::Status foreign = OpenStatus({.check = HashCheck::kOff});
  EXPECT_EQ(foreign.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(foreign.message()),
              AllOf(HasSubstr("/a"), HasSubstr("\"w\""), HasSubstr("F4")));
}

TEST_F(ReaderTest, ErrorsOfTheDiskKeepTheirCodeAndNameTheTensor) {
  auto reader = Open(Checks(HashCheck::kFull));
  files_.FailReads(absl::UnavailableError("EIO"));
  // Block 0 has been read with the header.
  EXPECT_TRUE(Read(reader.get(), "large", 0, 100).ok());
  const absl::Status failed =
      Read(reader.get(), "large", 5'000'000, 100).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("\"large\""));
  EXPECT_EQ(OpenStatus(Checks(HashCheck::kFull)).code(),
            absl::StatusCode::kUnavailable);
  files_.FailReads(absl::OkStatus());
  EXPECT_TRUE(Read(reader.get(), "large", 5'000'000, 100).ok());
  EXPECT_EQ(OpenStatus(Checks(HashCheck::kFull), "/b").code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ReaderTest, HashesThatContradictThemselvesAreRefused) {
  EXPECT_EQ(OpenStatus({}).code(), kRefused);
  EXPECT_EQ(OpenStatus({.check = HashCheck::kSampled}).code(), kRefused);
  for (int i = 0; i < 4; ++i) {
    ReadChecks checks = Checks(HashCheck::kFull);
    if (i == 0) checks.expected->blocks.pop_back();
    if (i == 1) checks.expected->block_bytes = 0;
    if (i == 2) checks.expected->block_bytes = uint64_t{1} << 40;
    if (i == 3) checks.sample_one_in = 0;
    EXPECT_EQ(OpenStatus(checks).code(), kRefused) << i;
  }
}

TEST_F(ReaderTest, VerifyingFindsEveryWrongBlockAndItsTensors) {
  EXPECT_EQ(Open(Checks(HashCheck::kOff))->VerifyAll(), absl::OkStatus());
  FlipBit(InFile("large", 5'000'000));
  FlipBit(InFile("mask", 3));
  const absl::Status lost = Open(Checks(HashCheck::kOff))->VerifyAll();
  EXPECT_EQ(lost.code(), kDataLoss);
  EXPECT_THAT(std::string(lost.message()),
              AllOf(HasSubstr("/a"), HasSubstr("block 1 "),
                    HasSubstr("block 2 "), Not(HasSubstr("block 0 ")),
                    HasSubstr("\"large\""), HasSubstr("\"bias\"")));
}

TEST_F(ReaderTest, VerifyingComparesTheHashOfTheWholeFileToo) {
  ReadChecks checks = Checks(HashCheck::kOff);
  checks.expected->file[0] ^= 1;
  const absl::Status lost = Open(checks)->VerifyAll();
  EXPECT_EQ(lost.code(), kDataLoss);
  EXPECT_THAT(std::string(lost.message()), HasSubstr(written_.hashes.file));
  EXPECT_EQ(Open({.check = HashCheck::kOff})->VerifyAll().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Offsets beyond 32 bits, in a sparse file of 6 GiB.
TEST(LargeFileTest, TheLastBytesOfALargeTensorAreReadAndChecked) {
  SafetensorsHeader header{
      .tensors = {{.name = "w", .type = {DType::kU8, {int64_t{6} << 30}}}}};
  ASSERT_EQ(LayOut(&header.tensors), absl::OkStatus());
  const std::string head = FormatHeader(header).value();
  std::string path = testing::TempDir() + "lockstep-large-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  const uint64_t bytes = head.size() + header.data_bytes();
  ASSERT_EQ(ftruncate(fd, bytes), 0);
  ASSERT_EQ(pwrite(fd, head.data(), head.size(), 0), ssize_t(head.size()));
  ASSERT_EQ(pwrite(fd, "last", 4, bytes - 4), 4);
  close(fd);

  ContentHashes hashes{.bytes = bytes};
  const std::string zeros(kHashBlockBytes, '\0');
  hashes.blocks.assign(BlockCount(bytes, kHashBlockBytes), HashBlock(zeros));
  hashes.blocks.front() =
      HashBlock(head + zeros.substr(0, kHashBlockBytes - head.size()));
  hashes.blocks.back() =
      HashBlock(zeros.substr(0, bytes % kHashBlockBytes - 4) + "last");
  PosixFileSystem files;
  auto reader = SafetensorsReader::Open(&files, path, {.expected = hashes});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const StoredTensor* w = (*reader)->Find("w");
  char last[7] = {};
  EXPECT_EQ((*reader)->Read(*w, w->bytes() - 6, 6, last), absl::OkStatus());
  EXPECT_EQ(std::string(last, 6), std::string("\0\0last", 6));
  hashes.blocks.back() ^= 1;
  auto other = SafetensorsReader::Open(&files, path, {.expected = hashes});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->Read(*w, w->bytes() - 6, 6, last).code(), kDataLoss);
  unlink(path.c_str());
}

}  // namespace
}  // namespace lockstep::checkpoint
