// A process's limit of open files, for those who meet it: sockets, memory and
// timers are files, too.

#ifndef LOCKSTEP_BASE_OPEN_FILES_H_
#define LOCKSTEP_BASE_OPEN_FILES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// Whether a call that failed with `error`, an errno, found no free descriptor,
// or no memory of the kernel's for one.
bool IsOutOfFiles(int error);

// How many descriptors this process may have: the soft limit of now.
int64_t OpenFilesLimit();

// Raises the soft limit to the hard one. For daemons, which do not call
// select(); a child would inherit it.
void RaiseOpenFilesLimit();

// Whether one more file can be opened now: for errors of libraries that do not
// say why. It opens one.
bool CanOpenFile();

// Whether `more` files can be opened beside those that are; ResourceExhausted
// names the limit that would do. For libraries that abort when they find none.
absl::Status RequireOpenFiles(int more);

// ResourceExhausted: names the limit, what failed (`said`: "socket: Too many
// open files") and what to do.
absl::Status OutOfFiles(absl::string_view said);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_OPEN_FILES_H_
