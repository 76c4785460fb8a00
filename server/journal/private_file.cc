#include "server/journal/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/link_owner.h"

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

absl::Status PrepareFolder(FileSystem* files, const std::string& folder,
                           StoreAccess access) {
  if (absl::Status fit = CheckLinkOwner(folder); !fit.ok()) return fit;
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0) {
    if (errno != ENOENT || access != StoreAccess::kWrite) {
      return absl::ErrnoToStatus(errno, absl::StrCat("journal ", folder));
    }
    if (mkdir(folder.c_str(), 0700) != 0) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("cannot create the journal's folder ", folder));
    }
    const size_t slash = folder.find_last_of('/');
    return files->SyncDirectory(slash == std::string::npos ? "."
                                : slash == 0               ? "/"
                                             : folder.substr(0, slash));
  }
  if (!S_ISDIR(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("journal ", folder, " is not a folder"));
  }
  if (access == StoreAccess::kWrite && found.st_uid != 0 &&
      found.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the journal's folder %s belongs to user %d, and this process runs as "
        "user %d: run it as that user, or name another folder",
        folder, found.st_uid, geteuid()));
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "other users may write to the journal's folder %s (mode %o): make it "
        "0700, or name a folder inside it, which is created so",
        folder, found.st_mode & 07777));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::journal
