// Makes a checkpoint of files of other programs, or of another checkpoint,
// which a job can load.
//
// Threads: the caller's, which blocks until the checkpoint is committed.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_IMPORT_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_IMPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/foreign.h"
#include "client/checkpoint/tensor_files.h"
#include "client/checkpoint/whole_tensors.h"

namespace lockstep::checkpoint {

struct ImportOptions {
  // The checkpoint and its training state have this step; nullopt: the step of
  // the source.
  std::optional<int64_t> step;
  uint64_t file_bytes_max = kFileBytesMax;
  CopyProgress on_progress;
};

// Commits a checkpoint of one rank in `directory`/checkpoints, as epoch 0, with
// all tensors, whole, in their dtypes. All hashes are compared if `source` is a
// checkpoint, and so has some. Makes the two directories if they do not
// exist. The parent of `directory` must.
//
// AlreadyExists if there is a committed checkpoint of this step.
// FailedPrecondition if a job uses the directory.
// InvalidArgument for a negative step. Other errors name tensor and file: those
// of CheckpointReader, of WriteSafetensors and of Commit. After an error there
// is no such checkpoint, and what was written of it is removed.
absl::StatusOr<AttemptFolder> Import(FileSystem* files,
                                     const ForeignCheckpoint& source,
                                     const std::string& directory,
                                     const ImportOptions& options = {});

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_IMPORT_H_
