// Files of a journal, which only their owner may read: what the daemon has
// promised, and hashes of tokens, are in them.

#ifndef LOCKSTEP_SERVER_JOURNAL_PRIVATE_FILE_H_
#define LOCKSTEP_SERVER_JOURNAL_PRIVATE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace lockstep::journal {

// Opens a file for reading and writing, and creates it if it does not exist.
// Its mode is 0600 then: an existing file of this user that had another is
// given that one. Follows no symbolic link.
absl::StatusOr<FileDescriptor> OpenPrivateFile(const std::string& path);

}  // namespace lockstep::journal

#endif  // LOCKSTEP_SERVER_JOURNAL_PRIVATE_FILE_H_
