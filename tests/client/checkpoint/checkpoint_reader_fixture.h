// A checkpoint in memory and readers of it.

#ifndef LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_READER_FIXTURE_H_
#define LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_READER_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/checkpoint/checkpoint_reader.h"
#include "gtest/gtest.h"
#include "tests/client/checkpoint/checkpoint_folder.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::checkpoint {

inline constexpr char kRank0[] = "/c/rank-0.safetensors";
inline constexpr char kRank1[] = "/c/rank-1.safetensors";

class CheckpointReaderTest : public testing::Test {
 protected:
  void Write(std::vector<CutTensor> tensors, size_t ranks) {
    tensors_ = std::move(tensors);
    manifest_ = WriteFolder(&memory_, "/c", tensors_, ranks);
  }
  // Two ranks with the columns of "w", which are far apart, and "b" on rank 1.
  void WriteTwoRanks() {
    Write({{"w",
            {DType::kF32, {6, 5000}},
            {{{0, 0}, {6, 3000}}, {{0, 3000}, {6, 2000}}}},
           {"b", {DType::kBF16, {7}}, {{{0}, {0}}, {{0}, {7}}}}},
          2);
  }

  std::unique_ptr<CheckpointReader> Open(CheckpointReaderOptions options = {}) {
    auto reader = CheckpointReader::Open(&files_, "/c", manifest_, options);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  absl::StatusOr<std::string> Read(CheckpointReader* reader,
                                   const CutTensor& tensor,
                                   const TensorBox& box) {
    std::string read(ElementsOf(box.shape) * SizeOf(tensor.type.dtype), '?');
    absl::Status status = reader->Read(tensor.name, box, read.data());
    if (!status.ok()) return status;
    return read;
  }
  absl::Status ReadStatus(const CutTensor& tensor, HashCheck check) {
    return Read(Open({.check = check}).get(), tensor, WholeOf(tensor.type))
        .status();
  }
  // The bytes that opening a file reads without checks.
  uint64_t HeaderBytesOf(const std::string& path) {
    auto reader =
        SafetensorsReader::Open(&memory_, path, {.check = HashCheck::kOff});
    return kHeaderPrefixBytes + (*reader)->data_begin();
  }

  void Change(const std::string& path,
              const std::function<void(std::string&)>& change) {
    std::string bytes = ReadWhole(&memory_, path).value();
    change(bytes);
    auto file = memory_.Open(path, OpenMode::kTruncate);
    ASSERT_TRUE(file.ok() && (*file)->Append(bytes).ok());
  }

  // Hashes for blocks of another size.
  void HashAgain(size_t file, uint64_t block_bytes) {
    ContentHasher hasher(block_bytes);
    ManifestFile& listed = manifest_.files[file];
    hasher.Update(ReadWhole(&memory_, "/c/" + listed.name).value());
    listed.hashes = hasher.hashes();
  }

  MemoryFileSystem memory_;
  FaultyFileSystem files_{&memory_};
  std::vector<CutTensor> tensors_;
  Manifest manifest_;
};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_TESTS_CLIENT_CHECKPOINT_CHECKPOINT_READER_FIXTURE_H_
