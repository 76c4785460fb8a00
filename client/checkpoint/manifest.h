// The manifest of a checkpoint, MANIFEST.json: which tensors there are, which
// file has which slice of each, and the hashes of the files.
//
//   tensor "w" f32[4,6]          mesh data=1,model=2
//     rank-0.safetensors  [0,0] [4,3]
//     rank-1.safetensors  [0,3] [4,3]
//
// A checkpoint is complete if its manifest is: the manifest is written last. It
// ends with the hash of its own text.
//
// Threads: pure functions.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_MANIFEST_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/checkpoint/content_hash.h"
#include "client/checkpoint/tiling.h"
#include "lockstep/mesh.h"
#include "lockstep/tensor_type.h"
#include "lockstep/training_state.h"

namespace lockstep::checkpoint {

inline constexpr char kManifestName[] = "MANIFEST.json";
inline constexpr int kManifestVersion = 1;

// A part of a tensor: the tensor `stored_as` of a file. A whole tensor is one
// slice.
struct ManifestSlice {
  std::string file;
  std::string stored_as;
  // In the global tensor; its shape is that of `stored_as`. A rank without
  // elements has no slice.
  TensorBox box;
  bool operator==(const ManifestSlice&) const = default;
};

struct ManifestTensor {
  std::string name;
  TensorType type;  // with the global shape
  std::vector<ManifestSlice> slices;
  bool operator==(const ManifestTensor&) const = default;
};

struct ManifestFile {
  std::string name;
  ContentHashes hashes;  // and the size
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::string job;
  int64_t step = 0;
  int64_t epoch = 0;    // of the job's members
  int64_t attempt = 0;  // to save this step in this epoch
  Mesh mesh;            // of the ranks that wrote
  TrainingState training;
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestFile> files;
  // Made from files of another program (foreign.h), and never written: files
  // may be in folders below the manifest's, have no hashes, and may hold more
  // than the tensors that are listed.
  bool is_foreign = false;
  bool operator==(const Manifest&) const = default;
};

// InvalidArgument names the tensor or file. Names of files are plain: printable
// UTF-8 without '/', no leading '.', not the manifest's own, each once. Names
// of tensors are printable, each once. The slices of a tensor fill its shape
// exactly once, are in listed files, and no two have one `stored_as` in one
// file. Numbers are at least 0, the learning rate is finite, the mesh is valid,
// and a file has as many hashes as blocks. A foreign manifest has paths without
// "." and ".." for names of files, and no hashes.
absl::Status Validate(const Manifest& manifest);
// The part of it that is about the training state.
absl::Status Validate(const TrainingState& training);

// The text of a valid manifest, UTF-8, a line for each tensor and file. The
// same manifest gives the same bytes. Errors are those of Validate, and
// InvalidArgument for a foreign manifest.
absl::StatusOr<std::string> FormatManifest(const Manifest& manifest);

// The inverse. DataLoss if the hash at the end is not that of the text: a byte
// was changed or is missing. Unimplemented for a newer version. InvalidArgument
// for anything else: no JSON, a key twice, a field that is missing or not
// known, a value of another kind (the path, such as tensors[3].slices[0].file,
// is named), and the errors of Validate.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_MANIFEST_H_
