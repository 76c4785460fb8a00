#include "client/checkpoint/checked_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::checkpoint {
namespace {

// A block is held in memory, so a forged list of hashes cannot ask for more.
constexpr uint64_t kBlockBytesMax = uint64_t{1} << 30;

std::string Fault(const ReadChecks& checks) {
  if (!checks.expected.has_value()) {
    return checks.check == HashCheck::kOff ? "" : "no hashes to compare with";
  }
  const ContentHashes& expected = *checks.expected;
  if (expected.block_bytes == 0 || expected.block_bytes > kBlockBytesMax) {
    return absl::StrCat("hashes of blocks of ", expected.block_bytes, " bytes");
  }
  const uint64_t blocks = BlockCount(expected.bytes, expected.block_bytes);
  if (expected.blocks.size() != blocks) {
    return absl::StrCat(expected.blocks.size(), " hashes for ", blocks,
                        " blocks");
  }
  if (checks.sample_one_in == 0) return "a sample of one block in 0";
  return "";
}

// A random number that depends on all bits of both (the finalizer of
// SplitMix64).
uint64_t Mix(uint64_t seed, uint64_t block) {
  uint64_t z = seed + (block + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

absl::StatusOr<CheckedFile> CheckedFile::Open(FileSystem* files,
                                              const std::string& path,
                                              ReadChecks checks) {
  const std::string fault = Fault(checks);
  if (!fault.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " cannot be checked: ", fault));
  }
  auto file = files->OpenForReading(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<uint64_t> bytes = (*file)->Size();
  if (!bytes.ok()) return bytes.status();
  if (checks.expected.has_value() && checks.expected->bytes != *bytes) {
    return absl::DataLossError(absl::StrCat(path, " has ", *bytes, " bytes; ",
                                            checks.expected->bytes,
                                            " were written"));
  }
  return CheckedFile(*std::move(file), *bytes, std::move(checks));
}

CheckedFile::CheckedFile(std::unique_ptr<ReadableFile> file, uint64_t bytes,
                         ReadChecks checks)
    : file_(std::move(file)), bytes_(bytes), checks_(std::move(checks)) {}

bool CheckedFile::IsChecked(uint64_t block) const {
  switch (checks_.check) {
    case HashCheck::kFull: return true;
    case HashCheck::kSampled:
      return block == 0 ||
             Mix(checks_.sample_seed, block) % checks_.sample_one_in == 0;
    case HashCheck::kOff: return false;
  }
  return true;
}

uint64_t CheckedFile::BeginOf(uint64_t block) const {
  return block * checks_.expected->block_bytes;
}

uint64_t CheckedFile::EndOf(uint64_t block) const {
  return std::min(bytes_, BeginOf(block) + checks_.expected->block_bytes);
}

std::optional<BadBlock> CheckedFile::Compare(uint64_t block,
                                             uint64_t hash) const {
  const uint64_t expected = checks_.expected->blocks[block];
  if (hash == expected) return std::nullopt;
  BadBlock bad{.index = block, .begin = BeginOf(block), .end = EndOf(block)};
  bad.text = absl::StrFormat(
      "block %d (bytes %d to %d) has XXH3 %016x; %016x was written", bad.index,
      bad.begin, bad.end, hash, expected);
  return bad;
}

absl::Status CheckedFile::ReadUnchecked(uint64_t offset, uint64_t bytes,
                                        void* to) {
  absl::Status status = file_->Read(offset, bytes, to);
  if (!absl::IsOutOfRange(status)) return status;
  return absl::DataLossError(
      absl::StrCat("the file has become shorter: ", status.message()));
}

absl::Status CheckedFile::ReadBlock(uint64_t block, void* to) {
  const uint64_t begin = BeginOf(block), bytes = EndOf(block) - begin;
  absl::Status status = ReadUnchecked(begin, bytes, to);
  if (!status.ok()) return status;
  const auto bad = Compare(
      block, HashBlock(absl::string_view(static_cast<char*>(to), bytes)));
  return bad.has_value() ? absl::DataLossError(bad->text) : absl::OkStatus();
}

absl::Status CheckedFile::Cache(uint64_t block) {
  if (cached_ == block) return absl::OkStatus();
  cached_.reset();
  cache_.resize(EndOf(block) - BeginOf(block));
  absl::Status status = ReadBlock(block, cache_.data());
  if (status.ok()) cached_ = block;
  return status;
}

uint64_t CheckedFile::UncheckedEnd(uint64_t offset, uint64_t end) const {
  if (checks_.check == HashCheck::kOff) return end;
  const uint64_t block_bytes = checks_.expected->block_bytes;
  while (offset < end && !IsChecked(offset / block_bytes)) {
    offset = EndOf(offset / block_bytes);
  }
  return std::min(offset, end);
}

absl::Status CheckedFile::Read(uint64_t offset, uint64_t bytes, void* to) {
  if (offset > bytes_ || bytes > bytes_ - offset) {
    return absl::OutOfRangeError(absl::StrCat(bytes, " bytes from ", offset,
                                              " on; the file has ", bytes_));
  }
  const uint64_t end = offset + bytes;
  char* out = static_cast<char*>(to);
  while (offset < end) {
    uint64_t next = UncheckedEnd(offset, end);
    absl::Status status;
    if (next > offset) {
      status = ReadUnchecked(offset, next - offset, out);
    } else {
      const uint64_t block = offset / checks_.expected->block_bytes;
      next = std::min(end, EndOf(block));
      const bool is_whole = offset == BeginOf(block) && next == EndOf(block);
      if (is_whole && cached_ != block) {
        status = ReadBlock(block, out);
      } else {
        status = Cache(block);
        if (status.ok()) {
          std::memcpy(out, cache_.data() + (offset - BeginOf(block)),
                      next - offset);
        }
      }
    }
    if (!status.ok()) return status;
    out += next - offset;
    offset = next;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BadBlock>> CheckedFile::VerifyAll() {
  if (!checks_.expected.has_value()) {
    return absl::FailedPreconditionError("no hashes to compare with");
  }
  const ContentHashes& expected = *checks_.expected;
  ContentHasher hasher(expected.block_bytes);
  std::string bytes;
  for (uint64_t block = 0; block < expected.blocks.size(); ++block) {
    bytes.resize(EndOf(block) - BeginOf(block));
    absl::Status status =
        ReadUnchecked(BeginOf(block), bytes.size(), bytes.data());
    if (!status.ok()) return status;
    hasher.Update(bytes);
  }
  const ContentHashes found = hasher.hashes();
  std::vector<BadBlock> bad;
  for (uint64_t block = 0; block < found.blocks.size(); ++block) {
    auto wrong = Compare(block, found.blocks[block]);
    if (wrong.has_value()) bad.push_back(*std::move(wrong));
  }
  if (!bad.empty() || found.file == expected.file) return bad;
  return absl::DataLossError(absl::StrCat(
      "has XXH3 ", found.file, " as a whole; ", expected.file,
      " was written, although the hashes of all blocks are right"));
}

}  // namespace lockstep::checkpoint
