// Loads the tensors of a program from a checkpoint, strictly: all that does not
// fit is listed in one error before a byte is read.
//
//   std::vector<WantedTensor> wanted = {
//       {"w", {DType::kF32, {4, 6}}, {{0, 0}, {2, 6}}, memory}};
//   auto status = LoadTensors(&files, folder, manifest, wanted);
//
// The ranks of a job have parts of its tensors; each rank lists all tensors of
// the job, those that it has no part of without a box.
//
// Threads: the caller's, which blocks until all is read.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_LOAD_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_LOAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "client/checkpoint/checked_file.h"
#include "client/checkpoint/manifest.h"
#include "client/checkpoint/tiling.h"
#include "lockstep/tensor_type.h"

namespace lockstep::checkpoint {

struct WantedTensor {
  std::string name;
  TensorType type;  // with the global shape
  // This rank's part, dense and row-major in `to`. nullopt: the tensor is
  // compared with the checkpoint and not read. A tensor may be listed several
  // times, with other boxes.
  std::optional<TensorBox> box;
  void* to = nullptr;
};

struct LoadOptions {
  HashCheck check = HashCheck::kFull;
  uint64_t sample_seed = 0;
  // From the checkpoint's name to the wanted name. One '*' on each side stands
  // for the same text: {"model.*", "net.*"}; full names go before patterns.
  std::map<std::string, std::string> renamed;
  // Names, after renaming, in which '*' stands for any text: other tensors of
  // the program keep their values, and others of the checkpoint are left out.
  // Empty: all tensors.
  std::vector<std::string> only;
  // Likewise: names that are left out, though `only` may have them.
  std::vector<std::string> except;
};

// FailedPrecondition lists all that contradicts the checkpoint: wanted tensors
// that it does not have and tensors of it that are not wanted, each with the
// nearest name, other shapes, other dtypes (of a tensor whose shape is right),
// names of `renamed` that it does not have or that become one name, patterns of
// it that do not fit or that fit one name, and texts of `only` and `except`
// that no name fits. InvalidArgument for a box that is not inside of its tensor
// or has no memory. Nothing was read then.
//
// Other errors are those of CheckpointReader, after which the memory of the
// wanted tensors has undefined contents. Memory beside theirs: that of a
// CheckpointReader with one open file.
absl::Status LoadTensors(FileSystem* files, const std::string& folder,
                         const Manifest& manifest,
                         absl::Span<const WantedTensor> wanted,
                         const LoadOptions& options = {});

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_LOAD_H_
