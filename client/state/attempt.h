// One attempt to save a step: this rank's files in the attempt's folder, and
// the manifest that commits them.
//
// Threads: the caller's, which blocks until all is durable.
// Errors:  with the file, and the tensor if there is one.

#ifndef LOCKSTEP_CLIENT_STATE_ATTEMPT_H_
#define LOCKSTEP_CLIENT_STATE_ATTEMPT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "client/checkpoint/directory.h"
#include "client/checkpoint/tensor_files.h"
#include "client/state/checkpoint_job.h"
#include "lockstep/checkpoint_name.h"
#include "lockstep/training_state.h"

namespace lockstep::state {

// The attempt's folder in DIR/checkpoints.
checkpoint::AttemptFolder FolderOf(const std::string& directory,
                                   const CheckpointName& attempt);

// The names of job.written in this rank's files: the tensor's own name, and
// with " [0,3]", where it begins, if this rank writes several boxes of the
// tensor. Unique.
std::vector<std::string> StoredNames(const CheckpointJob& job);

struct RankFiles {
  // The bytes of job.written[part].
  std::function<const void*(size_t part)> at;
  // Called with the bytes that are written so far, the headers excluded.
  std::function<void(uint64_t)> on_progress;
  uint64_t file_bytes_max = checkpoint::kFileBytesMax;
};

// Creates the folder, or finds it made by another rank, and writes
// rank-R.safetensors, or rank-R-0 and so on if one file is not enough, and then
// the part. All of it is durable then. Returns the part's hash.
//
// AlreadyExists for files that are there: attempts have new numbers.
absl::StatusOr<std::string> WriteRankFiles(
    FileSystem* files, const checkpoint::AttemptFolder& folder,
    const CheckpointJob& job, const TrainingState& training,
    const RankFiles& rank_files);

// Joins the parts of all ranks, whose hashes these are, and commits the
// attempt. If another member has committed it, OK.
absl::Status CommitParts(FileSystem* files,
                         const checkpoint::AttemptFolder& folder,
                         const CheckpointJob& job,
                         const std::vector<std::string>& part_hashes);

// Removes the parts of a committed attempt, which nobody needs. What cannot be
// removed stays, and does no harm.
void RemoveParts(FileSystem* files, const checkpoint::AttemptFolder& folder,
                 const CheckpointJob& job);

// Removes what the retention does not keep after `committed` was committed, and
// earlier attempts that were given up. Keeps `committed`, whatever its step,
// and attempts with higher numbers, which may be in progress.
absl::Status RemoveOld(FileSystem* files, const std::string& directory,
                       const CheckpointName& committed,
                       const checkpoint::Retention& retention);

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_ATTEMPT_H_
