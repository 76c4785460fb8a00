// Tensors in files of other programs, seen as a checkpoint, so that
// CheckpointReader, LoadTensors and Consolidate read them.
//
// They have no hashes: all reads need HashCheck::kOff. Their manifest is made
// from the headers of the files and is foreign (manifest.h).
//
// Threads: the caller's, which blocks until the headers are read.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_FOREIGN_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_FOREIGN_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/manifest.h"

namespace lockstep::checkpoint {

struct ForeignCheckpoint {
  std::string folder;  // of the manifest's files
  Manifest manifest;
};

// One safetensors file. Its metadata become the training state
// (training_texts.h). Errors are those of SafetensorsReader and TrainingOf, and
// InvalidArgument for a name that is not printable.
absl::StatusOr<ForeignCheckpoint> ReadPlainFile(FileSystem* files,
                                                const std::string& path);

// A safetensors file, or a folder in the layout of seed_layout.h. NotFound if
// `path` is neither; else the errors of the two.
absl::StatusOr<ForeignCheckpoint> ReadForeign(FileSystem* files,
                                              const std::string& path);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_FOREIGN_H_
