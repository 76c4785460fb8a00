// Divides tensors over files of a limited size.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_TENSOR_FILES_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_TENSOR_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/safetensors.h"
#include "lockstep/tensor_type.h"

namespace lockstep::checkpoint {

inline constexpr uint64_t kFileBytesMax = uint64_t{4} << 30;

struct NamedType {
  std::string name;
  TensorType type;
};

// The tensors of each file, as indices in rising order. Tensors keep their
// order: the next one begins a new file if the file in progress, header
// included, could become larger than `file_bytes_max`. A tensor is never
// divided; one that is larger than the limit has a file of its own, which is
// larger than the limit. Without tensors there is no file.
//
// InvalidArgument names a tensor whose size overflows.
absl::StatusOr<std::vector<std::vector<size_t>>> SpreadOverFiles(
    absl::Span<const NamedType> tensors,
    uint64_t file_bytes_max = kFileBytesMax, uint64_t metadata_bytes = 0);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_TENSOR_FILES_H_
