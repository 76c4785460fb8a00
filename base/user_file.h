// Reads and writes whole files that users name: specs, plans, data, drawings.
//
// A name can refer to a directory, a shell's pipe (`-f <(make-spec)`), a named
// pipe, or an endless device. Regular files, the shell's pipes and devices are
// read, up to a limit. A named pipe may have no other end, and is refused.
//
// Threads:  all functions from any thread. Blocking: a pipe is read to its end.
// Errors:   name the path and the fault.

#ifndef LOCKSTEP_BASE_USER_FILE_H_
#define LOCKSTEP_BASE_USER_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// NotFound, PermissionDenied and other errors of the kernel; InvalidArgument: a
// directory, a named pipe, or more than `bytes_max`.
absl::StatusOr<std::string> ReadUserFile(const std::string& path,
                                         size_t bytes_max);

// Replaces an existing file. After an error the file may be incomplete.
// InvalidArgument: a directory or a named pipe.
// FailedPrecondition, and nothing is written, if the name is a link that
// another user has planted (link_owner.h).
absl::Status WriteUserFile(const std::string& path, absl::string_view bytes);

// The limit for handwritten files, such as specs.
inline constexpr size_t kHandwrittenBytesMax = size_t{64} << 20;

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_USER_FILE_H_
