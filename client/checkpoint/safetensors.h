// The safetensors format (https://github.com/huggingface/safetensors): the
// header of a file as a value.
//
//   ┌─────────────┬──────────────────────────────┬──────────────────────┐
//   │ u64: length │ JSON of `length` bytes       │ data of all tensors  │
//   │ of the JSON │ {"w":{...}}, padded by spaces│ without gaps         │
//   └─────────────┴──────────────────────────────┴──────────────────────┘
//   0             8                              data_begin       file size
//
// All numbers are little-endian, tensors are row-major. docs/checkpoints.md has
// the format to the byte.
//
// Written files have their data begin at a multiple of 64 bytes, and tensors of
// larger elements first, so that each tensor is aligned to its elements. Files
// of other writers may have any padding and order.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lockstep/dtype.h"
#include "lockstep/tensor_type.h"

namespace lockstep::checkpoint {

inline constexpr size_t kHeaderPrefixBytes = 8;
// The longest JSON that the reference implementation reads.
inline constexpr uint64_t kHeaderJsonBytesMax = 100'000'000;
inline constexpr size_t kDataAlignment = 64;
inline constexpr size_t kDimensionsMax = 64;  // as NumPy
// The key of the metadata; no tensor can have this name.
inline constexpr char kMetadataKey[] = "__metadata__";

struct StoredTensor {
  std::string name;  // any UTF-8
  TensorType type;   // {} is the shape of a scalar
  // The tensor's bytes in the data: `begin` to before `end`.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
  bool operator==(const StoredTensor&) const = default;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  uint64_t data_bytes() const {
    return tensors.empty() ? 0 : tensors.back().end;
  }
  bool operator==(const SafetensorsHeader&) const = default;
};

// "F32", "BF16", "F8_E4M3", ...; empty for c128, which the format has no name
// for, and for invalid values.
std::string_view SafetensorsName(DType dtype);

// The size of a tensor in bytes. InvalidArgument, without the tensor's name,
// for a negative extent, more than kDimensionsMax dimensions, an invalid dtype,
// and a size or product of leading extents that 64 bits cannot have.
absl::StatusOr<uint64_t> TensorBytes(const TensorType& type);

// Orders the tensors, larger elements first and then by name, and sets where
// each begins and ends. Deterministic. Errors are those of TensorBytes, with
// the tensor's name.
absl::Status LayOut(std::vector<StoredTensor>* tensors);

// The file's bytes before the data: its size is where the data begins. Errors
// name the tensor. InvalidArgument: two tensors of one name, a name or metadata
// that is not UTF-8, a tensor called "__metadata__", tensors not laid out one
// after the other, JSON longer than kHeaderJsonBytesMax. Unimplemented: a dtype
// without a name.
absl::StatusOr<std::string> FormatHeader(const SafetensorsHeader& header);

// Where the data begins, from the file's first 8 bytes. InvalidArgument if the
// file is shorter than its header or the header is too long: to be asked before
// memory for the header is allocated.
absl::StatusOr<uint64_t> DataBegin(absl::string_view prefix,
                                   uint64_t file_bytes);

// Parses the file's bytes before its data, in a file of `file_bytes` bytes.
//
// Strict: valid UTF-8 and JSON that begins with '{', no key twice, exactly the
// fields of the format, whole numbers without sign, fraction or exponent,
// data_offsets that agree with dtype and shape, and tensors that fill the data
// without gap, overlap or rest. InvalidArgument names the tensor and what is
// wrong; Unimplemented names one whose dtype is valid, but none of Lockstep's.
absl::StatusOr<SafetensorsHeader> ParseHeader(absl::string_view bytes,
                                              uint64_t file_bytes);

// `tensor "NAME"`, printable and shortened: for messages.
std::string TensorText(absl::string_view name);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_H_
