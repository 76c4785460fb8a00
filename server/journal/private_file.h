// The folder and the files of a journal, which only their owner may read: what
// the daemon has promised, and hashes of tokens, are in them.

#ifndef LOCKSTEP_SERVER_JOURNAL_PRIVATE_FILE_H_
#define LOCKSTEP_SERVER_JOURNAL_PRIVATE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.h"
#include "base/file_system.h"

namespace lockstep::journal {

enum class StoreAccess : uint8_t {
  kWrite = 1,  // creates the folder and the journal if they do not exist
  kInspect,    // changes no file but the lock
  kRead,       // changes no file, and makes none
};

// Opens a file for reading and writing, and creates it if it does not exist.
// Sets its mode to 0600, also that of an existing file of this user. Follows no
// symbolic link.
absl::StatusOr<FileDescriptor> OpenPrivateFile(const std::string& path);

// Creates the folder, if it is to be written and does not exist.
// FailedPrecondition: others may write to it, it is another user's, a link of
// another user, or not a folder.
absl::Status PrepareFolder(FileSystem* files, const std::string& folder,
                           StoreAccess access);

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_PRIVATE_FILE_H_
