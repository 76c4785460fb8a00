// Secrets in files that only their owner can read.
//
// Threads: any.
// Errors:  NotFound, PermissionDenied and other errors of the file system;
//          InvalidArgument and FailedPrecondition as each function says.
//          Messages name the path, never the secret.

#ifndef LOCKSTEP_BASE_SECRET_FILE_H_
#define LOCKSTEP_BASE_SECRET_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// 256 random bits from the kernel, as 64 hexadecimal digits.
std::string DrawSecret();

// The first line of a file that is not empty, without its line break.
//
// FailedPrecondition if other users can read or change the file: it must be a
// regular file of this user with mode 0600 or less, or one of root with mode
// 0640 or less, as container orchestrators mount them. InvalidArgument if there
// is no such line.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// All lines of such a file but empty ones, without their line breaks. Errors as
// of ReadSecretFile; InvalidArgument also for 4096 bytes or more.
absl::StatusOr<std::vector<std::string>> ReadSecretLines(
    const std::string& path);

// OK if ReadSecretFile accepts the file's kind, owner and mode.
absl::Status CheckSecretFile(const std::string& path);

// Creates `path` with mode 0600 and writes `secret`, and a newline unless it
// ends with one. Replaces an existing file, but never follows a symbolic link.
absl::Status WriteSecretFile(const std::string& path, absl::string_view secret);

// Creates `path` with mode 0700, or accepts an existing directory that this
// user owns and no other user can change; else FailedPrecondition.
absl::Status MakePrivateDirectory(const std::string& path);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_SECRET_FILE_H_
