#include "client/checkpoint/tensor_files.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace lockstep::checkpoint {
namespace {

// JSON without names and shapes, and the padding.
constexpr uint64_t kFixedBytes = kHeaderPrefixBytes + kDataAlignment + 32;
// A tensor's JSON without its name and shape.
constexpr uint64_t kEntryBytes = 96;
// A number, with its comma.
constexpr uint64_t kNumberBytes = 21;
// A byte of a name may be written as an escape such as \u001f.
constexpr uint64_t kEscapeBytes = 6;

// At most what the tensor takes in its file, with its part of the header.
absl::StatusOr<uint64_t> BytesInFile(const NamedType& tensor) {
  const absl::StatusOr<uint64_t> data = TensorBytes(tensor.type);
  const uint64_t entry = kEntryBytes + kEscapeBytes * tensor.name.size() +
                         kNumberBytes * tensor.type.shape.size();
  if (data.ok() && *data <= std::numeric_limits<uint64_t>::max() - entry) {
    return *data + entry;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      TensorText(tensor.name), " ",
      data.ok() ? "is too large" : std::string(data.status().message())));
}

}  // namespace

absl::StatusOr<std::vector<std::vector<size_t>>> SpreadOverFiles(
    absl::Span<const NamedType> tensors, uint64_t file_bytes_max,
    uint64_t metadata_bytes) {
  std::vector<std::vector<size_t>> files;
  uint64_t left = 0;  // in the last file
  for (size_t i = 0; i < tensors.size(); ++i) {
    const absl::StatusOr<uint64_t> bytes = BytesInFile(tensors[i]);
    if (!bytes.ok()) return bytes.status();
    if (files.empty() || *bytes > left) {
      files.emplace_back();
      const uint64_t fixed = kFixedBytes + metadata_bytes;
      left = file_bytes_max > fixed ? file_bytes_max - fixed : 0;
    }
    files.back().push_back(i);
    left -= std::min(left, *bytes);
  }
  return files;
}

}  // namespace lockstep::checkpoint
