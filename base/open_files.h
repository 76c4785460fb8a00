// A process's limit of open files. Sockets, shared memory and timers count too.

#ifndef LOCKSTEP_BASE_OPEN_FILES_H_
#define LOCKSTEP_BASE_OPEN_FILES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// Whether `error`, the errno of a failed call, means that no descriptor was
// free, or no kernel memory for one.
bool IsOutOfFiles(int error);

// The current soft limit of descriptors of this process.
int64_t OpenFilesLimit();

// Raises the soft limit to the hard one. For daemons that do not call select().
// Child processes inherit it.
void RaiseOpenFilesLimit();

// Whether one more file can be opened now, for errors of libraries without a
// reason. Opens and closes one.
bool CanOpenFile();

// OK if `more` files can be opened; else ResourceExhausted, with the limit that
// suffices. For libraries that abort without a free descriptor.
absl::Status RequireOpenFiles(int more);

// ResourceExhausted: names the limit, the error (`said`: "socket: Too many open
// files") and a remedy.
absl::Status OutOfFiles(absl::string_view said);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_OPEN_FILES_H_
