// Files that people name, whole: specs, plans, data, drawings.
//
// A name can stand for anything: a directory, a pipe of the shell's
// (`-f <(make-spec)`), a device without an end. Read are regular files, pipes
// and devices, up to a bound.
//
// Threads: all functions from any thread. Blocking: a pipe is read to its end.
// Errors:  name the path, and what is wrong with it.

#ifndef LOCKSTEP_BASE_USER_FILE_H_
#define LOCKSTEP_BASE_USER_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// NotFound, PermissionDenied and what else the kernel says; InvalidArgument: a
// directory, or more than `bytes_max`.
absl::StatusOr<std::string> ReadUserFile(const std::string& path,
                                         size_t bytes_max);

// Replaces what was there. After an error the file may hold a part.
absl::Status WriteUserFile(const std::string& path, absl::string_view bytes);

// A bound for files that are written by hand, such as specs.
inline constexpr size_t kHandwrittenBytesMax = size_t{64} << 20;

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_USER_FILE_H_
