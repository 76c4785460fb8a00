#include "client/checkpoint/safetensors_writer.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_files.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

// The bytes that a file with these contents must have.
std::string ExpectedBytes(const SafetensorsHeader& header,
                          const TensorSet& set) {
  std::string bytes = FormatHeader(header).value();
  for (const StoredTensor& tensor : header.tensors) {
    bytes += set.at(tensor.name);
  }
  return bytes;
}

ContentHashes HashesOf(const std::string& bytes) {
  ContentHasher hasher;
  hasher.Update(bytes);
  return hasher.hashes();
}

class WriterTest : public testing::Test {
 protected:
  std::string Get(const std::string& path) {
    return ReadWhole(&memory_, path).value_or("(gone)");
  }

  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
};

TEST_F(WriterTest, AFileIsItsHeaderAndTheTensorsInOrder) {
  const TensorSet& set = ThreeBlocks();
  const auto written = WriteSafetensors(&files_, "/a", set.ToWrite(),
                                        {{"step", "20"}, {"job", "digits"}});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->header.metadata.at("step"), "20");
  EXPECT_EQ(written->data_begin % 64, 0u);
  std::string order;
  for (const StoredTensor& tensor : written->header.tensors) {
    absl::StrAppend(&order, tensor.name, " ");
  }
  EXPECT_EQ(order, "large scale bias empty mask ");
  const std::string bytes = Get("/a");
  EXPECT_EQ(bytes, ExpectedBytes(written->header, set));
  EXPECT_EQ(written->hashes, HashesOf(bytes));
  EXPECT_EQ(written->hashes.bytes, bytes.size());
}

TEST_F(WriterTest, ThousandsOfSmallTensorsTakeFewOperations) {
  TensorSet set;
  for (int i = 0; i < 3000; ++i) {
    set.Add(absl::StrCat("t", i), {DType::kF32, {i % 50}});
  }
  const auto written = WriteSafetensors(&files_, "/a", set.ToWrite());
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Get("/a"), ExpectedBytes(written->header, set));
  EXPECT_EQ(written->hashes, HashesOf(Get("/a")));
  EXPECT_LT(files_.operations(), 20);
}

TEST_F(WriterTest, AFileWithoutTensorsIsOneHeader) {
  const auto written = WriteSafetensors(&files_, "/a", {});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Get("/a"), FormatHeader({}).value());
}

// Pieces of the sizes that the source likes.
TEST_F(WriterTest, ASourceGivesPiecesOfItsOwnSizes) {
  const std::string bytes = PatternBytes(10'000'000, 1);
  std::vector<uint64_t> offsets;
  std::string piece;  // one buffer: valid until the next call only
  const PieceSource source =
      [&](uint64_t offset,
          size_t bytes_max) -> absl::StatusOr<absl::string_view> {
    offsets.push_back(offset);
    EXPECT_LE(bytes_max, kPieceBytes);
    const size_t size = std::min<size_t>(bytes_max, 1 + offset / 2);
    piece = bytes.substr(offset, size);
    return piece;
  };
  const auto written = WriteSafetensors(
      &files_, "/a",
      {{.name = "w", .type = {DType::kU8, {10'000'000}}, .pieces = source}});
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Get("/a").substr(written->data_begin), bytes);
  EXPECT_EQ(written->hashes, HashesOf(Get("/a")));
  EXPECT_GT(offsets.size(), 20u);
}

TEST_F(WriterTest, ErrorsOfASourceNameTheTensorAndLeaveNoFile) {
  const auto write = [&](const PieceSource& source) {
    return WriteSafetensors(
               &files_, "/a",
               {{.name = "v", .type = {DType::kU8, {8}}, .pieces = source}})
        .status();
  };
  const absl::Status failed = write([](uint64_t, size_t) {
    return absl::StatusOr<absl::string_view>(absl::AbortedError("no copy"));
  });
  EXPECT_EQ(failed.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("\"v\""));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("no copy"));
  for (const size_t size : {0, 9}) {
    const std::string bytes(size, 'x');
    const absl::Status wrong =
        write([&](uint64_t, size_t) -> absl::StatusOr<absl::string_view> {
          return bytes;
        });
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInternal) << size;
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("\"v\""));
  }
  EXPECT_EQ(Get("/a"), "(gone)");
}

