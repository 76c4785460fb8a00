#include "client/checkpoint/safetensors_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text/count.h"

namespace lockstep::checkpoint {
namespace {

constexpr size_t kBlocksNamed = 3;
constexpr size_t kTensorsNamed = 16;  // of a block

struct OpenedHeader {
  SafetensorsHeader header;
  uint64_t data_begin = 0;
};

absl::StatusOr<OpenedHeader> ReadHeader(CheckedFile* file) {
  std::array<char, kHeaderPrefixBytes> prefix{};
  const uint64_t prefix_bytes =
      std::min<uint64_t>(prefix.size(), file->bytes());
  absl::Status status = file->Read(0, prefix_bytes, prefix.data());
  if (!status.ok()) return status;
  const absl::StatusOr<uint64_t> data_begin =
      DataBegin(absl::string_view(prefix.data(), prefix_bytes), file->bytes());
  if (!data_begin.ok()) return data_begin.status();
  std::string bytes(*data_begin, '\0');
  status = file->Read(0, bytes.size(), bytes.data());
  if (!status.ok()) return status;
  absl::StatusOr<SafetensorsHeader> header = ParseHeader(bytes, file->bytes());
  if (!header.ok()) return header.status();
  return OpenedHeader{*std::move(header), *data_begin};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(
    FileSystem* files, const std::string& path, ReadChecks checks) {
  absl::StatusOr<CheckedFile> file =
      CheckedFile::Open(files, path, std::move(checks));
  if (!file.ok()) return file.status();
  absl::StatusOr<OpenedHeader> opened = ReadHeader(&*file);
  if (absl::IsInvalidArgument(opened.status())) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", opened.status().message()));
  }
  if (!opened.ok()) return WithContext(path, opened.status());
  return std::unique_ptr<SafetensorsReader>(new SafetensorsReader(
      path, *std::move(file), std::move(opened->header), opened->data_begin));
}

SafetensorsReader::SafetensorsReader(std::string path, CheckedFile file,
                                     SafetensorsHeader header,
                                     uint64_t data_begin)
    : path_(std::move(path)),
      file_(std::move(file)),
      header_(std::move(header)),
      data_begin_(data_begin) {
  for (const StoredTensor& tensor : header_.tensors) {
    by_name_.emplace(tensor.name, &tensor);
  }
}

const StoredTensor* SafetensorsReader::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

absl::Status SafetensorsReader::Read(const StoredTensor& tensor,
                                     uint64_t offset, uint64_t bytes,
                                     void* to) {
  const bool is_inside =
      offset <= tensor.bytes() && bytes <= tensor.bytes() - offset;
  absl::Status status =
      is_inside ? file_.Read(data_begin_ + tensor.begin + offset, bytes, to)
                : absl::OutOfRangeError(absl::StrCat(
                      bytes, " bytes from ", offset,
                      " on were asked for; it has ", tensor.bytes()));
  if (status.ok()) return status;
  return WithContext(absl::StrCat(path_, ": ", TensorText(tensor.name)),
                     status);
}

std::string SafetensorsReader::ContentsOf(uint64_t begin, uint64_t end) const {
  std::vector<std::string> contents;
  if (begin < data_begin_) contents.push_back("the header");
  size_t more = 0;
  for (const StoredTensor& tensor : header_.tensors) {
    const bool is_in = data_begin_ + tensor.begin < end &&
                       begin < data_begin_ + tensor.end && tensor.bytes() > 0;
    if (!is_in) continue;
    if (contents.size() < kTensorsNamed) {
      contents.push_back(TensorText(tensor.name));
    } else {
      ++more;
    }
  }
  if (more > 0) contents.push_back(Count(more, "more tensor"));
  return absl::StrJoin(contents, ", ");
}

absl::Status SafetensorsReader::VerifyAll() {
  const absl::StatusOr<std::vector<BadBlock>> bad = file_.VerifyAll();
  if (!bad.ok()) return WithContext(path_, bad.status());
  if (bad->empty()) return absl::OkStatus();
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(bad->size(), kBlocksNamed); ++i) {
    const BadBlock& block = (*bad)[i];
    texts.push_back(absl::StrCat(block.text, ", with ",
                                 ContentsOf(block.begin, block.end)));
  }
  if (bad->size() > kBlocksNamed) {
    texts.push_back(absl::StrCat(
        Count(bad->size() - kBlocksNamed, "more block"),
        bad->size() == kBlocksNamed + 1 ? " is wrong" : " are wrong"));
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": ", absl::StrJoin(texts, "; ")));
}

}  // namespace lockstep::checkpoint
