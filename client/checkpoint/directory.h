// The checkpoints of a job in one directory: a folder for each attempt to save.
//
//   DIR/step-20-epoch-3-attempt-1/            committed: has a manifest
//         MANIFEST.json  rank-0.safetensors  rank-1.safetensors
//   DIR/step-30-epoch-3-attempt-1/            not committed: being written, or
//         rank-0.safetensors                  given up
//   DIR/removed-step-10-epoch-3-attempt-1/    being removed
//
// The manifest is written last, and atomically: what has one is complete. A
// folder is renamed before it is removed, so that a writer that is late fails
// instead of leaving a part of a checkpoint behind.
//
// Threads: any; several processes may use one directory, but one attempt is
//          created, committed and removed by one.
// Errors:  the file system's, with the path.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_DIRECTORY_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "client/checkpoint/manifest.h"
#include "lockstep/checkpoint_name.h"

namespace lockstep::checkpoint {

// A file in the directory, locked by what adds checkpoints: one job at a time.
inline constexpr char kDirectoryLockName[] = "lock";

// "step-20-epoch-3-attempt-1"
std::string FolderName(const CheckpointName& id);
// The inverse; nullopt for any other text.
std::optional<CheckpointName> ParseFolderName(absl::string_view name);

struct AttemptFolder {
  CheckpointName id;
  std::string path;
  bool committed = false;  // has a manifest, which may be damaged
  bool damaged = false;    // see MarkDamaged
};

// The attempts in `directory`, in rising order. Other names are left out.
// NotFound if there is no such directory.
absl::StatusOr<std::vector<AttemptFolder>> ListAttempts(
    FileSystem* files, const std::string& directory);

// The committed attempts that a user means by `path`: the attempt in this
// folder itself, those in it, or those in its folder "checkpoints". Rising.
// NotFound if there are none.
absl::StatusOr<std::vector<AttemptFolder>> FindCommitted(
    FileSystem* files, const std::string& path);

// The newest of `folders` (rising) that is committed; with `step`, of those of
// that step. NotFound names `path`, where they are, and the steps that there
// are.
absl::StatusOr<AttemptFolder> NewestOf(
    const std::string& path, const std::vector<AttemptFolder>& folders,
    std::optional<int64_t> step);

// Makes the folder of an attempt, durably, and returns its path. AlreadyExists
// if there was this attempt before.
absl::StatusOr<std::string> CreateAttempt(FileSystem* files,
                                          const std::string& directory,
                                          const CheckpointName& id);

// Writes the manifest of an attempt whose files are durable, which commits it,
// and before it the index of its whole tensors (weight_index.h).
// After an error, or a crash meanwhile, it is committed or not, never half.
// InvalidArgument for a manifest that is not valid, or of another attempt.
absl::Status Commit(FileSystem* files, const AttemptFolder& folder,
                    const Manifest& manifest);

// NotFound for an attempt that is not committed. DataLoss and InvalidArgument,
// with the path, for a damaged manifest, or one of another attempt.
absl::StatusOr<Manifest> ReadManifest(FileSystem* files,
                                      const AttemptFolder& folder);

// Removes an attempt. After a crash meanwhile it is complete, or no longer
// listed.
absl::Status RemoveAttempt(FileSystem* files, const AttemptFolder& folder);
// Removes what removals that were interrupted have left. Returns how many.
absl::StatusOr<int> RemoveLeftovers(FileSystem* files,
                                    const std::string& directory);

// Reads the manifests of committed attempts, and marks those that are damaged.
void MarkDamaged(FileSystem* files, std::vector<AttemptFolder>* folders);

struct Retention {
  int64_t keep_last = 1;   // the newest committed ones: at least 1
  int64_t keep_every = 0;  // and those whose step is a multiple; 0: none
};

// The attempts that may go: committed ones that are not kept, and those that
// were given up, which are older than the newest committed one. Newer ones may
// still be written. Damaged ones neither count nor go. `folders`: rising.
std::vector<AttemptFolder> ToRemove(const std::vector<AttemptFolder>& folders,
                                    const Retention& retention);

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_DIRECTORY_H_