TEST_F(WriterTest, WhatCannotBeStoredCreatesNoFile) {
  const TensorType byte{DType::kU8, {1}};
  const std::string bytes(16, 'x');
  const PieceSource source = FromMemory(bytes.data());
  EXPECT_EQ(WriteSafetensors(&files_, "/a",
                             {{.name = "v", .type = byte, .pieces = source},
                              {.name = "v", .type = byte, .pieces = source}})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteSafetensors(
                &files_, "/a",
                {{.name = "z", .type = {DType::kC128, {1}}, .pieces = source}})
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(files_.operations(), 0);
}

TEST_F(WriterTest, AFileThatExistsStaysAsItIs) {
  ASSERT_TRUE(ReplaceFile(&memory_, "/a", "old").ok());
  EXPECT_EQ(
      WriteSafetensors(&files_, "/a", ThreeBlocks().ToWrite()).status().code(),
      absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Get("/a"), "old");
}

TEST_F(WriterTest, AFullDiskIsNamedAndItsSpaceIsGivenBack) {
  const TensorSet& set = ThreeBlocks();
  const uint64_t size =
      WriteSafetensors(&memory_, "/whole", set.ToWrite())->hashes.bytes;
  for (const uint64_t space : {uint64_t{0}, uint64_t{5'000'000}, size - 1}) {
    SCOPED_TRACE(space);
    files_.SetSpace(space);
    const absl::Status full =
        WriteSafetensors(&files_, "/a", set.ToWrite()).status();
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
    EXPECT_THAT(std::string(full.message()), HasSubstr("/a"));
    EXPECT_EQ(Get("/a"), "(gone)");
  }
  files_.SetSpace(size);
  EXPECT_TRUE(WriteSafetensors(&files_, "/a", set.ToWrite()).ok());
}

// Every operation of a write, and of the sync of its directory.
class CrashPointTest : public testing::Test {
 protected:
  static absl::StatusOr<ContentHashes> Save(FileSystem* files) {
    const auto written = WriteSafetensors(files, "/a", ThreeBlocks().ToWrite());
    if (!written.ok()) return written.status();
    const absl::Status synced = files->SyncDirectory("/");
    if (!synced.ok()) return synced;
    return written->hashes;
  }

  static int Operations() {
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    EXPECT_TRUE(Save(&files).ok());
    return files.operations();
  }

  // Whether /a is whole, as a reader with the hashes sees it.
  static absl::Status Verify(FileSystem* files, const ContentHashes& hashes) {
    auto reader = SafetensorsReader::Open(files, "/a", {.expected = hashes});
    return reader.ok() ? (*reader)->VerifyAll() : reader.status();
  }

  const ContentHashes hashes_ = [] {
    MemoryFileSystem files;
    return Save(&files).value();
  }();
};

TEST_F(CrashPointTest, AfterOkTheFileIsWholeWhateverACrashLoses) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    MemoryFileSystem files;
    ASSERT_TRUE(Save(&files).ok());
    seed == 0 ? files.Crash() : files.CrashPartly(seed);
    EXPECT_EQ(Verify(&files, hashes_), absl::OkStatus()) << seed;
  }
}

TEST_F(CrashPointTest, BeforeItTheFileIsGoneOrWholeOrRefused) {
  const int operations = Operations();
  ASSERT_GT(operations, 6);
  int gone = 0, whole = 0, refused = 0;
  for (int first = 1; first <= operations; ++first) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(absl::StrCat("operation ", first, ", seed ", seed));
      MemoryFileSystem memory;
      FaultyFileSystem files(&memory);
      files.FailFrom(first, absl::AbortedError("crashed"));
      EXPECT_EQ(Save(&files).status().code(), absl::StatusCode::kAborted);
      seed == 0 ? memory.Crash() : memory.CrashPartly(seed);
      const absl::Status found = Verify(&memory, hashes_);
      if (absl::IsNotFound(found)) {
        ++gone;
      } else if (absl::IsDataLoss(found)) {
        ++refused;
      } else {
        EXPECT_EQ(found, absl::OkStatus());
        EXPECT_EQ(HashesOf(ReadWhole(&memory, "/a").value()), hashes_);
        ++whole;
      }
    }
  }
  EXPECT_GT(gone, operations);
  EXPECT_GT(refused, operations);
  EXPECT_GT(whole, 0);  // synced, and its name kept
}

// EIO of any one operation is the answer, and leaves no name.
TEST_F(CrashPointTest, AnErrorOfAnyOperationIsReturned) {
  const int operations = Operations();
  for (int operation = 1; operation <= operations; ++operation) {
    SCOPED_TRACE(operation);
    MemoryFileSystem memory;
    FaultyFileSystem files(&memory);
    files.FailAt(operation, absl::DataLossError("EIO"));
    EXPECT_EQ(Save(&files).status().code(), absl::StatusCode::kDataLoss);
    const bool is_directory_sync = operation == operations;
    EXPECT_EQ(memory.KindOf("/a").ok(), is_directory_sync);
  }
}

TEST(WriterOnDiskTest, AFileOnADiskHasTheSameBytes) {
  std::string folder = testing::TempDir() + "lockstep-tensors-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  PosixFileSystem disk;
  MemoryFileSystem memory;
  const TensorSet& set = ThreeBlocks();
  const auto on_disk = WriteSafetensors(&disk, folder + "/a", set.ToWrite());
  const auto in_memory = WriteSafetensors(&memory, "/a", set.ToWrite());
  ASSERT_TRUE(on_disk.ok() && in_memory.ok()) << on_disk.status();
  EXPECT_EQ(on_disk->hashes, in_memory->hashes);
  EXPECT_EQ(ReadWhole(&disk, folder + "/a").value(),
            ReadWhole(&memory, "/a").value());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::checkpoint
