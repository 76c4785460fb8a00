// The directory of a job's checkpoints: who may use it, and whether all ranks
// see the same one.
//
//   DIR/checkpoints/lock          held by rank 0: one job at a time
//   DIR/checkpoints/nonce-HEX     written by rank 0, read by all, then removed
//   DIR/checkpoints/step-...      attempts (client/checkpoint/directory.h)
//
// Threads: any. Errors: those of the file system, with the path.

#ifndef LOCKSTEP_CLIENT_STATE_JOB_DIRECTORY_H_
#define LOCKSTEP_CLIENT_STATE_JOB_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "protocol/checkpoint.h"

namespace lockstep::state {

// "DIR/checkpoints"
std::string CheckpointsIn(const std::string& directory);

struct OpenedDirectory {
  std::unique_ptr<FileLock> lock;
  protocol::CheckpointDirectory found;
  absl::Status not_removed;  // why something was left that could go
};

// Sent instead of a nonce by a rank 0 that could not open the directory: it
// differs from opening to opening, too.
std::string NewNonceOfFailure();
bool IsOfFailure(absl::string_view nonce);

// By rank 0: creates DIR and its checkpoints, locks it for `holder`, removes
// saves that were given up and what interrupted removals and openings left, and
// writes the nonce durably.
// FailedPrecondition if another job uses DIR, with its holder.
absl::StatusOr<OpenedDirectory> OpenDirectory(FileSystem* files,
                                              const std::string& directory,
                                              const std::string& nonce,
                                              absl::string_view holder);

// Writes a file in the directory and removes it.
absl::Status TryToWrite(FileSystem* files, const std::string& directory,
                        const std::string& nonce, int rank);

// By every rank: OK if this is the directory that rank 0 has opened. One
// attempt: file systems may show a new file late.
absl::Status ReadNonce(FileSystem* files, const std::string& directory,
                       const std::string& nonce);
// By rank 0, once all have read it.
absl::Status RemoveNonce(FileSystem* files, const std::string& directory,
                         const std::string& nonce);

// 32 random hexadecimal digits.
std::string NewNonce();
// "pid 812 on host node-3": for people.
std::string ThisProcess();

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_JOB_DIRECTORY_H_
