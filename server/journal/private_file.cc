#include "server/journal/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"

namespace lockstep::journal {

absl::StatusOr<FileDescriptor> OpenPrivateFile(const std::string& path) {
  FileDescriptor fd(
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat found = {};
  if (!fd.valid() || fstat(fd.get(), &found) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  if (found.st_uid == geteuid() && (found.st_mode & 07777) != 0600 &&
      fchmod(fd.get(), 0600) != 0) {
    return absl::ErrnoToStatus(errno, path);
  }
  return fd;
}

}  // namespace lockstep::journal
